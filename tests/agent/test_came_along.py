"""Documents that come with a head: taken as if they had been fetched, and only those that the head lists."""

import pytest

from agent.update.came_along import CameAlong
from tests.agent.bench import bench
from tests.fakes.damage import flipped
from tests.journeys.lab import ROUTES
from wire.messages import HeadAnswer


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        found.server.requests.clear()
        yield found


def send(made, *containers):
    """Beside the next head."""

    def beside(head):
        answer = HeadAnswer(head, containers)
        return answer.media_type, answer.to_bytes()

    made.server.beside = beside
    made.server.announce()


async def follow(made):
    made.coordinator.poll_again_at = 0.0
    await made.outside.refresh.ask(made.coordinator)
    await made.outside.update.bring_up()


def documents_asked_for(made):
    return [request for request in made.server.requests if "/v1/head" not in request]


def version(made):
    return made.node.holdings.kept.active[ROUTES].version[1]


def changed(made, where):
    return made.server.snapshot({"routes": {where: {}}}, ROUTES)


async def test_what_comes_with_the_head_is_active_without_a_request(made, mock_clock):
    """protocol 1; rules S67"""
    document = changed(made, "south")
    send(made, document.to_bytes())
    await follow(made)
    assert version(made) == 2
    assert documents_asked_for(made) == []
    assert made.outside.update.activating.origins[ROUTES].way == "coordinator"
    assert made.outside.update.fetching.came_along.take(document.envelope.snapshot_id) is None


async def test_a_coordinator_that_sends_the_head_alone_is_asked_for_the_rest(made, mock_clock):
    """One from before, or one that has it not at hand."""
    changed(made, "south")
    send(made)
    await follow(made)
    assert version(made) == 2
    assert documents_asked_for(made) != []


async def test_what_is_spoilt_on_the_way_is_refused_and_fetched(made, mock_clock):
    """rules S28; threats D-48: the same twelve steps, and the same record of it"""
    document = changed(made, "south").to_bytes()
    send(made, flipped(document, 8 * (len(document) - 2)))
    await follow(made)
    assert made.node.store.rejections.last(ROUTES).reason == "content_mismatch"
    assert version(made) == 2
    assert any("documents" in request for request in documents_asked_for(made))


async def test_one_that_takes_the_id_of_what_is_listed_is_not_taken_for_it(made, mock_clock):
    """rules S86: well signed, and not what the head lists; what it lists is fetched"""
    cluster = made.server.cluster
    wanted = changed(made, "south")
    other = cluster.snapshot(
        {"routes": {"west": {}}}, ROUTES, snapshot_id=wanted.envelope.snapshot_id, **made.server.times()
    )
    cluster.published[ROUTES] = wanted
    send(made, other.to_bytes())
    await follow(made)
    assert made.node.store.rejections.last(ROUTES).reason == "not_listed"
    active = made.node.holdings.kept.active[ROUTES]
    assert active.content_hash == wanted.envelope.content_hash


async def test_what_no_head_lists_is_never_looked_at(made, mock_clock):
    """threats D-48: nothing is recorded of it, nothing has changed, and the next valid one is taken"""
    before = version(made)
    unlisted = made.server.propose({"routes": {"north": {}}}, ROUTES)
    made.server.coming.clear()
    send(made, unlisted.to_bytes(), b"no container at all")
    await follow(made)
    assert version(made) == before
    assert made.node.store.rejections.last(ROUTES) is None
    document = changed(made, "south")
    send(made, document.to_bytes())
    await follow(made)
    assert made.node.holdings.kept.active[ROUTES].content_hash == document.envelope.content_hash
    assert documents_asked_for(made) == []


async def test_an_answer_out_of_form_is_none_and_the_next_one_is_taken(made, mock_clock):
    """rules K53: the head in it is not taken either"""
    held = made.node.holdings.held_head
    document = changed(made, "south").to_bytes()
    send(made, document, document)
    await follow(made)
    assert made.node.holdings.held_head == held
    assert version(made) == 1
    assert "twice" in made.coordinator.error
    made.coordinator.not_before = 0.0
    send(made, document)
    await follow(made)
    assert version(made) == 2
    assert documents_asked_for(made) == []


async def test_what_a_newer_answer_has_not_brought_is_gone(made, mock_clock):
    document = changed(made, "south")
    kept = CameAlong()
    kept.replace([document.to_bytes()], made.coordinator)
    kept.replace([], made.coordinator)
    assert kept.take(document.envelope.snapshot_id) is None

"""One scope at the version that the head lists: in which form, from whom, and what each refusal leads to."""

import pytest

from agent.state.plan import plan
from agent.update.admission import Candidate
from agent.update.fetching import FetchOutcome
from store.base.errors import StoreError
from tests.agent.bench import bench
from tests.agent.test_waiting_head import fail_commits
from tests.fakes.cluster import HOUR, key
from tests.fakes.damage import flipped
from tests.journeys.lab import ROUTES


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        one.server.requests.clear()
        yield found


async def obtain(made, scope=ROUTES):
    """After the newest head."""
    made.server.announce()
    await made.take(made.server.cluster.published["head"])
    wanted = {one.scope: one for one in plan(made.node.holdings).wanted}[scope]
    return await made.outside.update.fetching.obtain(wanted, made.node.holder())


def asked(made):
    return [request.split("/v1/")[1].split("/")[0] for request in made.server.requests]


async def test_an_increment_is_asked_for_first(made, mock_clock):
    """rules S24, S81"""
    made.server.publish_increment(ROUTES, sets={"routes": {"south": {}}})
    found = await obtain(made)
    assert isinstance(found, Candidate)
    assert (found.verified.kind, found.source) == ("increment", str(made.coordinator))
    assert asked(made) == ["increments"]


async def test_without_an_increment_the_whole_is_asked_for(made, mock_clock):
    """rules S27: a 404 says so"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    found = await obtain(made)
    assert (found.verified.kind, found.verified.envelope.config_version) == ("snapshot", 2)
    assert asked(made) == ["increments", "documents"]


async def test_an_increment_that_does_not_fit_is_followed_by_the_whole_at_once(made, mock_clock):
    """rules S27, A7, K37: the gap is known until the scope is active"""
    first = made.server.publish_increment(ROUTES, sets={"routes": {"south": {}}})
    made.server.publish_increment(ROUTES, sets={"routes": {"west": {}}})
    made.server.increments[ROUTES, 1] = made.server.increments[ROUTES, 2]
    assert first.envelope.config_version == 2
    found = await obtain(made)
    assert (found.verified.kind, found.verified.envelope.config_version) == ("snapshot", 3)
    assert asked(made) == ["increments", "documents"]
    assert made.node.gaps.scopes == {ROUTES}
    assert made.node.standing().cause == "version_gap"
    await made.outside.update.activating.activate([found])
    assert made.node.gaps.scopes == frozenset()


async def test_a_gap_is_over_also_where_the_whole_failed_at_its_commit(made, mock_clock, monkeypatch):
    """rules A7, L32: it is finished by what comes next, and nothing is recovering then"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    found = await obtain(made)
    made.node.gaps.note(ROUTES)
    fail_commits(monkeypatch, 1)
    with pytest.raises(StoreError):
        await made.outside.update.activating.activate([found])
    assert made.node.gaps.scopes == {ROUTES}
    await made.node.finish_activation()
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 2
    assert made.node.gaps.scopes == frozenset()


async def test_what_the_head_that_is_finished_lists_no_more_does_not_become_active(made, mock_clock, monkeypatch):
    """rules S3, L32: it had failed at its commit while the document was on its way"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    found = await obtain(made)
    wanted = plan(made.node.holdings).wanted
    listed = made.server.cluster.listed()
    head = made.server.announce(scopes={scope: version for scope, version in listed.items() if scope != ROUTES})
    fail_commits(monkeypatch, 1)
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.store.is_unfinished
    await made.outside.update._take([found], wanted)
    assert made.node.holdings.held_head == head.envelope.version
    assert made.node.holdings.view.scopes[ROUTES].identity[1] == 1


async def test_a_bad_document_blames_its_source_and_is_asked_for_elsewhere(made, mock_clock):
    """rules S28, threats D-48: a coordinator's head is needed all the same, so it does not rest for it"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    made.server.spoil = lambda path, data: flipped(data, 8 * (len(data) - 2)) if "documents" in path else data
    assert await obtain(made) is FetchOutcome.LATER
    assert made.node.store.rejections.last(ROUTES).reason == "content_mismatch"
    assert made.coordinator.is_rested
    assert "content_mismatch" in made.coordinator.error
    made.server.spoil = lambda _, data: data
    assert isinstance(await obtain(made), Candidate)


@pytest.mark.parametrize("bad", ["increments", "increments and documents"])
async def test_a_bad_increment_of_the_only_coordinator_is_followed_by_its_whole(made, mock_clock, bad):
    """rules S27, S28: nobody else could be asked, and what is bad in one form may be good in the other"""
    made.server.publish_increment(ROUTES, sets={"routes": {"south": {}}})
    made.server.spoil = lambda path, data: flipped(data, 8 * (len(data) - 2)) if path.split("/")[2] in bad else data
    found = await obtain(made)
    assert asked(made) == ["increments", "documents"]
    assert made.node.store.rejections.last(ROUTES).reason == "content_mismatch"
    assert "content_mismatch" in made.coordinator.error or isinstance(found, Candidate)
    assert isinstance(found, Candidate) is (bad == "increments")
    made.server.spoil = lambda _, data: data
    assert isinstance(await obtain(made), Candidate)


async def test_an_increment_of_a_key_that_counts_no_more_is_followed_by_the_whole(made, mock_clock):
    """Of what nodes share one coordinator signs the document, another an increment to it: whose key may end first."""
    made.server.publish_increment(ROUTES, sets={"routes": {"south": {}}}, keys=[key("gone")])
    found = await obtain(made)
    assert isinstance(found, Candidate)
    assert (found.verified.kind, found.verified.envelope.config_version) == ("snapshot", 2)
    assert asked(made) == ["increments", "trust", "documents"]


async def test_what_was_signed_and_is_refused_is_given_up(made, mock_clock):
    """rules S52, S53: no source can mend it"""
    made.server.snapshot({"routes": {"password": "swordfish"}}, ROUTES)
    assert await obtain(made) is FetchOutcome.GIVEN_UP
    assert made.node.store.rejections.last(ROUTES).reason == "raw_secret"
    assert made.node.counters.of("alarms") == 1
    assert "swordfish" not in made.node.store.rejections.last(ROUTES).detail


async def test_what_waits_for_its_time_is_settled(made, mock_clock):
    """rules X26"""
    start = int(made.node.now()) + HOUR
    made.server.snapshot({"routes": {"later": {}}}, ROUTES, valid_from=start)
    assert await obtain(made) is FetchOutcome.SETTLED
    assert made.node.store.waiting()[ROUTES].until == start


async def test_below_what_was_accepted_only_a_recovery_leads(made, mock_clock):
    """rules S86, S31, S87"""
    old = made.server.cluster.published[ROUTES]
    newer = made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    await made.take(newer)
    made.server.cluster.published[ROUTES] = old
    assert await obtain(made) is FetchOutcome.GIVEN_UP
    assert asked(made) == ["recoveries"]
    assert made.node.store.rejections.last(ROUTES).reason == "rollback"
    made.server.publish(made.server.cluster.recovery(old))
    found = await obtain(made)
    assert isinstance(found, Candidate)
    assert found.verified.envelope.config_version == 1


async def test_a_newer_trust_bundle_is_fetched_where_it_may_help(made, mock_clock):
    """rules S44, S36: once, then the document is verified again"""
    made.server.cluster.trust("config-more")
    bundle = made.server.cluster.trust_bundle(**made.server.times())
    made.server.publish(bundle)
    made.server.snapshot({"routes": {"south": {}}}, ROUTES, keys=[key("config-more")])
    made.server.cluster.published["trust_bundle"] = made.server.cluster.first_bundle  # the head does not list it
    found = await obtain(made)
    assert isinstance(found, Candidate)
    assert made.node.holdings.bundle.version == 2
    assert asked(made) == ["increments", "documents", "trust", "documents"]


async def test_nobody_answers(made, mock_clock):
    """rules S64: later; the source rests"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    made.server.down = True
    assert await obtain(made) is FetchOutcome.LATER
    assert not made.coordinator.is_rested

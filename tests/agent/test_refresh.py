"""One request for a head after the other: what an answer, a refusal and a silence lead to."""

import pytest
import trio

from tests.agent.bench import bench
from tests.fakes.cluster import HOUR, key
from tests.fakes.damage import flipped
from tests.fakes.signed import signed_head
from tests.journeys.lab import ROUTES
from tests.world import elapsed


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def test_a_head_is_taken_and_the_next_asked_for_at_once(made, mock_clock):
    """rules K30, K32: with what is held, (authority_epoch, generation)"""
    made.server.snapshot({"routes": {"south": {}}}, ROUTES)
    made.server.announce()
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.held_head == (1, 2)
    assert made.node.counters.of("heads_taken") == 2
    assert made.coordinator.may_be_polled
    assert made.node.check_in.confirmed


async def test_an_answer_without_news_was_held_as_long_as_was_asked(made, mock_clock):
    """rules K20, X27: 204 after the wait; asked again at once, and it counts as heard from"""
    made.node.check_in.confirmed = False
    began = trio.current_time()
    await made.outside.refresh.ask(made.coordinator)
    assert elapsed.since(began) >= made.node.settings.intervals.poll_wait_s
    assert made.coordinator.may_be_polled
    assert made.node.check_in.confirmed
    assert made.node.holdings.held_head == (1, 1)


async def test_who_knows_nothing_newer_than_what_has_expired_gives_the_others_their_turn(made, mock_clock):
    """rules K50, X27: else one that answers, and knows nothing, would be the only one that is asked"""
    await trio.sleep(HOUR)
    assert made.node.standing().state == "degraded"
    await made.outside.refresh.ask(made.coordinator)
    assert made.coordinator.is_rested
    assert not made.coordinator.may_be_polled


async def test_who_holds_no_request_is_asked_later(made, mock_clock):
    """protocol.md 1: poll_after_s"""
    made.server._generation = (9, 9)  # it gives what we have, at once
    await made.outside.refresh.ask(made.coordinator)
    rest_s = made.coordinator.poll_again_at - trio.current_time()
    assert rest_s == pytest.approx(made.node.holdings.head.poll_after_s)
    assert made.coordinator.is_rested, "documents may be asked for meanwhile"


async def test_a_head_keeps_the_node_from_nobody_for_longer_than_five_minutes(made, mock_clock):
    """rules X27, K30: whoever can sign a head would else have the last word, and a coordinator that is back none"""
    head = signed_head(made.server.cluster._claims("head", {}), {}, [key("config-1")], poll_after_s=2**53 - 1)
    made.server.say(made.server.cluster.forge(head, keys=[key("config-1")], **made.server.times()))
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.head.poll_after_s == 2**53 - 1
    made.server._generation = (9, 9)
    await made.outside.refresh.ask(made.coordinator)
    assert made.coordinator.poll_again_at - trio.current_time() == pytest.approx(300)


async def test_a_source_that_fails_rests(made, mock_clock):
    """rules X27, A6: a failed check-in alone changes no state"""
    made.server.down = True
    for failures in (1, 2, 3):
        await made.outside.refresh.ask(made.coordinator)
        assert made.coordinator.back_off.failures == failures
    assert not made.coordinator.is_rested
    assert "unavailable" in made.coordinator.error
    assert made.node.standing().state == "active"
    assert made.node.counters.of("head_requests_failed") == 3


async def test_a_bad_head_changes_nothing(made, mock_clock):
    """rules S28, S53: refused for its reason, the source rests, the next good one is taken"""
    made.server.spoil = lambda _, data: flipped(data, 8 * 300)
    made.server.announce()
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.held_head == (1, 1)
    assert made.node.store.rejections.last("head") is not None
    assert made.coordinator.back_off.failures == 1
    made.server.spoil = lambda _, data: data
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.held_head == (1, 2)
    assert made.coordinator.back_off.failures == 0


async def test_an_unsigned_revoked_is_noted_and_stops_nothing(made, mock_clock):
    """rules A9, K22, S60"""
    made.server.refuse = "revoked"
    await made.outside.refresh.ask(made.coordinator)
    assert (made.node.standing().state, made.node.check_in.claimed_revoked) == ("active", str(made.coordinator))
    assert ROUTES in made.node.holdings.scopes


async def test_a_disk_that_refuses_is_no_fault_of_the_task(made, mock_clock, monkeypatch):
    """rules L35, A14"""
    made.server.announce()

    def refuse(step):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(made.disk, "about_to", refuse)
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.held_head == (1, 1)
    monkeypatch.undo()
    await made.outside.refresh.ask(made.coordinator)
    assert made.node.holdings.held_head == (1, 2)

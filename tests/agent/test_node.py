"""What the tasks share: time that is guarded, a store that is changed on one thread, news that wakes who waits."""

import pytest
import trio

from agent.base.guarded_clock import SKEW_S
from snapshot import degraded
from snapshot.degraded import Question
from snapshot.identifiers import HEAD
from store.base.errors import StoreError, StoreFault
from store.base.records import digest_from_name
from tests.agent.bench import bench
from tests.fakes.cluster import HOUR
from tests.journeys.lab import ROUTES


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def test_holdings_are_those_after_the_change_and_who_waits_is_woken(made, mock_clock):
    """rules P4"""
    node, seen, news = made.node, made.node.changed.value, made.node.news.value
    woken = []

    async def wait():
        woken.append(await node.changed.wait_above(seen))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await made.take(made.server.snapshot({"routes": {"south": {}}}, ROUTES))
        assert node.holdings.kept.active[ROUTES].envelope.config_version == 2
    assert woken == [node.changed.value]
    assert node.news.value > news, "an activation is what a report should not wait for"


async def test_a_store_that_refuses_is_remembered_until_it_takes_again(made, mock_clock):
    """rules L35: the fault is in the status, the holdings are as before"""
    node, before = made.node, made.node.holdings

    def refuse():
        raise StoreError(StoreFault.STORE_FULL, "no room")

    with pytest.raises(StoreError):
        await node.change(refuse)
    assert node.store_fault == "store_full"
    assert node.holdings is before
    assert node.counters.of("store_refusals") == 1
    await node.change(lambda: None)
    assert node.store_fault == ""


async def test_a_change_that_has_begun_is_not_abandoned(made, mock_clock):
    """rules L26, M5"""
    node, done = made.node, []
    with trio.CancelScope() as scope:
        scope.cancel()
        await trio.lowlevel.cancel_shielded_checkpoint()
        with pytest.raises(trio.Cancelled):
            await node.change(done.append, 1)
    with trio.CancelScope(deadline=trio.current_time() + 1) as scope:
        await node.change(lambda: done.append(2))
    assert done == [2], "what had not begun did not happen, what had did"


async def test_now_is_never_behind_what_was_signed(made, mock_clock):
    """rules A16, A18: a wall clock that goes back is met, and a check-in puts up with it"""
    node, before = made.node, made.node.now()
    made.lab.clock.wall_offset_s = -HOUR
    assert node.now() >= node.store.time_floor.time
    assert node.now() > before - HOUR
    assert node.facts().clock_regressed
    await node.note_check_in()
    assert node.check_in.confirmed
    assert not node.facts().clock_regressed
    made.lab.clock.wall_offset_s -= SKEW_S + 60
    assert node.facts().clock_regressed


async def test_an_unsigned_revocation_is_noted_and_stops_nothing(made, mock_clock):
    """rules A9: said once in the log, counted each time, over when a coordinator takes us for a member"""
    node = made.node
    assert [node.note_revocation_claim("here"), node.note_revocation_claim("there")] == [True, False]
    assert (node.standing().state, node.counters.of("revocation_claims")) == ("active", 2)
    await node.note_check_in()
    assert node.note_revocation_claim("here")


async def test_what_the_coordinator_recorded_is_behind_until_it_is_reached(made, mock_clock):
    """rules K41"""
    node = made.node
    node.check_in.behind = {ROUTES: (1, 2), "node_bootstrap": (1, 2)}
    assert node.standing().cause == "node_behind"
    await made.take(made.server.snapshot({"routes": {}}, ROUTES))
    assert node.check_in.behind == {"node_bootstrap": (1, 2)}


async def test_what_the_coordinator_recorded_counts_while_the_head_lists_it(made, mock_clock):
    """rules A7, K41, S3"""
    node = made.node
    node.check_in.behind = {ROUTES: (1, 2)}
    made.server.cluster.published.pop(ROUTES)
    await made.take(made.server.cluster.head(**made.server.times()))
    assert node.check_in.behind == {}
    assert node.standing().cause != "node_behind"


async def test_the_bound_of_an_outage_holds_without_a_head(made, mock_clock):
    """rules S57, A7: a head that was lost does not make the permission to go on endless"""
    node, question = made.node, Question("continue_services", resource="nothing")
    await node.change(node.store.withdraw, HEAD, now=node.now())
    left = node.holdings.policy.max_duration_s
    assert node.gate_facts().head_expires_at is None
    assert degraded.fence(node.gate_facts(), node.now()) is None
    await trio.sleep(left + 1)
    assert degraded.fence(node.gate_facts(), node.now()) == "degraded_limit"
    assert degraded.may(question, node.gate_facts(), node.now()).reason == "degraded_limit"


async def test_damage_that_is_met_while_reading_is_taken_out(made, mock_clock):
    """rules L34, J47: the scope leaves what is damaged, the others are read"""
    node = made.node
    await made.take(made.server.snapshot({"routes": {"south": {}}}, ROUTES))
    held = node.holdings.kept.active[ROUTES]
    damage(node.store, f"sha256:{held.sections['routes'].sha256}")
    made.node.reader._grants.clear()
    await node.reload()
    assert node.holdings.kept.active[ROUTES].envelope.config_version == 1
    assert ROUTES in node.facts().on_previous
    assert node.standing().cause == "running_on_previous"


def damage(store, name):
    """The bytes under that name are others."""
    with store._environment.write() as transaction:
        transaction.put("sections", digest_from_name(name), b"other bytes")

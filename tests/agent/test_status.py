"""Changes of state are written down once, told to systemd, and timers only wake who looks."""

import pytest
import trio

from agent.report.status import LOOK_EVERY_S, StatusKeeper
from agent.state.health_rows import OUTAGE_ROW
from store.base.tables import Name
from tests.agent.bench import bench
from tests.fakes.cluster import HOUR
from tests.logs import capture_logs


class Listening:
    """As a `Notifier` towards systemd."""

    def __init__(self):
        self.said = []

    def status(self, text):
        self.said.append(text)


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


def changes(made):
    return [event.detail for event in made.node.store.journal.events(most=100) if event.event == "state_changed"]


async def test_a_change_of_state_is_written_down_once(made, mock_clock):
    """rules A13: time, from, to, reason"""
    told = Listening()
    status = StatusKeeper(made.node, told)
    news = made.node.news.value
    await status.look()
    await status.look()
    assert changes(made) == ["started -> active"]
    assert told.said == ["active"]
    assert made.node.news.value == news + 1, "the next report should not wait for it"
    made.node.membership.other_cluster = True
    await status.look()
    made.node.membership.other_cluster = False
    await status.look()
    assert changes(made)[1:] == ["active -> waiting: token_of_another_cluster", "waiting -> active"]
    assert [each.partition(":")[0] for each in told.said[1:]] == ["waiting token_of_another_cluster", "active"]


async def test_a_node_that_is_no_member_is_told_what_to_do(one, mock_clock):
    """Where an administrator looks first: systemctl status, and the journal"""
    told = Listening()
    async with bench(one) as made:
        with capture_logs() as logged:
            await StatusKeeper(made.node, told).look()
            await made.settle()
            await StatusKeeper(made.node, told).look()
    first, last = told.said
    assert first.startswith("unenrolled not_enrolled: ") and "holdfast join" in first
    assert last == "active"
    lines = [line for line in logged if line["event"] == "state"]
    assert [(line["log_level"], "holdfast join" in line.get("remedy", "")) for line in lines] == [
        ("warning", True), ("info", False),
    ]  # fmt: skip


async def test_time_alone_changes_the_state_when_it_is_due(made, mock_clock):
    """rules X25, A6: the timer wakes at the head's expiry, not before, not long after"""
    told = Listening()
    expires_at = made.node.holdings.head_expires_at
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StatusKeeper(made.node, told).run)
        await trio.sleep(expires_at - made.node.now() - 1)
        assert told.said == ["active"]
        await trio.sleep(1.1)
        assert told.said == ["active", "degraded head_expired"]
        await trio.sleep(2 * HOUR + 1)
        assert told.said[2:] == ["fenced degraded_limit"]
        nursery.cancel_scope.cancel()


async def test_a_wall_clock_that_jumps_is_noticed_soon(made, mock_clock):
    """rules A18"""
    told = Listening()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(StatusKeeper(made.node, told).run)
        await trio.sleep(1)
        made.lab.clock.wall_offset_s = -2 * HOUR
        await trio.sleep(LOOK_EVERY_S + 1)
        assert told.said[-1] == "fenced clock_regressed"
        nursery.cancel_scope.cancel()


async def test_an_outage_outlives_the_process(made, mock_clock):
    """rules J38: kept while it lasts, forgotten when it is over"""
    health = made.node.store.table(Name.HEALTH)
    status = StatusKeeper(made.node, Listening())
    await status.look()
    assert health.get(OUTAGE_ROW) is None
    await trio.sleep(HOUR)
    await status.look()
    kept = health.get(OUTAGE_ROW)
    assert kept["about"] == made.node.holdings.head_hash
    await made.take(made.server.cluster.head(**made.server.times()))
    await status.look()
    assert health.get(OUTAGE_ROW) is None

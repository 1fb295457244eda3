"""Reports of a few milliseconds are one commit, and each is answered after it (protocol 3)."""

from dataclasses import replace

import pytest
import trio
import trio.testing
from sqlalchemy.exc import DataError, OperationalError

from coordinator.base.refusal import Code, Refused
from coordinator.reports import heartbeats
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.collector import HeartbeatCollector, NotRecorded
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.report_merge import RecordedAnswer, RecordedMarks
from tests.coordinator.candidates import NOW, admit, contents, found
from tests.coordinator.reports import events, heartbeat


class Disk:
    """Writes batches when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.fails = False
        self.may_write = trio.Event()

    async def write(self, batch):
        await self.may_write.wait()
        if self.fails:
            raise OperationalError("insert", {}, Exception("disk"))
        self.batches.append([each.node_id for each in batch])
        return [
            RecordedAnswer(number, 0, RecordedMarks({"route_policy": ReportedMark(1, 1)}), {})
            for number, _ in enumerate(batch)
        ]


async def test_reports_share_a_commit_and_are_answered_after_it(autojump_clock) -> None:
    disk = Disk()
    collector = HeartbeatCollector(disk.write)
    answers: list[int] = []

    async def report(number: int) -> None:
        answers.append((await collector.report(heartbeat(f"n{number}"))).generation)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        async with trio.open_nursery() as reports:
            for number in range(20):
                reports.start_soon(report, number)
            await trio.sleep(1)
            assert answers == []
            disk.may_write.set()
        assert sorted(answers) == list(range(20))
        assert len(disk.batches) == 1
        nursery.cancel_scope.cancel()


async def test_a_full_batch_does_not_wait(autojump_clock) -> None:
    disk = Disk()
    disk.may_write.set()
    collector = HeartbeatCollector(disk.write, wait_s=1_000.0, most=4)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        start = trio.current_time()
        async with trio.open_nursery() as reports:
            for number in range(8):
                reports.start_soon(collector.report, heartbeat(f"n{number}"))
        assert [len(batch) for batch in disk.batches] == [4, 4]
        assert trio.current_time() == start
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("before", "batches"), [(1, [1, 1, 1]), (3, [3, 2])])
async def test_after_several_more_are_waited_for(autojump_clock, before: int, batches: list[int]) -> None:
    """a fleet that votes; whoever comes alone does not wait"""
    disk = Disk()
    disk.may_write.set()
    collector = HeartbeatCollector(disk.write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        async with trio.open_nursery() as reports:
            for number in range(before):
                reports.start_soon(collector.report, heartbeat(f"n{number}"))
        async with trio.open_nursery() as reports:
            reports.start_soon(collector.report, heartbeat("soon"))
            await trio.sleep(0.01)
            reports.start_soon(collector.report, heartbeat("later"))
        assert [len(batch) for batch in disk.batches] == batches
        nursery.cancel_scope.cancel()


async def test_a_failed_commit_acknowledges_nothing_and_the_next_goes_well(autojump_clock) -> None:
    """rules P1: the database may be gone for a while."""
    disk = Disk()
    disk.may_write.set()
    disk.fails = True
    collector = HeartbeatCollector(disk.write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        with pytest.raises(NotRecorded):
            await collector.report(heartbeat())
        disk.fails = False
        assert (await collector.report(heartbeat())).generation == 0
        nursery.cancel_scope.cancel()


async def test_a_caller_that_goes_away_holds_nobody_up(autojump_clock) -> None:
    disk = Disk()
    collector = HeartbeatCollector(disk.write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        with trio.move_on_after(1):
            await collector.report(heartbeat("gone"))
        disk.may_write.set()
        assert (await collector.report(heartbeat("there"))).generation == 0
        assert disk.batches == [["gone"], ["there"]]
        nursery.cancel_scope.cancel()


async def test_a_full_queue_makes_the_next_wait(autojump_clock) -> None:
    """What is not taken in is not forgotten either: it goes in as soon as a batch has left."""
    disk = Disk()
    collector = HeartbeatCollector(disk.write, most=2, queue=3)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as reports:
            for number in range(7):
                reports.start_soon(collector.report, heartbeat(f"n{number}"))
                await trio.sleep(0.001)
            nursery.start_soon(collector.run)
            disk.may_write.set()
        assert sorted(node_id for batch in disk.batches for node_id in batch) == [f"n{number}" for number in range(7)]
        assert max(map(len, disk.batches)) == 2
        nursery.cancel_scope.cancel()


# ---- one report that the database does not take


@pytest.mark.parametrize("fault", [{"state": None}, {"body": "a\0b"}])
async def test_one_report_does_not_cost_the_others_theirs(database, fault: dict[str, object]) -> None:
    """rules K53, P23: whatever it is that gets past the reader; it alone is refused, and not told to come again"""
    found(database)
    names = [f"node-{number}" for number in range(7)]
    for node_id in names:
        admit(database, node_id)

    async def write(batch):
        return heartbeats.record(database, batch, now=NOW)

    collector = HeartbeatCollector(write)
    outcomes: dict[str, object] = {}

    async def report(one: ReceivedHeartbeat) -> None:
        try:
            outcomes[one.node_id] = (await collector.report(one)).acknowledged_event
        except Refused as refused:
            outcomes[one.node_id] = refused.code

    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        async with trio.open_nursery() as reporting:
            for node_id in names:
                good = heartbeat(node_id, journal=events(4))
                reporting.start_soon(report, replace(good, **fault) if node_id == "node-5" else good)
        nursery.cancel_scope.cancel()
    taken = dict.fromkeys(names, 4)
    if fault == {"body": "a\0b"} and database.is_sqlite:  # which keeps any text
        assert outcomes == taken
    else:
        assert outcomes == {**taken, "node-5": Code.BAD_REQUEST}
        assert len(contents(database, "node_status")["node_status"]) == 6


async def test_a_database_that_goes_meanwhile_refuses_nobody(autojump_clock) -> None:
    """rules P1: who was not at fault sends it again"""
    calls: list[int] = []

    async def write(batch):
        calls.append(len(batch))
        if len(batch) > 1:
            raise DataError("insert", {}, Exception("one of them"))
        raise OperationalError("insert", {}, Exception("gone"))

    collector = HeartbeatCollector(write)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collector.run)
        async with trio.open_nursery() as reporting:
            for number in range(4):
                reporting.start_soon(_not_recorded, collector, f"n{number}")
        nursery.cancel_scope.cancel()
    assert calls == [4, 2, 1, 1, 2, 1, 1]


async def _not_recorded(collector: HeartbeatCollector, node_id: str) -> None:
    with pytest.raises(NotRecorded):
        await collector.report(heartbeat(node_id))

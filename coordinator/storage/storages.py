"""The task that keeps declared stores up with what is published: the last step of publishing.

What is published is looked at whenever this coordinator has published, and every few seconds for what others have. Each
store has a task of its own, with its own pace: one that is slow, full or away rests ever longer, and neither another
store nor publishing waits for it. What it lacks is not remembered anywhere: it is what the store has not (upkeep.py).

Nothing is written while the database is known to be restored or behind: heads of before would be laid over newer ones.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import trio
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database, in_library, in_planner
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.database.database_fault import line_of
from coordinator.declared import kinds
from coordinator.declared.kinds import StorageEndpoint
from coordinator.storage import storage_records
from coordinator.storage.published_tree import PublishedTree, TreeReader
from coordinator.storage.shards import Shard, wanted_files
from coordinator.storage.storage_error import StorageError
from coordinator.storage.storage_records import KEEP_S, StoreLease, StoreReport
from coordinator.storage.upkeep import StoreUpkeep, WantedFiles
from coordinator.storage.ways import StoreWay, Ways
from snapshot import canonical
from wire.backoff import BackOff
from wire.logs import log

TICK_S = 1.0
MOST_REST_S = 300.0


@dataclass(frozen=True)
class _Look:
    """What there was to be kept up, and where."""

    tree: PublishedTree = field(default_factory=PublishedTree)
    endpoints: Mapping[str, StorageEndpoint] = field(default_factory=dict)
    pins: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # of the members that run one, by its id


@dataclass
class StorageKeeper:
    """`now` reads the clock, in Unix seconds. `published` counts what this coordinator has published; `fault`: why
    nothing may be given out now, or nothing. `check_s`: how often a store is listed; `poll_s`: how often others'
    publications are looked for.
    """

    database: Database
    coordinator_id: str
    ways: Ways
    now: Callable[[], float]
    published: Callable[[], int]
    fault: Callable[[], str]
    check_s: float
    poll_s: float
    reports: dict[str, StoreReport] = field(default_factory=dict)  # of the stores that this coordinator keeps up
    failures: dict[str, int] = field(default_factory=dict)
    _look: _Look = field(default_factory=_Look)
    _looked: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Until cancelled."""
        reader, kept = TreeReader(self.database), set[str]()
        async with trio.open_nursery() as nursery:
            seen, looked_at = -1, float("-inf")
            while True:
                count = self.published()
                if count != seen or trio.current_time() - looked_at >= self.poll_s:
                    seen, looked_at = count, trio.current_time()
                    await self._look_again(reader)
                    for endpoint_id in self._look.endpoints.keys() - kept:
                        kept.add(endpoint_id)
                        nursery.start_soon(self._keep, endpoint_id)
                await trio.sleep(TICK_S)

    async def _look_again(self, reader: TreeReader) -> None:
        if self.fault():
            return
        try:
            endpoints, pins = await in_library(_read_declared, self.database)
            found = (self.ways.find(endpoint, pins.get(name, ())) for name, endpoint in endpoints.items())
            tree = await in_planner(reader.read) if any(found) else PublishedTree()
            if endpoints.keys() != self._look.endpoints.keys():
                await in_database(storage_records.forget_undeclared, self.database, frozenset(endpoints))
        except (SQLAlchemyError, Refused) as error:  # the keeper of the database says why, and this is put off
            reason = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.info("what stores are to hold was not read", reason=reason)
            return
        self._look = _Look(tree, endpoints, pins)
        self._looked.set()
        self._looked = trio.Event()

    async def _keep(self, endpoint_id: str) -> None:
        """Until cancelled; while it is not declared, or there is no way to it, nothing is done."""
        kept: _KeptStore | None = None
        while True:
            looked = self._looked
            endpoint = self._look.endpoints.get(endpoint_id)
            pins = self._look.pins.get(endpoint_id, ())
            way = self.ways.find(endpoint, pins) if endpoint is not None else None
            if endpoint is None or way is None:
                kept = None
                self.reports.pop(endpoint_id, None)
            else:
                if kept is None or kept.way.name != way.name:
                    kept = _KeptStore(self, endpoint_id, way)
                kept.way = way
                await kept.turn(endpoint, self._look.tree)
            await looked.wait()
            await trio.sleep(TICK_S)


class _KeptStore:
    """One store that this coordinator knows a way to."""

    def __init__(self, keeper: StorageKeeper, endpoint_id: str, way: StoreWay) -> None:
        self.way = way
        self._keeper = keeper
        self._upkeep = StoreUpkeep(keeper.database, keeper.check_s)
        self._rest = BackOff(random.uniform, cap_s=MOST_REST_S)
        self._rests_until = float("-inf")
        self._is_ours = self._is_begun = False
        self._report = StoreReport(way.name)
        self._id = endpoint_id
        place = way.place or storage_records.SHARED
        self._lease = StoreLease(keeper.database, endpoint_id, place, keeper.coordinator_id, trio.current_time)

    async def turn(self, endpoint: StorageEndpoint, tree: PublishedTree) -> None:
        """Once, unless it rests."""
        if not self._is_begun:
            await self._recall()
        wanted = await in_library(wanted_files, tree, Shard.of(endpoint))
        await self._note_lacking(wanted)
        if not await self._hold():
            return
        if trio.current_time() < self._rests_until or self._keeper.fault() or not await self._upkeep.is_work(wanted):
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_lease, wanted)
            await self._round(wanted)
            nursery.cancel_scope.cancel()
        await self._hold()

    async def _round(self, wanted: WantedFiles) -> None:
        try:
            async with AsyncExitStack() as stack:
                store = await stack.enter_async_context(self.way.open())
                is_whole = await self._upkeep.bring(store, wanted)
        except StorageError as error:
            self._note_failure(str(error.fault), error.detail, error.retry_after_s)
        except (SQLAlchemyError, Refused) as error:  # ours, and no verdict on the store
            reason = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.info("a store was not brought up to date", storage=self._id, reason=reason)
            self._rests_until = trio.current_time() + self._rest.note_failure()
        else:
            await self._note_round(wanted, is_whole=is_whole)
            return
        await self._note_lacking(wanted)

    async def _recall(self) -> None:
        """How it stood when this coordinator last said something of it, before it was started."""
        try:
            before = await in_library(self._lease.recall)
        except SQLAlchemyError:  # the next turn asks again
            return
        self._is_begun = True
        if before is not None:
            self._report = replace(before, way=self.way.name)
            self._upkeep.written, self._upkeep.removed = before.written, before.removed

    async def _note_round(self, wanted: WantedFiles, *, is_whole: bool) -> None:
        upkeep = self._upkeep
        refused: Sequence[tuple[str, str]] = sorted(upkeep.refused.items())
        if refused:
            path, why = refused[0]
            fault, _, detail = why.partition(": ")
            self._note_failure(fault, f"{path}: {detail}", None)
        else:
            if self._report.fault:
                log.info("a store is written again", storage=self._id)
            self._rest.note_success()
            self._report = replace(self._report, fault="", detail="")
        good_at = self._keeper.now() if is_whole else self._report.good_at
        self._report = replace(self._report, refused=len(refused), good_at=good_at)
        await self._note_lacking(wanted)

    def _note_failure(self, fault: str, detail: str, retry_after_s: float | None) -> None:
        if self._report.fault != fault:
            log.warning("a store is not up to date", storage=self._id, fault=fault, detail=detail)
        failures = self._keeper.failures
        failures[self._id] = failures.get(self._id, 0) + 1
        self._rests_until = trio.current_time() + self._rest.note_failure(retry_after_s)
        self._report = replace(self._report, fault=fault, detail=detail)

    async def _note_lacking(self, wanted: WantedFiles) -> None:
        """As far as is known: until a store has been listed, what was said of it before stands; of one that fails from
        the beginning nothing is known to lie there.
        """
        upkeep = self._upkeep
        self._report = replace(self._report, written=upkeep.written, removed=upkeep.removed)
        if not upkeep.is_known and (self._report.files or not self._report.fault):
            return
        behind = len(await in_library(upkeep.lacking, wanted))
        since = (self._report.behind_since or self._keeper.now()) if behind else None
        self._report = replace(self._report, files=upkeep.files, behind=behind, behind_since=since)

    async def _hold(self) -> bool:
        """Whether it is ours now; who gets it lists it first."""
        was_ours = self._is_ours
        try:
            self._is_ours = await in_database(self._lease.hold, self._report, self._keeper.now())
        except SQLAlchemyError:  # then it may be another one's by now
            self._is_ours = False
        if not self._is_ours:
            self._upkeep.forget()
            self._keeper.reports.pop(self._id, None)
        elif not was_ours:
            self._upkeep.forget()
        if self._is_ours:
            self._keeper.reports[self._id] = self._report
        return self._is_ours

    async def _keep_lease(self, wanted: WantedFiles) -> None:
        while True:
            await trio.sleep(KEEP_S)
            await self._note_lacking(wanted)
            await self._hold_on()

    async def _hold_on(self) -> None:
        """In the middle of a round, which goes on in any case."""
        try:
            await in_database(self._lease.hold, self._report, self._keeper.now())
        except SQLAlchemyError as error:
            log.info("nothing was said of a store", storage=self._id, reason=line_of(error))


def _read_declared(database: Database) -> tuple[dict[str, StorageEndpoint], dict[str, tuple[bytes, ...]]]:
    """The endpoints, and the pinned certificates of the members that run some."""
    with database.read() as transaction:
        endpoints = read_endpoints(transaction)
        table, run_by = schema.nodes, sorted({endpoint.node for endpoint in endpoints.values() if endpoint.node})
        columns = select(table.c.node_id, table.c.certificate, table.c.next_certificate)
        members = transaction.rows(columns.where(table.c.revoked_at.is_(None), table.c.node_id.in_(run_by)))
    shown = {row.node_id: tuple(map(bytes, filter(None, (row.certificate, row.next_certificate)))) for row in members}
    return endpoints, {name: shown[endpoint.node] for name, endpoint in endpoints.items() if endpoint.node in shown}


def read_endpoints(transaction: Transaction) -> dict[str, StorageEndpoint]:
    """Those that are declared, by id."""
    table = schema.resources
    rows = transaction.rows(select(table.c.id, table.c.body).where(table.c.kind == StorageEndpoint.KIND))
    found = {row.id: kinds.restore(StorageEndpoint.KIND, row.id, canonical.loads(row.body.encode())) for row in rows}
    return {name: endpoint for name, endpoint in found.items() if isinstance(endpoint, StorageEndpoint)}

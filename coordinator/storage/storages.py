"""The task that keeps declared stores up with what is published: the last step of publishing.

What is published is looked at whenever this coordinator has published, and every few seconds for what others have. Each
store has a task of its own, with its own pace: one that is slow, full or away rests ever longer, and neither another
store nor publishing waits for it. What it lacks is not remembered anywhere: it is what the store has not (upkeep.py).

Nothing is written while the database is known to be restored or behind: heads of before would be laid over newer ones.
While it is away nothing but the heads that are signed again meanwhile (runtime/repeating.py) is, and by nobody but the
coordinator that kept the store up when it went.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
from coordinator.storage.kept_store import Keeping, KeptStore
from coordinator.storage.published_tree import PublishedTree, TreeReader
from coordinator.storage.shards import Shard, wanted_files
from coordinator.storage.storage_records import StoreReport
from coordinator.storage.upkeep import RepeatedHead
from coordinator.storage.ways import Ways
from snapshot import canonical
from wire.logs import log

TICK_S = 1.0
LOOK_AGAIN_S = 15.0  # while what is published cannot be read


@dataclass(frozen=True)
class _Look:
    """What there was to be kept up, and where."""

    tree: PublishedTree = field(default_factory=PublishedTree)
    endpoints: Mapping[str, StorageEndpoint] = field(default_factory=dict)
    pins: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)  # of the members that run one, by its id


@dataclass
class StorageKeeper:
    """`now` reads the clock, in Unix seconds. `published` counts what this coordinator has published; `fault`: why
    nothing may be given out now, or nothing; `repeated`: heads that are signed again while the database is away, none
    at other times. `check_s`: how often a store is listed; `poll_s`: how often others' publications are looked for.
    """

    database: Database
    coordinator_id: str
    ways: Ways
    now: Callable[[], float]
    published: Callable[[], int]
    fault: Callable[[], str]
    repeated: Callable[[], Awaitable[Sequence[RepeatedHead]]]
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
        kept: KeptStore | None = None
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
                    kept = KeptStore(self._keeping, endpoint_id, way)
                kept.way = way
                if repeated := await self.repeated():
                    await kept.repeat(repeated)
                else:
                    await kept.turn(await in_library(wanted_files, self._look.tree, Shard.of(endpoint)))
            with trio.move_on_after(LOOK_AGAIN_S):
                await looked.wait()
            await trio.sleep(TICK_S)

    @property
    def _keeping(self) -> Keeping:
        return Keeping(
            self.database, self.coordinator_id, self.now, self.fault, self.check_s, self.reports, self.failures
        )


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

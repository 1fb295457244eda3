"""Who has asked for its head, and when: half of a node's `last_seen` (rules K18, K33, K36, P19).

The other half is its last heartbeat, which is written anyway. Requests are noted in memory and written together once a
minute, so that a poll is no write; what a crash loses is a minute of something that is asked again within one.
"""

from collections.abc import Callable, Mapping

import trio
from sqlalchemy import delete, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.threads import in_database
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.database.database_fault import line_of
from wire.logs import log

WRITE_S = 60.0


class Seen:
    """`now` reads the clock, in Unix seconds. Holds at most one time for each member. `latest`: when this replica has
    seen any of them.
    """

    latest: float = float("-inf")

    def __init__(self, database: Database, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now
        self._noted: dict[str, float] = {}

    def note(self, node_id: str) -> None:
        self._noted[node_id] = self.latest = self._now()

    def forget(self, node_id: str) -> None:
        """Its heartbeat has been recorded, which says the same."""
        self._noted.pop(node_id, None)
        self.latest = self._now()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(WRITE_S)
            await self.write()

    async def write(self) -> None:
        noted, self._noted = self._noted, {}
        try:
            await in_database(record, self._database, noted)
        except SQLAlchemyError as error:  # the next minute is as good
            self._noted = noted | self._noted
            log.error("head requests not recorded", nodes=len(noted), reason=line_of(error))  # noqa: TRY400 - no trace needed


def record(database: Database, seen: Mapping[str, float]) -> None:
    """By node id; a time never goes back, and who was removed meanwhile is passed over.

    In the order of the key, so that two replicas never wait for each other.
    """
    if not seen:
        return
    table = schema.head_requests
    with database.record() as transaction:
        entries = {row.node_id for row in transaction.rows(select(schema.nodes.c.node_id))}
        rows = [{"node_id": node_id, "last_seen": seen[node_id]} for node_id in sorted(entries & seen.keys())]
        dialect = sqlite if transaction.connection.dialect.name == "sqlite" else postgresql
        statement = dialect.insert(table)
        newer = statement.on_conflict_do_update(
            index_elements=["node_id"],
            set_={"last_seen": statement.excluded.last_seen},
            where=statement.excluded.last_seen > table.c.last_seen,
        )
        transaction.run(newer, rows)


def forget(transaction: Transaction, node_id: str) -> None:
    """Who is removed was never seen, should it be admitted again."""
    transaction.run(delete(schema.head_requests).where(schema.head_requests.c.node_id == node_id))

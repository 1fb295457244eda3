"""Which replica is at work on which nodes, so that no two of them make the same documents at a time.

Several coordinators over one PostgreSQL find the same nodes due. Whoever comes second is refused in the end
(publishing/heads.py), and that alone keeps what is published right; but by then it has compiled and signed for nothing,
as much as the first. So each says first what it takes: a row of its own with the nodes of one batch. What is in another
one's row is left to it. In the same transaction it is looked whether the nodes are due still, so that what the other
one has just finished is not made once more.

A row counts for LEASE_S after it was seen last to change, by the clock of whoever looks; who is at work changes it
more often than that (`keep`). So a replica that dies in a batch costs its nodes that time, and no clock has to agree
with another one. Who was only slow, and is overtaken, is refused in the end as ever.

    take      of these nodes, those that are ours now
    keep      we are still at it
    release   we are not any more

Nothing of it has to outlive anything, so it is not waited for until it is on the disk. Of a SQLite file there is one
coordinator: there nothing is claimed.

Rejected:

- A leader that publishes alone: an election, and a second of two machines that does nothing.
- A row for each node: a fleet's worth of writes for each change of the fleet.
- A fixed share for each replica: that of a dead one has to be given away, which is an election again.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import delete, select, text, update

from coordinator.database import schema
from coordinator.database.database import Database, Transaction, is_in
from snapshot import canonical

LEASE_S = 5.0
KEEP_S = LEASE_S / 3
_TABLE = schema.publishing_claims
_LOCK_MS = 5_000


@dataclass(frozen=True)
class _Heard:
    word: str
    first: float  # when it was seen first


@dataclass
class Claims:
    """Of one replica over PostgreSQL. One call at a time: all of them are made on the thread of changes."""

    database: Database
    coordinator_id: str
    _others: dict[str, _Heard] = field(default_factory=dict)
    holds: bool = False

    def take(self, node_ids: Sequence[str], *, at: float, due_by: float) -> list[str]:
        """In their order; those that are behind, or past their time by `due_by` (Unix seconds). `at`: of a monotonic
        clock, in seconds.
        """
        with self.database.record() as transaction:
            _lock(transaction)
            busy = self._busy(transaction, at)
            due = _still_due(transaction, [node_id for node_id in node_ids if node_id not in busy], due_by)
            ours = [node_id for node_id in node_ids if node_id in due]
            transaction.put(_TABLE, [{**self._own(), "node_ids": canonical.dumps(ours).decode()}])
        self.holds = True
        return ours

    def keep(self) -> None:
        if self.holds:
            self._change(_word())

    def release(self) -> None:
        if self.holds:
            self._change(_word(), node_ids="[]")
            self.holds = False

    def _own(self) -> dict[str, str]:
        return {"coordinator_id": self.coordinator_id, "word": _word()}

    def _change(self, word: str, **values: str) -> None:
        with self.database.record() as transaction:
            _be_quick(transaction)
            own = update(_TABLE).where(_TABLE.c.coordinator_id == self.coordinator_id)
            transaction.run(own.values(word=word, **values))

    def _busy(self, transaction: Transaction, at: float) -> set[str]:
        rows = transaction.rows(select(_TABLE).where(_TABLE.c.coordinator_id != self.coordinator_id))
        heard = {row.coordinator_id: self._note(row.coordinator_id, row.word, at) for row in rows}
        self._others = heard
        alive = {name for name, last in heard.items() if at - last.first < LEASE_S}
        if dead := [name for name in heard if name not in alive]:
            transaction.run(delete(_TABLE).where(_TABLE.c.coordinator_id.in_(dead)))
        return {node_id for row in rows if row.coordinator_id in alive for node_id in json.loads(row.node_ids)}

    def _note(self, name: str, word: str, at: float) -> _Heard:
        known = self._others.get(name)
        return known if known is not None and known.word == word else _Heard(word, at)


def _still_due(transaction: Transaction, node_ids: Sequence[str], due_by: float) -> set[str]:
    """Of these, whose head is missing, behind its generation, or to be renewed by then (publishing/heads.py)."""
    nodes, heads = schema.nodes, schema.heads
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    is_due = (nodes.c.published < nodes.c.generation) | (heads.c.refresh_after <= due_by)
    mine = is_in(nodes.c.node_id, node_ids)
    rows = transaction.rows(select(nodes.c.node_id).select_from(joined).where(mine, is_due))
    return {row.node_id for row in rows}


def _lock(transaction: Transaction) -> None:
    """One takes at a time; and what is read after it is what the one before has written."""
    _be_quick(transaction)
    transaction.connection.execute(text(f"LOCK TABLE {_TABLE.name} IN EXCLUSIVE MODE"))


def _be_quick(transaction: Transaction) -> None:
    transaction.connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MS}"))
    transaction.connection.execute(text("SET LOCAL synchronous_commit = off"))


def _word() -> str:
    return secrets.token_hex(8)

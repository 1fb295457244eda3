"""That a backup was made: a row of the audit log, so that every replica and every command can say how old it is.

Beside the backup itself nothing would know of it; and what was restored knows, rightly, of none that came
after. A coordinator's backup holds its own keys: each has to make its own, also of a shared database.
"""

from dataclasses import dataclass
from functools import partial

from sqlalchemy import select

from coordinator.database import history, object_store, schema
from coordinator.database.database import Database, Transaction
from snapshot import canonical

ACTION = "backup"


@dataclass(frozen=True)
class BackupRecord:
    """`name` is the file's; `at`: Unix seconds, when what it holds was read."""

    name: str
    at: float


def add(database: Database, coordinator_id: str, name: str, about: dict[str, object], *, actor: str, at: float) -> None:
    """A command that has no seed, which the service alone may be able to open, leaves it to that one to link the row,
    like those of reports.
    """
    link = partial(database.change, after_move=True) if _is_linked_here(database) else database.record
    with link(actor=actor, now=at) as transaction:
        transaction.audit(ACTION, coordinator_id, None, {"file": name, **about})


def newest(transaction: Transaction, coordinator_id: str) -> BackupRecord | None:
    """None as well where the audit log is shorter than the time since."""
    table = schema.audit
    mine = (table.c.action == ACTION) & (table.c.subject == coordinator_id)
    row = transaction.row(select(table.c.at, table.c.after).where(mine).order_by(table.c.at.desc()).limit(1))
    return None if row is None else BackupRecord(_file(row.after), row.at)


def _is_linked_here(database: Database) -> bool:
    """Whether a change is linked here, or there is no history."""
    if database.history is not None:
        return True
    with database.read() as transaction:
        return object_store.pointer(transaction, history.LATEST) is None


def _file(after: str) -> str:
    value = canonical.loads(after.encode())
    return str(value["file"]) if isinstance(value, dict) else ""

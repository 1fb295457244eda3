"""That a backup was made: a row of the audit log, so that every replica and every command can say how old it is.

Beside the backup itself nothing would know of it; and what was restored knows, rightly, of none that came
after. A coordinator's backup holds its own keys: each has to make its own, also of a shared database.
"""

from dataclasses import dataclass

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from snapshot import canonical

ACTION = "backup"


@dataclass(frozen=True)
class BackupRecord:
    """`name` is the file's; `at`: Unix seconds, when what it holds was read."""

    name: str
    at: float


def add(database: Database, coordinator_id: str, name: str, about: dict[str, object], *, actor: str, at: float) -> None:
    with database.change(actor=actor, now=at, after_move=True) as transaction:
        transaction.audit(ACTION, coordinator_id, None, {"file": name, **about})


def newest(transaction: Transaction, coordinator_id: str) -> BackupRecord | None:
    """None as well where the audit log is shorter than the time since."""
    table = schema.audit
    mine = (table.c.action == ACTION) & (table.c.subject == coordinator_id)
    row = transaction.row(select(table.c.at, table.c.after).where(mine).order_by(table.c.at.desc()).limit(1))
    return None if row is None else BackupRecord(_file(row.after), row.at)


def _file(after: str) -> str:
    value = canonical.loads(after.encode())
    return str(value["file"]) if isinstance(value, dict) else ""

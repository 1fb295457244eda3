"""The audit log as an operator reads it: who, when, what, before, after."""

from collections.abc import Collection

from sqlalchemy import func, select

from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from snapshot import canonical
from wire.operators.operator_answers import AuditEntry

MOST = 1_000


def read(
    database: Database, *, before: int | None = None, most: int = 100, action: str | None = None
) -> list[AuditEntry]:
    """The newest first; `before` an audit id pages on."""
    table = schema.audit
    chosen = select(table).order_by(table.c.audit_id.desc()).limit(min(most, MOST))
    if before is not None:
        chosen = chosen.where(table.c.audit_id < before)
    if action is not None:
        chosen = chosen.where(table.c.action == action)
    with database.read() as transaction:
        rows = transaction.rows(chosen)
    return [
        AuditEntry(
            row.audit_id,
            row.at,
            row.actor,
            row.action,
            row.subject,
            row.outcome,
            canonical.loads(row.before.encode()),
            canonical.loads(row.after.encode()),
        )
        for row in rows
    ]


def look_since(transaction: Transaction, audit_id: int, actions: Collection[str]) -> tuple[int, bool]:
    """The newest audit id, and whether all that is younger than `audit_id` is one of these actions."""
    table = schema.audit
    newest = transaction.number(select(func.max(table.c.audit_id)))
    other = select(table.c.audit_id).where(table.c.audit_id > audit_id, table.c.action.not_in(actions)).limit(1)
    return newest, transaction.row(other) is None

"""The audit log as an operator reads it: who, when, what, before, after."""

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Database
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

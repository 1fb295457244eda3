"""What nodes tell of themselves: the events of their journals, as their heartbeats brought them (protocol 3).

An event is a report, never a configuration write. It is kept once for each node, incarnation and sequence, and for the
time that the settings say.
"""

from sqlalchemy import desc, select

from coordinator.base.refusal import bound_text
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.database.journals import SHOWN
from snapshot import canonical
from wire.operators.fleet_answers import ReportedEvent

MOST = 1_000


def read(database: Database, node_id: str, *, most: int = 100) -> list[ReportedEvent]:
    """The newest first; none of a node that has not told of any."""
    table = schema.events
    mine = select(table).where(table.c.node_id == node_id)
    order = (desc(table.c.received_at), desc(table.c.sequence))
    with database.read() as transaction:
        rows = transaction.rows(mine.order_by(*order).limit(min(most, MOST)))
        return [_event(row.sequence, row.incarnation, row.received_at, row.body) for row in rows]


def _event(sequence: int, incarnation: str, received_at: float, body: str) -> ReportedEvent:
    """A member that this node's version did not send is empty; what no agent of ours writes is escaped and cut."""
    value = canonical.loads(body.encode())
    said = value if isinstance(value, dict) else {}
    at, event, scope, detail = (bound_text(str(said.get(name, "")), most) for name, most in SHOWN.items())
    return ReportedEvent(sequence, incarnation, at, event, scope, detail, received_at)

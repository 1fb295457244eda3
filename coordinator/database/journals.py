"""How much of the nodes' journals is kept: bounded as it is written, so that no member fills a disk between two trims.

Each node has its share, in rows and in bytes; beyond it its own oldest events go, and nobody else's (rules P23). The
share is a part of what all may have together, so that many members cannot take more than that, either.
"""

from collections.abc import Collection

from sqlalchemy import and_, delete, func, or_, select, tuple_

from coordinator.base.refusal import bound_text
from coordinator.database import schema
from coordinator.database.database import Transaction
from snapshot import canonical

MOST_EVENTS = 10_000  # of one node: its own journal keeps no more
LEAST_EVENTS = 200  # of one node, however many there are
IN_ALL = 1_000_000
BYTES_EACH = 500  # on average, of a share: what our agents write has some 200
EVENT_BYTES = 8_192
SHOWN = {"at": 64, "event": 256, "scope": 4_300, "detail": 1_024}  # with how much of it is shown

_TABLE = schema.events


def event_text(body: str) -> str:
    """An event as it is written: whole, or what can be shown of one that no agent of ours writes (threats D-59)."""
    if len(body) <= EVENT_BYTES:
        return body
    said = canonical.loads(body.encode())
    members = said if isinstance(said, dict) else {}
    return canonical.dumps(
        {name: bound_text(str(members.get(name, "")), most) for name, most in SHOWN.items()}
    ).decode()


def share(transaction: Transaction) -> int:
    """Events of each node."""
    nodes = transaction.number(select(func.count()).select_from(schema.nodes))
    return min(MOST_EVENTS, max(LEAST_EVENTS, IN_ALL // max(1, nodes)))


def trim_events(transaction: Transaction, node_ids: Collection[str]) -> int:
    """Of these nodes what is beyond their share; the events that went."""
    if not node_ids:
        return 0
    most = share(transaction)
    return sum(_bound_one(transaction, node_id, most) for node_id in sorted(node_ids))


def _bound_one(transaction: Transaction, node_id: str, most: int) -> int:
    """A quarter more than it must, so that who reports without end has it done seldom."""
    mine = _TABLE.c.node_id == node_id
    size = func.coalesce(func.sum(func.length(_TABLE.c.body)), 0)
    found = transaction.row(select(func.count().label("events"), size.label("size")).where(mine))
    if found is None or (found.events <= most and found.size <= most * BYTES_EACH):
        return 0
    left = most * 3 // 4
    newest = (_TABLE.c.received_at.desc(), _TABLE.c.sequence.desc())
    place = func.row_number().over(order_by=newest).label("place")
    above = func.sum(func.length(_TABLE.c.body)).over(order_by=newest, rows=(None, 0)).label("above")
    ranked = select(_TABLE.c.incarnation, _TABLE.c.sequence, place, above).where(mine).subquery()
    surplus = select(ranked.c.incarnation, ranked.c.sequence).where(
        or_(ranked.c.place > left, and_(ranked.c.above > left * BYTES_EACH, ranked.c.place > 1))
    )
    return transaction.run(delete(_TABLE).where(mine, tuple_(_TABLE.c.incarnation, _TABLE.c.sequence).in_(surplus)))

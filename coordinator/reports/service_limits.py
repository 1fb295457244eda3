"""What the services of nodes can take of a scope, as their nodes reported it last: asked where a plan is judged.

read(transaction, node_ids)    by node and scope; nothing of a node whose services set no limits

It stands in the last report of a node and nowhere else: a limit that a service has given up is gone with the next one.
"""

import json
from collections.abc import Collection

from sqlalchemy import select

from coordinator.database import schema
from coordinator.database.database import Transaction, is_in
from coordinator.database.documents import chunks
from snapshot.blast_radius import ConsumerLimits
from wire.forms import record
from wire.messages import ScopeLimits

_LIMITS = record(ScopeLimits)
_MENTIONED = '%"limits":%'  # most nodes set none, and a report may be a long one


def read(transaction: Transaction, node_ids: Collection[str]) -> dict[str, dict[str, ConsumerLimits]]:
    table = schema.node_status
    chosen = select(table.c.node_id, table.c.body).where(table.c.body.like(_MENTIONED))
    rows = (
        row for some in chunks(sorted(node_ids)) for row in transaction.rows(chosen.where(is_in(table.c.node_id, some)))
    )
    found = {row.node_id: json.loads(row.body).get("limits") for row in rows}
    return {
        node_id: {scope: _limits(said) for scope, said in limits.items()} for node_id, limits in found.items() if limits
    }


def _limits(said: object) -> ConsumerLimits:
    """Of a report that was in form when it came."""
    limits = _LIMITS.make(said)
    return ConsumerLimits(limits.entries, limits.bytes, limits.removed_percent)

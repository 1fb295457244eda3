"""How far a node is behind what its head lists: in versions, and since when, by the first version that it has not.

A version of a higher epoch counts as all of them: what a node has of a lower one is none of these.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import ColumnElement, and_, func, or_, select, tuple_

from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.reports.checkin import Pair

NOTHING: Pair = (0, 0)
_TOGETHER = 50  # in one statement
LateScope = tuple[str, str]  # node id, scope


def versions_behind(published: Pair, held: Pair) -> int:
    return max(0, published[1] - held[1]) if held[0] == published[0] else published[1]


def lags_of(published: Mapping[str, Pair], active: Mapping[str, Pair]) -> dict[str, int]:
    """By scope, of what is listed."""
    return {scope: versions_behind(pair, active.get(scope, NOTHING)) for scope, pair in published.items()}


def behind_since(transaction: Transaction, held: Mapping[LateScope, Pair]) -> dict[LateScope, float]:
    """When the first version above what is held was published, by node and scope; none where there is none."""
    asked = list(held)
    found: dict[LateScope, float] = {}
    for start in range(0, len(asked), _TOGETHER):
        found.update(_times(transaction, asked[start : start + _TOGETHER], held))
    return found


def _times(
    transaction: Transaction, asked: Sequence[LateScope], held: Mapping[LateScope, Pair]
) -> Iterator[tuple[LateScope, float]]:
    table = schema.published
    columns = select(table.c.node_id, table.c.scope, func.min(table.c.published_at).label("first"))
    chosen = columns.where(or_(*(_above(late, held[late]) for late in asked)), ~table.c.is_candidate)
    for row in transaction.rows(chosen.group_by(table.c.node_id, table.c.scope)):
        yield (row.node_id, row.scope), row.first


def _above(late: LateScope, pair: Pair) -> ColumnElement[bool]:
    table = schema.published
    return and_(
        table.c.node_id == late[0],
        table.c.scope == late[1],
        tuple_(table.c.authority_epoch, table.c.config_version) > tuple_(*pair),
    )

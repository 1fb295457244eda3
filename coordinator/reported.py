"""What nodes report to hold, against what was ever published for them (rules K37, K41, X16).

    doubtful(transaction, claims)   of newly reported versions those that we have no record of, or another content

A version that was published is found by its key, so a report that says nothing new costs nothing here.
"""

from collections.abc import Mapping

from sqlalchemy import func, select, tuple_

from coordinator import schema
from coordinator.checkin import Comparison, Mark, Pair, compare
from coordinator.database import Transaction
from coordinator.documents import TRUST_BUNDLE, chunks

Line = tuple[str, str]
"""Node id and scope."""


def doubtful(transaction: Transaction, claims: Mapping[Line, Mark]) -> dict[Line, Comparison]:
    """`node_ahead` or `conflict`. Trust bundles are handed out beside the heads, so they are not looked at."""
    looked_at = {line: mark for line, mark in claims.items() if line[1] != TRUST_BUNDLE}
    found = _published(transaction, looked_at)
    unknown = {line for line in looked_at if line not in found}
    last = _last(transaction, unknown)
    doubts = {line: compare(found[line], looked_at[line]) for line in found}
    doubts |= {line: Comparison.NODE_AHEAD for line in unknown if looked_at[line].pair > last.get(line, (0, 0))}
    return {line: doubt for line, doubt in doubts.items() if doubt is not Comparison.EQUAL}


def _published(transaction: Transaction, claims: Mapping[Line, Mark]) -> dict[Line, Mark]:
    """Under exactly these versions."""
    table = schema.published
    key = tuple_(table.c.node_id, table.c.scope, table.c.authority_epoch, table.c.config_version)
    wanted = [(*line, *mark.pair) for line, mark in claims.items()]
    return {
        (row.node_id, row.scope): Mark(row.authority_epoch, row.config_version, row.content_hash)
        for chunk in chunks(wanted)
        for row in transaction.rows(select(table).where(key.in_(chunk)))
    }


def _last(transaction: Transaction, lines: set[Line]) -> dict[Line, Pair]:
    """The greatest version of each; what is older than the history that is kept is no doubt."""
    table = schema.published
    key = (table.c.node_id, table.c.scope, table.c.authority_epoch)
    last = select(*key, func.max(table.c.config_version).label("version")).group_by(*key)
    found: dict[Line, Pair] = {}
    for chunk in chunks(sorted(lines)):
        for row in transaction.rows(last.where(tuple_(table.c.node_id, table.c.scope).in_(chunk))):
            line = (row.node_id, row.scope)
            found[line] = max(found.get(line, (0, 0)), (row.authority_epoch, row.version))
    return found

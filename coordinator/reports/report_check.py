"""What nodes report to hold, against what was ever published for them (rules K37, K41, X16).

    doubtful(transaction, claims)      of newly reported versions those that we have no record of, or another content
    published(transaction, claims)     what was published under the versions that they name
    announced(transaction, node_ids)   what each node's head lists now

A version that was published is found by its key, so a report that says nothing new costs nothing here.
"""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import func, select, tuple_

from coordinator.database import documents, schema
from coordinator.database.database import Transaction
from coordinator.database.documents import TRUST_BUNDLE, chunks
from coordinator.reports.checkin import Comparison, Pair, ReportedMark, compare

Line = tuple[str, str]
"""Node id and scope."""
Claim = tuple[str, str, ReportedMark]
"""Node id, scope, and the version that it reports."""


def doubtful(transaction: Transaction, claims: Collection[Claim]) -> dict[Claim, Comparison]:
    """`node_ahead` or `conflict`."""
    if not claims:
        return {}
    bundles = {claim for claim in claims if claim[1] == TRUST_BUNDLE}
    doubts = _doubtful_bundles(transaction, bundles) | _doubtful_lines(transaction, set(claims) - bundles)
    return {claim: doubt for claim, doubt in doubts.items() if doubt is not Comparison.EQUAL}


def listed_marks(transaction: Transaction, node_ids: Collection[str]) -> dict[str, Mapping[str, ReportedMark]]:
    """By node and scope; nothing of a node whose first head is not out."""
    listings = documents.listings(transaction, sorted(node_ids))
    return {
        node_id: {scope: ReportedMark(*entry.pair, entry.content_hash) for scope, entry in listed.items()}
        for node_id, listed in listings.items()
    }


def _doubtful_lines(transaction: Transaction, claims: Collection[Claim]) -> dict[Claim, Comparison]:
    found = published_marks(transaction, claims)
    unknown = {claim for claim in claims if claim not in found}
    last, candidates = _last(transaction, {claim[:2] for claim in unknown}), _candidates(transaction, unknown)
    doubts = {}
    for claim in claims:
        node_id, scope, mark = claim
        if claim in found:
            doubts[claim] = compare(found[claim], mark)
        elif claim in candidates or mark.pair > last.get((node_id, scope), (0, 0)):
            doubts[claim] = Comparison.NODE_AHEAD  # what is older than the history that is kept is no doubt
    return doubts


def _doubtful_bundles(transaction: Transaction, claims: Collection[Claim]) -> dict[Claim, Comparison]:
    """Bundles are handed out beside the heads: what counts is whether there is one, not for whom."""
    known = {mark.pair: mark for mark in _bundles(transaction)} if claims else {}
    return {claim: compare(known.get(claim[2].pair), claim[2]) for claim in claims}


def _bundles(transaction: Transaction) -> Iterable[ReportedMark]:
    table, kept = schema.trust_bundles, schema.documents
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    columns = (kept.c.authority_epoch, kept.c.config_version, kept.c.content_hash)  # not the epoch that one announces
    rows = transaction.rows(select(*columns).select_from(joined))
    return [ReportedMark(row.authority_epoch, row.config_version, row.content_hash) for row in rows]


def published_marks(transaction: Transaction, claims: Collection[Claim]) -> dict[Claim, ReportedMark]:
    """What was listed for the node under exactly these versions. What was a candidate and no more is handed out, and
    to be active it is not.
    """
    table = schema.published
    columns = (table.c.node_id, table.c.scope, table.c.authority_epoch, table.c.config_version)
    listed = select(*columns, table.c.content_hash).where(~table.c.is_candidate)
    wanted: dict[tuple[str, str, int, int], list[Claim]] = {}
    for claim in claims:
        wanted.setdefault((claim[0], claim[1], *claim[2].pair), []).append(claim)
    return {
        claim: ReportedMark(row.authority_epoch, row.config_version, row.content_hash)
        for chunk in chunks(sorted(wanted))
        for row in transaction.rows(listed.where(tuple_(*columns).in_(chunk)))
        for claim in wanted[(row.node_id, row.scope, row.authority_epoch, row.config_version)]
    }


def _candidates(transaction: Transaction, claims: Collection[Claim]) -> set[Claim]:
    """Those that name the number of a candidate that was never listed."""
    table = schema.published
    line = (table.c.node_id, table.c.scope, table.c.authority_epoch, table.c.config_version)
    wanted = {(claim[0], claim[1], *claim[2].pair): claim for claim in claims}
    return {
        wanted[row.node_id, row.scope, row.authority_epoch, row.config_version]
        for chunk in chunks(sorted(wanted))
        for row in transaction.rows(select(*line).where(table.c.is_candidate, tuple_(*line).in_(chunk)))
    }


def _last(transaction: Transaction, lines: Collection[Line]) -> dict[Line, Pair]:
    """The greatest version of each."""
    table = schema.published
    key = (table.c.node_id, table.c.scope, table.c.authority_epoch)
    last = select(*key, func.max(table.c.config_version).label("version")).where(~table.c.is_candidate).group_by(*key)
    found: dict[Line, Pair] = {}
    for chunk in chunks(sorted(lines)):
        for row in transaction.rows(last.where(tuple_(table.c.node_id, table.c.scope).in_(chunk))):
            line = (row.node_id, row.scope)
            found[line] = max(found.get(line, (0, 0)), (row.authority_epoch, row.version))
    return found

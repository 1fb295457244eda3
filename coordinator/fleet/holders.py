"""Who holds one version of one scope: what the node itself reports, and who else has the same content (rules K30).

A report says what a node claims to have active; it is shown beside what was published and believed nothing (rules S70).
"""

import json
from collections.abc import Iterator
from dataclasses import astuple

from sqlalchemy import select

from coordinator.database import documents, schema
from coordinator.database.database import Transaction
from coordinator.database.documents import HeadEntry
from coordinator.reports.checkin import Comparison, ReportedMark, compare
from wire.operators.fleet_answers import Holders, Reported, ReportedVersion

MOST_NAMED = 50
_WORD = 128  # characters of what a node says in words of its own


def holders(transaction: Transaction, node_id: str, scope: str, published: HeadEntry | None) -> Holders:
    reported = _report(transaction, node_id, scope)
    standing = _standing(published, reported)
    if published is None:
        return Holders(standing, reported, 0, (), 0)
    announced = {
        member_id for member_id in _announced_to(transaction, scope, published.content_hash) if member_id != node_id
    }
    others = sorted(
        member_id for member_id in _active(transaction, scope, published.content_hash) if member_id != node_id
    )
    return Holders(standing, reported, len(announced), tuple(others[:MOST_NAMED]), len(others))


def _standing(published: HeadEntry | None, reported: Reported | None) -> str:
    if reported is None:
        return "unheard"
    if reported.active is None:
        return "nothing"
    if published is None:
        return "unpublished"
    ours = ReportedMark(published.authority_epoch, published.config_version, published.content_hash)
    return _STANDINGS[compare(ours, ReportedMark(*astuple(reported.active)))]


def _report(transaction: Transaction, node_id: str, scope: str) -> Reported | None:
    table = schema.node_status
    row = transaction.row(select(table.c.last_seen, table.c.state, table.c.body).where(table.c.node_id == node_id))
    if row is None:
        return None
    said = json.loads(row.body)["scopes"].get(scope) or {}  # only what `heartbeat_form.parse` took is kept
    pending, refused = said.get("pending") or {}, said.get("last_rejected") or {}
    waits, reason = pending.get("config_version"), refused.get("reason")
    return Reported(
        row.last_seen,
        row.state,
        _mark(said.get("active")),
        waits if isinstance(waits, int) else None,  # an earlier version kept these two in any form
        reason[:_WORD] if isinstance(reason, str) else None,
    )


def _mark(active: dict[str, object] | None) -> ReportedVersion | None:
    if active is None:
        return None
    return ReportedVersion(
        int(str(active["authority_epoch"])), int(str(active["config_version"])), str(active["content_hash"])
    )


def _announced_to(transaction: Transaction, scope: str, content_hash: str) -> Iterator[str]:
    """Only listings that hold the hash are read (it is hex: no wildcard is in it)."""
    heads = schema.heads
    rows = transaction.rows(select(heads.c.node_id).where(heads.c.listing.contains(content_hash)))
    listings = documents.listings(transaction, sorted(row.node_id for row in rows))
    for node_id, listing in listings.items():
        if scope in listing and listing[scope].content_hash == content_hash:
            yield node_id


def _active(transaction: Transaction, scope: str, content_hash: str) -> Iterator[str]:
    """Of members that are not revoked."""
    nodes, reports = schema.nodes, schema.node_status
    joined = reports.join(nodes, nodes.c.node_id == reports.c.node_id)
    members = select(reports.c.node_id, reports.c.body).select_from(joined).where(nodes.c.revoked_at.is_(None))
    for row in transaction.rows(members.where(reports.c.body.contains(content_hash))):
        active = (json.loads(row.body)["scopes"].get(scope) or {}).get("active")
        if active is not None and active["content_hash"] == content_hash:
            yield row.node_id


_STANDINGS = {
    Comparison.EQUAL: "same",
    Comparison.NODE_BEHIND: "behind",
    Comparison.NODE_AHEAD: "ahead",
    Comparison.CONFLICT: "other_content",
}

"""Trust bundles that members report and that are not on record here: of a database that was restored (rules K41, S35).

A number that a node holds must not come again with another content: the node would refuse all that follows it. But a
report is a node's word, and one that claims the greatest number there is would stop every later bundle, the one that
revokes a stolen key above all. So what is only claimed is listed for the operator and stops nothing while the database
is the authority. It stops a bundle where the database is known to be restored (restored_backup.py): the claims may be
true then, and `--despite-reports` goes on; a later bundle is believed when it is shown: root keys have signed it.
Rejected: to believe a number that a signed head lists, since config keys sign heads.

    claims(transaction, version)                 who reports this number, or a later one
    check_unused(transaction, version, ...)      nobody is known to hold it, where that can be so
    check_same(transaction, version, hash, ...)  the same, with another content
    note(transaction, node_id, version)          a node has shown a head that lists this number
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, schema
from coordinator.database.database import Transaction
from coordinator.database.documents import TRUST_BUNDLE
from snapshot import canonical

IMPORT = "holdfastctl trust import BUNDLE.hfs"
REMEDY = (
    f"{IMPORT}: bundles of after the backup lie where `trust export` or `publish` has put them, and on these nodes"
    " (`holdfast store export trust_bundle`); where these reports are false: --despite-reports"
)
_SHOWN = 3  # of the members that a refusal names


@dataclass(frozen=True)
class ReportedBundle:
    """What one member reports: the greatest number; and number and content of the document that is active there."""

    node_id: str
    greatest: int
    active: tuple[int, str] | None


def claims(transaction: Transaction, version: int) -> list[ReportedBundle]:
    """The members that report a bundle of this number, or a later one."""
    return [report for report in _reports(transaction) if report.greatest >= version]


def check_unused(transaction: Transaction, version: int, *, despite_reports: bool) -> None:
    """Refused `conflict` where the database was restored and members report the number that is to be made."""
    holders = claims(transaction, version)
    if holders and not despite_reports and cluster_state.standing(transaction).is_restored:
        detail = (
            f"bundle {version} was made before: {_names(holders)} hold {max(holder.greatest for holder in holders)}"
        )
        raise Refused(Code.CONFLICT, detail, remedy=REMEDY)


def check_same(transaction: Transaction, version: int, content_hash: str, *, despite_reports: bool) -> None:
    """Refused `conflict` where the database was restored and members report that number with another content."""
    holders = [
        claim
        for claim in claims(transaction, version)
        if claim.active is not None and claim.active[0] == version and claim.active[1] != content_hash
    ]
    if holders and not despite_reports and cluster_state.standing(transaction).is_restored:
        raise Refused(Code.CONFLICT, f"{_names(holders)} hold another bundle {version}", remedy=REMEDY)


def note(transaction: Transaction, node_id: str, version: int) -> None:
    """Into its last report, as if that had said so; its next one says it itself."""
    table = schema.node_status
    row = transaction.row(select(table.c.body).where(table.c.node_id == node_id))
    report = {} if row is None else json.loads(row.body)
    if row is not None and version > report["trust_bundle_version"]:
        body = canonical.dumps({**report, "trust_bundle_version": version}).decode()
        transaction.run(update(table).where(table.c.node_id == node_id).values(body=body))


def _reports(transaction: Transaction) -> list[ReportedBundle]:
    """Of every member that is not revoked and has reported. A removed one is heard no more."""
    nodes, reports = schema.nodes, schema.node_status
    joined = nodes.join(reports, nodes.c.node_id == reports.c.node_id)
    members = select(nodes.c.node_id, reports.c.body).select_from(joined).where(nodes.c.revoked_at.is_(None))
    return [_reported_bundle(row.node_id, row.body) for row in transaction.rows(members.order_by(nodes.c.node_id))]


def _reported_bundle(node_id: str, body: str) -> ReportedBundle:
    report = json.loads(body)  # only what `heartbeat_form` took is kept
    active = report["scopes"].get(TRUST_BUNDLE, {}).get("active")
    mark = None if active is None else (active["config_version"], active["content_hash"])
    return ReportedBundle(node_id, max(report["trust_bundle_version"], mark[0] if mark else 0), mark)


def _names(holders: Sequence[ReportedBundle]) -> str:
    more = len(holders) - _SHOWN
    return ", ".join(holder.node_id for holder in holders[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

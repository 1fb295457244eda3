"""Trust bundles that members report and that are not on record here: of a database that was put back (rules K41, S35).

A number that a node holds must not come again with another content: the node would refuse all that follows it.

    check_unused(transaction, version)          nobody holds this number, or a later one
    check_same(transaction, version, hash)      whoever holds this number holds this content
    note(transaction, node_id, version)         a node has shown that it holds this number
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update

from coordinator import schema
from coordinator.database import Transaction
from coordinator.documents import TRUST_BUNDLE
from coordinator.refusal import Code, Refused
from snapshot import canonical

IMPORT = "holdfastctl trust import BUNDLE.hfs"
REMEDY = (
    f"{IMPORT}: bundles of after the backup lie where `trust export` or `publish` has put them, and on these nodes"
    " (`holdfast store export trust_bundle`); a node whose claim is false: revoke it"
)
_SHOWN = 3  # of the members that a refusal names


@dataclass(frozen=True)
class Held:
    """What one member reports: the greatest number; and number and content of the document that is active there."""

    node_id: str
    greatest: int
    active: tuple[int, str] | None


def check_unused(transaction: Transaction, version: int) -> None:
    holders = [each for each in _reported(transaction) if each.greatest >= version]
    if holders:
        detail = f"bundle {version} was made before: {_names(holders)} hold {max(each.greatest for each in holders)}"
        raise Refused(Code.CONFLICT, detail, remedy=REMEDY)


def check_same(transaction: Transaction, version: int, content_hash: str) -> None:
    holders = [
        each
        for each in _reported(transaction)
        if each.active is not None and each.active[0] == version and each.active[1] != content_hash
    ]
    if holders:
        raise Refused(Code.CONFLICT, f"{_names(holders)} hold another bundle {version}", remedy=REMEDY)


def note(transaction: Transaction, node_id: str, version: int) -> None:
    """Into its last report, as if that had said so; its next one says it itself."""
    table = schema.node_status
    row = transaction.row(select(table.c.body).where(table.c.node_id == node_id))
    report = {} if row is None else json.loads(row.body)
    if row is not None and version > report["trust_bundle_version"]:
        body = canonical.dumps({**report, "trust_bundle_version": version}).decode()
        transaction.run(update(table).where(table.c.node_id == node_id).values(body=body))


def _reported(transaction: Transaction) -> list[Held]:
    """Of every member that is not revoked and has reported. A removed one is heard no more."""
    nodes, reports = schema.nodes, schema.node_status
    joined = nodes.join(reports, nodes.c.node_id == reports.c.node_id)
    members = select(nodes.c.node_id, reports.c.body).select_from(joined).where(nodes.c.revoked_at.is_(None))
    return [_held(row.node_id, row.body) for row in transaction.rows(members.order_by(nodes.c.node_id))]


def _held(node_id: str, body: str) -> Held:
    report = json.loads(body)  # only what `heartbeat_form` took is kept
    active = report["scopes"].get(TRUST_BUNDLE, {}).get("active")
    mark = None if active is None else (active["config_version"], active["content_hash"])
    return Held(node_id, max(report["trust_bundle_version"], mark[0] if mark else 0), mark)


def _names(holders: Sequence[Held]) -> str:
    more = len(holders) - _SHOWN
    return ", ".join(each.node_id for each in holders[:_SHOWN]) + (f" and {more} more" if more > 0 else "")

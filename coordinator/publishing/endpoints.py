"""An endpoint of a coordinator stays until every member has confirmed another, or the operator says so (rules L15).

    check(transaction, before, after)    `endpoint_in_use` where a member could no longer find anybody
    reports, held_sections               what each member reports as active, and one section of that

A member has confirmed what it reports as its active `node_bootstrap`; what that lists is read from the document that
was published under its version. Where that is not known (no report, another content, a document that is kept no more),
nothing is confirmed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import select, tuple_

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents, object_store, schema
from coordinator.database.database import Transaction
from coordinator.declared.kinds import Cluster
from coordinator.publishing.published_state import read_revocations
from coordinator.reports import features
from snapshot import canonical

SCOPE, SECTION = "node_bootstrap", "cluster"
REMEDY = (
    "declare the new endpoint beside the old one, wait until `holdfastctl fleet` shows no straggler, remove members "
    "that are gone for good; or apply with --drop-endpoints"
)
_SHOWN = 3  # of the members that a refusal names

Active = tuple[int, int, str]
"""What a member reports of its `node_bootstrap`: epoch, version, content hash."""


def check(transaction: Transaction, before: Cluster | None, after: Cluster | None) -> None:
    """Whether the endpoints that `after` names no more may go. Refused with the members that keep them."""
    staying = set(after.coordinators) if after is not None else set()
    dropped = [url for url in before.coordinators if url not in staying] if before is not None else []
    if not dropped:
        return
    staying -= read_revocations(transaction).endpoints
    reported = reports(transaction)
    listed = {node_id: _urls(section) for node_id, section in held_sections(transaction, reported, SECTION).items()}
    unconfirmed = sorted(node_id for node_id in reported if staying.isdisjoint(listed.get(node_id, ())))
    if unconfirmed:
        raise Refused(Code.ENDPOINT_IN_USE, _words(dropped, unconfirmed, len(reported)), remedy=REMEDY)


def _words(dropped: Sequence[str], unconfirmed: Sequence[str], members: int) -> str:
    more = len(unconfirmed) - _SHOWN
    names = ", ".join(unconfirmed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{len(unconfirmed)} of {members} members would know no coordinator without {dropped[0]}: {names}"


@dataclass(frozen=True)
class BootstrapReport:
    """`features`: as they are on record (features.py)."""

    active: Active | None
    features: frozenset[str] | None


def reports(transaction: Transaction) -> dict[str, BootstrapReport]:
    """Of every member that is not revoked."""
    nodes, status = schema.nodes, schema.node_status
    joined = nodes.outerjoin(status, nodes.c.node_id == status.c.node_id)
    members = select(nodes.c.node_id, status.c.body, status.c.features).select_from(joined)
    rows = transaction.rows(members.where(nodes.c.revoked_at.is_(None)))
    return {row.node_id: BootstrapReport(_active(row.body), features.parse(row.features)) for row in rows}


def _active(body: str | None) -> Active | None:
    report = json.loads(body)["scopes"].get(SCOPE) if body is not None else None  # its form was checked
    active = report["active"] if report is not None else None
    return None if active is None else (active["authority_epoch"], active["config_version"], active["content_hash"])


def held_sections(
    transaction: Transaction, reported: Mapping[str, BootstrapReport], section: str
) -> dict[str, Mapping[str, object]]:
    """One section of what each member holds; of those alone of which it is known what they hold."""
    table, kept = schema.published, schema.documents
    key = tuple_(table.c.node_id, table.c.authority_epoch, table.c.config_version, table.c.content_hash)
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    found = select(table.c.node_id, kept.c.manifest).select_from(joined).where(table.c.scope == SCOPE)
    active = [(node_id, *report.active) for node_id, report in sorted(reported.items()) if report.active is not None]
    addresses = {
        row.node_id: _address(bytes(row.manifest), section)
        for chunk in documents.chunks(active)
        for row in transaction.rows(found.where(key.in_(chunk)))
    }
    read = {address: _read(transaction, address) for address in set(addresses.values())}
    return {node_id: read[address] for node_id, address in addresses.items()}


def _address(manifest: bytes, section: str) -> str | None:
    """Its content address: few are different, so each is read once."""
    entry = json.loads(manifest).get(section)  # our own writing
    return None if entry is None else str(entry["sha256"])


def _read(transaction: Transaction, address: str | None) -> Mapping[str, object]:
    if address is None:
        return {}
    value = canonical.loads(object_store.get(transaction, f"{documents.SECTIONS}/{address}"))
    return value if isinstance(value, dict) else {}


def _urls(section: Mapping[str, object]) -> list[str]:
    coordinators = section.get("coordinators")
    return [str(url) for url in coordinators] if isinstance(coordinators, list) else []

"""An endpoint of a coordinator stays until every member has confirmed another, or the operator says so (rules L15).

    check(transaction, before, after)    `endpoint_in_use` where a member could no longer find anybody

A member has confirmed what it reports as its active `node_bootstrap`; what that lists is read from the document that
was published under its version. Where that is not known (no report, another content, a document that is kept no more),
nothing is confirmed.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from sqlalchemy import select, tuple_

from coordinator.base.refusal import Code, Refused
from coordinator.database import documents, object_store, schema
from coordinator.database.database import Transaction
from coordinator.declared.kinds import Cluster
from coordinator.publishing.published_state import read_revocations
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
    reported = _reports(transaction)
    listed = _endpoints(transaction, {node_id: active for node_id, active in reported.items() if active is not None})
    unconfirmed = sorted(node_id for node_id in reported if staying.isdisjoint(listed.get(node_id, ())))
    if unconfirmed:
        raise Refused(Code.ENDPOINT_IN_USE, _words(dropped, unconfirmed, len(reported)), remedy=REMEDY)


def _words(dropped: Sequence[str], unconfirmed: Sequence[str], members: int) -> str:
    more = len(unconfirmed) - _SHOWN
    names = ", ".join(unconfirmed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"{len(unconfirmed)} of {members} members would know no coordinator without {dropped[0]}: {names}"


def _reports(transaction: Transaction) -> dict[str, Active | None]:
    """Of every member that is not revoked; None where it has not reported one."""
    nodes, reports = schema.nodes, schema.node_status
    joined = nodes.outerjoin(reports, nodes.c.node_id == reports.c.node_id)
    members = select(nodes.c.node_id, reports.c.body).select_from(joined).where(nodes.c.revoked_at.is_(None))
    return {row.node_id: _active(row.body) for row in transaction.rows(members)}


def _active(body: str | None) -> Active | None:
    report = json.loads(body)["scopes"].get(SCOPE) if body is not None else None  # its form was checked
    active = report["active"] if report is not None else None
    return None if active is None else (active["authority_epoch"], active["config_version"], active["content_hash"])


def _endpoints(transaction: Transaction, reported: Mapping[str, Active]) -> dict[str, list[str]]:
    """The endpoints in what each member holds; of those alone of which that is known."""
    table, kept = schema.published, schema.documents
    key = tuple_(table.c.node_id, table.c.authority_epoch, table.c.config_version, table.c.content_hash)
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    found = select(table.c.node_id, kept.c.manifest).select_from(joined).where(table.c.scope == SCOPE)
    sections = {
        row.node_id: _section(bytes(row.manifest))
        for chunk in documents.chunks([(node_id, *active) for node_id, active in sorted(reported.items())])
        for row in transaction.rows(found.where(key.in_(chunk)))
    }
    urls = {address: list(_urls(transaction, address)) for address in set(sections.values())}
    return {node_id: urls[address] for node_id, address in sections.items()}


def _section(manifest: bytes) -> str:
    """Its content address: few are different, so each is read once."""
    value = json.loads(manifest)  # our own writing
    return str(value[SECTION]["sha256"])


def _urls(transaction: Transaction, address: str) -> Iterator[str]:
    value = canonical.loads(object_store.get(transaction, f"{documents.SECTIONS}/{address}"))
    coordinators = value.get("coordinators") if isinstance(value, dict) else None
    yield from map(str, coordinators if isinstance(coordinators, list) else ())

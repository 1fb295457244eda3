"""What each node is told: its head, swapped against exactly what it was made from (rules K20, K21, X16).

Under one (node, scope, epoch, version) there is one content for ever, whichever coordinator publishes: who comes second
with another one gets `conflict`, and nothing of it remains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update

from coordinator import authority, documents, schema
from coordinator.checkin import PublishedHead
from coordinator.database import Database, Transaction
from coordinator.documents import Document, Entry
from coordinator.refusal import Code, Refused
from snapshot import canonical


@dataclass(frozen=True)
class Basis:
    """What a publication was made from: the swap is against exactly this (rules K21)."""

    generation: int  # of the node's entry: raised by every change that touches it
    published: int  # generation of the head that is out; 0 for none


@dataclass(frozen=True)
class Publication:
    """One node's next head, with the documents that it announces and that are not kept yet."""

    node_id: str
    based_on: Basis
    head: Document
    refresh_after: int
    listing: Mapping[str, Entry]  # scope -> what the node should hold
    documents: tuple[Document, ...] = ()


def bases(transaction: Transaction) -> dict[str, Basis]:
    """Of every entry. Read it in the transaction that reads the model: then nothing can slip in between."""
    nodes, heads = schema.nodes, schema.heads
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    columns = select(nodes.c.node_id, nodes.c.generation, heads.c.generation.label("published"))
    rows = transaction.rows(columns.select_from(joined))
    return {row.node_id: Basis(row.generation, row.published or 0) for row in rows}


def basis(transaction: Transaction, node_id: str) -> Basis:
    """Of one node; (0, 0) for a stranger."""
    nodes, heads = schema.nodes, schema.heads
    generation = transaction.number(select(nodes.c.generation).where(nodes.c.node_id == node_id))
    return Basis(generation, transaction.number(select(heads.c.generation).where(heads.c.node_id == node_id)))


def due(transaction: Transaction, now: float) -> list[str]:
    """Members whose head is missing, behind their generation, or past its `refresh_after`; in order of the ids."""
    nodes, heads = schema.nodes, schema.heads
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    late = heads.c.node_id.is_(None) | (heads.c.generation < nodes.c.generation) | (heads.c.refresh_after <= now)
    return sorted(row.node_id for row in transaction.rows(select(nodes.c.node_id).select_from(joined).where(late)))


def publish(database: Database, publications: Sequence[Publication], *, actor: str, now: float) -> dict[str, Refused]:
    """Publish for each node or for none of it; the refusals by node id, empty when all went out.

    One transaction for all: a node that lost its swap (`conflict`: compile again) does not hold up the others.
    """
    refusals: dict[str, Refused] = {}
    with database.change(actor=actor, now=now) as transaction:
        standing = authority.standing(transaction)
        for each in publications:
            try:
                _check(transaction, each, standing)
            except Refused as refused:
                refusals[each.node_id] = refused
            else:
                _write(transaction, each)
        latest = max([standing.last_issued_at, *(each.head.issued_at for each in publications)])
        transaction.run(update(schema.cluster).values(last_issued_at=latest))
        subject = publications[0].node_id if len(publications) == 1 else f"{len(publications)} nodes"
        transaction.audit("publish", subject, None, {"refused": sorted(refusals)})
    return refusals


def published_head(transaction: Transaction, node_id: str) -> PublishedHead | None:
    row = transaction.row(select(schema.heads).where(schema.heads.c.node_id == node_id))
    return None if row is None else PublishedHead(row.authority_epoch, row.generation, row.refresh_after)


def last_version(transaction: Transaction, node_id: str, scope: str) -> tuple[int, int]:
    """The greatest (epoch, version) that was ever published for a node and scope; (0, 0) for none."""
    table = schema.published
    mine = select(table.c.authority_epoch, table.c.config_version).where(
        table.c.node_id == node_id, table.c.scope == scope
    )
    return max(((row.authority_epoch, row.config_version) for row in transaction.rows(mine)), default=(0, 0))


def _check(transaction: Transaction, each: Publication, standing: authority.Standing) -> None:
    _check_basis(transaction, each)
    for one in (*each.documents, each.head):
        if one.issued_at < standing.last_issued_at:
            raise Refused(Code.CONFLICT, f"issued_at {one.issued_at} is behind the last one")  # rules K47
        if one.authority_epoch > standing.authority_epoch:
            raise Refused(Code.CONFLICT, f"epoch {one.authority_epoch} was not announced")
    for scope, entry in each.listing.items():
        _check_entry(transaction, each.node_id, scope, entry)
    held = {entry.snapshot_id for entry in each.listing.values()} - {one.snapshot_id for one in each.documents}
    for snapshot_id in sorted(held):
        if documents.find(transaction, snapshot_id) is None:
            raise Refused(Code.CONFLICT, f"{snapshot_id} is announced but not kept")


def _check_basis(transaction: Transaction, each: Publication) -> None:
    latest = basis(transaction, each.node_id)
    if latest != each.based_on:
        raise Refused(Code.CONFLICT, f"made from {each.based_on}, now {latest}", remedy="compile again")
    table = schema.heads
    row = transaction.row(select(table).where(table.c.node_id == each.node_id))
    before = (0, 0) if row is None else (row.authority_epoch, row.generation)
    pair = (each.head.authority_epoch, each.head.config_version)
    if pair <= before or each.head.config_version < latest.generation:
        raise Refused(Code.CONFLICT, f"head {pair} does not follow {before} and generation {latest.generation}")


def _check_entry(transaction: Transaction, node_id: str, scope: str, entry: Entry) -> None:
    """One content under one version; a lower version only where a recovery allows it (rules S86, S87)."""
    table = schema.published
    same = select(table.c.content_hash, table.c.snapshot_id).where(
        table.c.node_id == node_id,
        table.c.scope == scope,
        table.c.authority_epoch == entry.authority_epoch,
        table.c.config_version == entry.config_version,
    )
    row = transaction.row(same)
    if row is not None and row.content_hash != entry.content_hash:
        raise Refused(Code.CONFLICT, f"{scope} {entry.pair} was published with another content")
    last = last_version(transaction, node_id, scope)
    if entry.pair < last and not _is_recovered(transaction, node_id, scope, last, entry):
        raise Refused(Code.CONFLICT, f"{scope} {entry.pair} is below {last}, and no recovery allows it")


def _is_recovered(transaction: Transaction, node_id: str, scope: str, last: tuple[int, int], entry: Entry) -> bool:
    table = schema.recoveries
    allowed = select(table.c.nonce).where(
        table.c.node_id == node_id,
        table.c.scope == scope,
        table.c.from_config_version == last[1],
        table.c.to_config_version == entry.config_version,
        table.c.to_content_hash == entry.content_hash,
    )
    return entry.authority_epoch == last[0] and transaction.row(allowed) is not None


def _write(transaction: Transaction, each: Publication) -> None:
    nodes, heads = schema.nodes, schema.heads
    old = transaction.row(select(heads.c.snapshot_id).where(heads.c.node_id == each.node_id))
    if old is not None:
        documents.forget(transaction, [old.snapshot_id])
        transaction.run(delete(heads).where(heads.c.node_id == each.node_id))
    documents.insert_documents(transaction, [*each.documents, each.head])
    for scope, entry in each.listing.items():
        _write_entry(transaction, each.node_id, scope, entry)
    entries = {scope: vars(entry) for scope, entry in each.listing.items()}
    transaction.run(
        insert(heads).values(
            node_id=each.node_id,
            authority_epoch=each.head.authority_epoch,
            generation=each.head.config_version,
            snapshot_id=each.head.snapshot_id,
            refresh_after=each.refresh_after,
            expires_at=each.head.expires_at,
            listing=canonical.dumps(entries).decode(),
        )
    )
    mine = update(nodes).where(nodes.c.node_id == each.node_id)
    transaction.run(mine.values(generation=each.head.config_version))


def _write_entry(transaction: Transaction, node_id: str, scope: str, entry: Entry) -> None:
    table = schema.published
    mine = (
        (table.c.node_id == node_id)
        & (table.c.scope == scope)
        & (table.c.authority_epoch == entry.authority_epoch)
        & (table.c.config_version == entry.config_version)
    )
    # The same content signed again (a recovery's target) replaces what is handed out, never what it says.
    if not transaction.run(update(table).where(mine).values(snapshot_id=entry.snapshot_id)):
        row = {"node_id": node_id, "scope": scope, **vars(entry), "published_at": transaction.now}
        transaction.run(insert(table).values(**row))

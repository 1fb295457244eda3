"""What was signed, kept and handed out: documents, trust bundles, recoveries (rules S7, K37, S87; protocol 1).

A document is kept in its parts. Sections are content-addressed objects, so versions and nodes share what they have in
common; what is read is hashed again. What a node is told of them is heads.py's.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import ARRAY, ColumnElement, Select, Text, bindparam, delete, func, insert, select, update
from sqlalchemy.engine import Row

from coordinator.base.refusal import Code, Refused
from coordinator.database import cluster_state, object_store, schema
from coordinator.database.database import Database, Transaction, is_in, is_named
from snapshot import canonical, container, envelope
from snapshot.envelope import SNAPSHOT, Envelope

SECTIONS = "sections"  # the kind of the objects
TRUST_BUNDLE = "trust_bundle"
EVERYBODY = "*"
MAX_BUNDLES = 256  # format.md 8

Value = TypeVar("Value")


@dataclass(frozen=True)
class StoredObject:
    """A section that is kept already, by its key; and its size, of one that was found there."""

    key: str
    size: int = 0


@dataclass(frozen=True)
class Document:
    """One signed document in its parts, as the container holds them (format.md 3). Times are Unix seconds."""

    snapshot_id: str
    kind: str
    subject: str  # a node id, or "*"
    scope: str
    authority_epoch: int
    config_version: int
    content_hash: str  # of the full state: a snapshot's own, an increment's `next_content_hash`
    issued_at: int
    expires_at: int
    envelope: bytes
    signatures: tuple[tuple[str, bytes], ...]
    manifest: bytes
    sections: tuple[bytes | StoredObject, ...] = ()  # in manifest order; whoever reads a document has the bytes
    base_config_version: int | None = None

    @property
    def section_bytes(self) -> tuple[bytes, ...]:
        """The sections of a document that was read."""
        found = tuple(section for section in self.sections if isinstance(section, bytes))
        if len(found) < len(self.sections):
            raise AssertionError("only what is to be kept names sections that are kept already")
        return found


def container_of(document: Document) -> bytes:
    """As it is sent: of one whose bytes are at hand."""
    return b"".join(container.encode(document.envelope, document.signatures, document.manifest, document.section_bytes))


@dataclass(frozen=True)
class Recovery:
    """A root-signed permission to go back in one scope of one node, once (format.md 5), and what it says."""

    document: Document
    from_config_version: int
    to_config_version: int
    to_content_hash: str
    nonce: str


@dataclass(frozen=True)
class HeadEntry:
    """One line of a head's listing."""

    authority_epoch: int
    config_version: int
    content_hash: str
    snapshot_id: str

    @property
    def pair(self) -> tuple[int, int]:
        return (self.authority_epoch, self.config_version)

    @property
    def text(self) -> str:
        """Its canonical JSON, written at once: numbers, a hash and an id need no escapes. A seventh of the time of a
        writer that looks at each value.
        """
        return (
            f'{{"authority_epoch":{self.authority_epoch},"config_version":{self.config_version},'
            f'"content_hash":"{self.content_hash}","snapshot_id":"{self.snapshot_id}"}}'
        )


def listing_text(entries: Mapping[str, HeadEntry]) -> str:
    """A listing in canonical JSON, as heads are kept with it."""
    return canonical.join({scope: entry.text for scope, entry in entries.items()})


def add_trust_bundle(
    database: Database,
    bundle: Document,
    *,
    announces_epoch: int,
    actor: str,
    now: float,
    also: Callable[[Transaction, int], None] | None = None,
) -> None:
    """The next bundle, version N+1 exactly (format.md 8). The epoch that it announces is the cluster's from now on.
    `also`: what is done in the same transaction, with that epoch, while the one before still stands.
    """
    table = schema.trust_bundles
    with database.change(actor=actor, now=now) as transaction:
        standing = cluster_state.standing(transaction)
        held = max((row[0] for row in transaction.rows(select(table.c.config_version))), default=0)
        if held and bundle.config_version != held + 1:
            raise Refused(Code.CONFLICT, f"bundle {bundle.config_version} does not follow {held}")
        if announces_epoch < standing.authority_epoch:
            raise Refused(Code.CONFLICT, f"epoch {announces_epoch} is below {standing.authority_epoch}")
        if also is not None:
            also(transaction, announces_epoch)
        insert_documents(transaction, [bundle])
        row = {"config_version": bundle.config_version, "authority_epoch": announces_epoch}
        times = {"snapshot_id": bundle.snapshot_id, "expires_at": bundle.expires_at}
        transaction.run(insert(table).values(**row, **times))
        is_raised = announces_epoch > standing.authority_epoch  # the time begins anew, as at every node (format.md 7)
        latest = bundle.issued_at if is_raised else max(standing.last_issued_at, bundle.issued_at)
        transaction.run(update(schema.cluster).values(authority_epoch=announces_epoch, last_issued_at=latest))
        transaction.audit("trust_bundle.add", str(bundle.config_version), {"version": held}, row)
        cluster_state.raise_revision(transaction)
        cluster_state.raise_generations(transaction, (), everybody=True)


def trust_bundles(database: Database, after: int) -> list[Document]:
    """Bundles after+1.. in order, at most 256."""
    with database.read() as transaction:
        return trust_bundles_in(transaction, after)


def trust_bundles_in(transaction: Transaction, after: int) -> list[Document]:
    return [_require(transaction, snapshot_id) for snapshot_id in trust_bundle_ids(transaction, after)]


def trust_bundle_ids(transaction: Transaction, after: int) -> list[str]:
    return [row.snapshot_id for row in transaction.rows(_BUNDLES_AFTER, {"after": after})]


def add_recovery(database: Database, recovery: Recovery, *, actor: str, now: float) -> None:
    """A permission to go back; its nonce serves once for a node and scope."""
    document, table = recovery.document, schema.recoveries
    row = {name: getattr(recovery, name) for name in _RECOVERY_COLUMNS}
    with database.change(actor=actor, now=now) as transaction:
        cluster_state.standing(transaction)
        subject = (table.c.node_id == document.subject) & (table.c.scope == document.scope)
        if transaction.row(select(table.c.nonce).where(subject, table.c.nonce == recovery.nonce)) is not None:
            raise Refused(Code.CONFLICT, "this nonce was used by an earlier recovery", remedy="use a fresh one")
        insert_documents(transaction, [document])
        about = {"snapshot_id": document.snapshot_id, "node_id": document.subject, "scope": document.scope}
        transaction.run(insert(table).values(**about, **row))
        transaction.audit("recovery.add", f"{document.subject} {document.scope}", None, row)
        cluster_state.raise_generations(transaction, [document.subject])


Listings = dict[str, dict[str, HeadEntry]]
"""By node and scope."""


def listing(transaction: Transaction, node_id: str) -> dict[str, HeadEntry]:
    """What the node's head announces, by scope; empty where none is out."""
    return listings(transaction, [node_id]).get(node_id, {})


def listings(transaction: Transaction, node_ids: Sequence[str] | None = None) -> Listings:
    """The same of every node, or of some."""
    return _listings(transaction, schema.heads.c.listing, node_ids)


def candidates(transaction: Transaction, node_ids: Sequence[str] | None = None) -> Listings:
    """What heads announce as coming."""
    return _listings(transaction, schema.heads.c.candidates, node_ids)


def head(database: Database, node_id: str) -> Document:
    """`not_found` for a node without one."""
    with database.read() as transaction:
        return head_in(transaction, node_id)


def head_in(transaction: Transaction, node_id: str) -> Document:
    row = transaction.row(_HEAD_ID, {"node": node_id})
    return _require(transaction, None if row is None else row.snapshot_id)


def document(database: Database, node_id: str, snapshot_id: str, *, most: int | None = None) -> Document:
    """A document by its id, for a node that it is for; `not_found` for every other (protocol 1). Of more than `most`
    bytes the sections are named, and not read.
    """
    with database.read() as transaction:
        return document_in(transaction, node_id, snapshot_id, most=most)


def document_in(transaction: Transaction, node_id: str, snapshot_id: str, *, most: int | None = None) -> Document:
    found = _find(transaction, snapshot_id)
    if found is None or not _may_read(transaction, node_id, found):
        raise Refused(Code.NOT_FOUND, f"no document {snapshot_id} for {node_id}")
    return _with_sections(transaction, found, most)


def stored_document(database: Database, snapshot_id: str, *, most: int | None = None) -> Document:
    """By its id, whomever it is for; `not_found` for what is not kept. `most`: as `document` has it."""
    with database.read() as transaction:
        return stored_document_in(transaction, snapshot_id, most=most)


def stored_document_in(transaction: Transaction, snapshot_id: str, *, most: int | None = None) -> Document:
    return _require(transaction, snapshot_id, most)


def section(database: Database, key: str) -> bytes:
    """One of those that a document names."""
    with database.read() as transaction:
        return object_store.get(transaction, key)


def increment(database: Database, node_id: str, scope: str, base: int, *, most: int | None = None) -> Document:
    """From exactly that base to what the head announces now, else `not_found`: take the full document (rules K37). From
    the very version that it lists, to the one that it announces as coming. `most`: as `document` has it.
    """
    with database.read() as transaction:
        entry = listing(transaction, node_id).get(scope)
        if entry is None:
            raise Refused(Code.NOT_FOUND, f"{node_id} has no scope {scope}")
        if entry.config_version == base:
            entry = candidates(transaction, [node_id]).get(node_id, {}).get(scope, entry)
        to = {"version": entry.config_version, "epoch": entry.authority_epoch, "content": entry.content_hash}
        row = transaction.row(_INCREMENT, {"node": node_id, "of_scope": scope, "base": base, **to})
        if row is None:
            raise Refused(Code.NOT_FOUND, f"no increment of {scope} from {base}")
        return _with_sections(transaction, _document(row), most)


def recovery(database: Database, node_id: str, scope: str) -> Document:
    """The newest recovery for a node and scope; `not_found` for none."""
    table = schema.recoveries
    joined = table.join(schema.documents, table.c.snapshot_id == schema.documents.c.snapshot_id)
    mine = select(table.c.snapshot_id).select_from(joined).where(table.c.node_id == node_id, table.c.scope == scope)
    with database.read() as transaction:
        row = transaction.row(mine.order_by(schema.documents.c.published_at.desc()).limit(1))
        return _require(transaction, None if row is None else row.snapshot_id)


def insert_documents(transaction: Transaction, wanted: Iterable[Document]) -> None:
    """Keep what is not kept yet; shared role data comes once for many nodes."""
    unique = {document.snapshot_id: document for document in wanted}
    known = existing_ids(transaction, unique)
    new = [document for document in unique.values() if document.snapshot_id not in known]
    transaction.run_many(_KEEP, [_row(document, transaction.now) for document in new])
    brought = [section for document in new for section in document.sections if isinstance(section, bytes)]
    keys = iter(object_store.put_all(transaction, SECTIONS, brought))
    rows = [
        {
            "snapshot_id": document.snapshot_id,
            "position": position,
            "object_key": next(keys) if isinstance(section, bytes) else section.key,
        }
        for document in new
        for position, section in enumerate(document.sections)
    ]
    transaction.run_many(_KEEP_SECTIONS, rows)


def put_heads(transaction: Transaction, made: Sequence[tuple[Document, str | None]]) -> None:
    """Each is new, has no sections, and takes the row of the one that it replaces: its id, or None."""
    rows = [(_row(document, transaction.now), replaced) for document, replaced in made]
    transaction.run_many(_KEEP, [row for row, replaced in rows if replaced is None])
    over = [row | {"replaced": replaced} for row, replaced in rows if replaced is not None]
    if transaction.run_many(_REPLACE, over) < len(over):  # one that was replaced was lost, perhaps with a backup
        kept = existing_ids(transaction, [str(row["snapshot_id"]) for row, _ in rows])
        transaction.run_many(_KEEP, [row for row, _ in rows if row["snapshot_id"] not in kept])


def existing_ids(transaction: Transaction, snapshot_ids: Iterable[str]) -> set[str]:
    """Those of the documents that are kept."""
    return {
        row.snapshot_id
        for chunk in chunks(sorted(snapshot_ids))
        for row in transaction.rows(_EXISTING_IDS, {"named": chunk})
    }


def missing_ids(transaction: Transaction, snapshot_ids: Iterable[str]) -> frozenset[str]:
    """Those of the documents that are not kept. It is asked of all that is published, again and again, and hardly ever
    is one missing: so what is there is looked up where it lies, and not handed over.
    """
    dialect = transaction.connection.dialect.name
    asked = sorted(snapshot_ids)
    given: object = canonical.dumps(asked).decode() if dialect == "sqlite" else asked
    return frozenset(row.value for row in transaction.rows(_missing(dialect), {"ids": given})) if asked else frozenset()


@cache
def _missing(dialect: str) -> "Select[Any]":
    if dialect == "sqlite":
        asked = func.json_each(bindparam("ids", type_=Text)).table_valued("value")
    else:
        asked = func.unnest(bindparam("ids", type_=ARRAY(Text))).table_valued("value").render_derived()
    kept = schema.documents.c.snapshot_id
    return select(asked.c.value).where(~select(kept).where(kept == asked.c.value).exists())


def envelopes(transaction: Transaction, snapshot_ids: Iterable[str]) -> dict[str, Envelope]:
    """Of snapshots that are kept, by id."""
    table = schema.documents
    return {
        row.snapshot_id: envelope.parse(bytes(row.envelope), SNAPSHOT)
        for chunk in chunks(sorted(snapshot_ids))
        for row in transaction.rows(
            select(table.c.snapshot_id, table.c.envelope).where(is_in(table.c.snapshot_id, chunk))
        )
    }


def keys_of(wanted: Iterable[Document]) -> set[str]:
    """The sections that they name by key alone."""
    return {section.key for document in wanted for section in document.sections if isinstance(section, StoredObject)}


def existing_keys(transaction: Transaction, keys: Iterable[str]) -> set[str]:
    """Those of the sections that are kept."""
    return {row.key for chunk in chunks(sorted(keys)) for row in transaction.rows(_EXISTING_KEYS, {"named": chunk})}


def section_key(sha256: str) -> str:
    """Under which a section is kept, and a part that was uploaded for one."""
    return f"{SECTIONS}/{sha256}"


def chunks(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """As many values as one statement takes."""
    return (values[start : start + 500] for start in range(0, len(values), 500))


def _row(each: Document, now: float) -> dict[str, object]:
    signatures = [f'["{key_id}","{base64.b64encode(signature).decode()}"]' for key_id, signature in each.signatures]
    return {
        "snapshot_id": each.snapshot_id,
        "kind": each.kind,
        "subject": each.subject,
        "scope": each.scope,
        "authority_epoch": each.authority_epoch,
        "config_version": each.config_version,
        "base_config_version": each.base_config_version,
        "content_hash": each.content_hash,
        "issued_at": each.issued_at,
        "expires_at": each.expires_at,
        "published_at": now,
        "envelope": each.envelope,
        "signatures": f"[{','.join(signatures)}]",
        "manifest": each.manifest,
    }


def forget(transaction: Transaction, snapshot_ids: Sequence[str]) -> None:
    for chunk in chunks(snapshot_ids):
        for table in (schema.documents, schema.document_sections):
            transaction.run(delete(table).where(is_in(table.c.snapshot_id, chunk)))


def _listings(transaction: Transaction, column: ColumnElement[str], node_ids: Sequence[str] | None) -> Listings:
    whole, some = _of_heads(column)
    if node_ids is None:
        return {row.node_id: entries_of(row.said) for row in transaction.rows(whole)}
    parts = (transaction.rows(some, {"named": chunk}) for chunk in chunks(node_ids))
    return {row.node_id: entries_of(row.said) for rows in parts for row in rows}


@cache
def _of_heads(column: ColumnElement[str]) -> "tuple[Select[Any], Select[Any]]":
    """Of all nodes, and of those that are named."""
    chosen = select(schema.heads.c.node_id, column.label("said"))
    return chosen, chosen.where(is_named(schema.heads.c.node_id))


def names_in(*listings: Mapping[str, HeadEntry]) -> frozenset[str]:
    """The ids of the documents that they name."""
    return frozenset([entry.snapshot_id for entries in listings for entry in entries.values()])


def entries_of(listing: str) -> dict[str, HeadEntry]:
    """By scope, as a head is kept with what it announces: our own writing."""
    return {scope: HeadEntry(**entry) for scope, entry in json.loads(listing).items()}


def _may_read(transaction: Transaction, node_id: str, found: Document) -> bool:
    """Its own; shared role data that was published for it; trust bundles, which are for every member."""
    if found.subject == node_id or found.scope == TRUST_BUNDLE:
        return True
    mine = {"node": node_id, "wanted": found.snapshot_id}
    return found.subject == EVERYBODY and transaction.row(_PUBLISHED, mine) is not None


def _require(transaction: Transaction, snapshot_id: str | None, most: int | None = None) -> Document:
    found = None if snapshot_id is None else _find(transaction, snapshot_id)
    if found is None:
        raise Refused(Code.NOT_FOUND, "there is no such document")
    return _with_sections(transaction, found, most)


def _find(transaction: Transaction, snapshot_id: str) -> Document | None:
    row = transaction.row(_FIND, {"wanted": snapshot_id})
    return None if row is None else _document(row)


def _document(row: "Row[tuple[object, ...]]") -> Document:
    signatures = canonical.loads(row.signatures.encode())
    if not isinstance(signatures, list):
        raise AssertionError("signatures are an array")
    values = {name: getattr(row, name) for name in _COLUMNS}
    values |= {name: bytes(values[name]) for name in ("envelope", "manifest")}
    decoded = tuple((key_id, base64.b64decode(signature)) for key_id, signature in signatures)
    return Document(**values, signatures=decoded)


def _with_sections(transaction: Transaction, found: Document, most: int | None = None) -> Document:
    """All sections by one statement: a document of many costs no more than its bytes. Of more than `most` bytes they
    are named.
    """
    wanted = {"wanted": found.snapshot_id}
    if most is not None:
        sizes = transaction.rows(_SIZES, wanted)
        for lost in (row.object_key for row in sizes if row.said is None):
            object_store.check_value(lost, None)
        if sum(row.said for row in sizes) > most:
            return replace(found, sections=tuple(StoredObject(row.object_key, row.said) for row in sizes))
    rows = transaction.rows(_SECTIONS, wanted)
    return replace(found, sections=tuple(object_store.check_value(row.object_key, row.said) for row in rows))


def _section_rows(said: "ColumnElement[Any]") -> "Select[Any]":
    table, kept = schema.document_sections, schema.objects
    joined = table.outerjoin(kept, table.c.object_key == kept.c.key)
    chosen = select(table.c.object_key, said.label("said")).select_from(joined)
    return chosen.where(table.c.snapshot_id == bindparam("wanted")).order_by(table.c.position)


# To make one of these takes as long as to carry it out, and each node that fetches something asks them.
_bundle = schema.trust_bundles.c
_BUNDLES_AFTER = (
    select(_bundle.snapshot_id)
    .where(_bundle.config_version > bindparam("after"))
    .order_by(_bundle.config_version)
    .limit(MAX_BUNDLES)
)
_FIND = select(schema.documents).where(schema.documents.c.snapshot_id == bindparam("wanted"))
_SIZES, _SECTIONS = _section_rows(func.length(schema.objects.c.value)), _section_rows(schema.objects.c.value)

_HEAD_ID = select(schema.heads.c.snapshot_id).where(schema.heads.c.node_id == bindparam("node"))
_INCREMENT = select(schema.documents).where(
    schema.documents.c.subject.in_((bindparam("node"), EVERYBODY)),
    schema.documents.c.scope == bindparam("of_scope"),
    schema.documents.c.kind == "increment",
    schema.documents.c.base_config_version == bindparam("base"),
    schema.documents.c.config_version == bindparam("version"),
    schema.documents.c.authority_epoch == bindparam("epoch"),
    schema.documents.c.content_hash == bindparam("content"),
)
_PUBLISHED = (
    select(schema.published.c.scope)
    .where(schema.published.c.node_id == bindparam("node"), schema.published.c.snapshot_id == bindparam("wanted"))
    .limit(1)
)
_EXISTING_IDS = select(schema.documents.c.snapshot_id).where(is_named(schema.documents.c.snapshot_id))
_EXISTING_KEYS = select(schema.objects.c.key).where(is_named(schema.objects.c.key))

_KEEP, _KEEP_SECTIONS = insert(schema.documents), insert(schema.document_sections)
_REPLACE = (
    update(schema.documents)
    .where(schema.documents.c.snapshot_id == bindparam("replaced"))
    .values({column: bindparam(column.name) for column in schema.documents.c})
)

_RECOVERY_COLUMNS = ("from_config_version", "to_config_version", "to_content_hash", "nonce")
_COLUMNS = tuple(name for name in Document.__dataclass_fields__ if name not in ("sections", "signatures"))

"""What is published for a node now: what its next publication starts from. Values, and where they are read.

    read_issue(...)        the authority, the time, the trust bundle, the revocations
    read_situations(...)   for each node its generation, its head, and the documents that the head announces

Both in the transaction that reads the model, so that nothing can slip in between (rules K21).
"""

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Protocol

from sqlalchemy import select, tuple_
from sqlalchemy.engine import Row

from coordinator.base.settings import CLOCK_SKEW_S, CoordinatorSettings
from coordinator.database import cluster_state, object_store, revocations, schema
from coordinator.database.database import Transaction
from coordinator.database.documents import HeadEntry, chunks, section_key
from coordinator.declared.compiler import StoredSection
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing.heads import Basis, Pair, last_versions
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.reports import features, refusal_records
from coordinator.reports.standing_refusals import KeptRefusal
from snapshot import bundle as bundles
from snapshot import canonical, container, envelope, manifest
from snapshot.bundle import TrustBundle
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.manifest import Revocations

SECTIONS_REMEMBERED = 8
_parsed: dict[bytes, TrustBundle] = {}  # the latest bundle: each run of the publisher asks for it


class Read(Protocol):
    def __call__(self, sha256: str, /) -> bytes:
        """The bytes of a section by their hash (hex)."""


@dataclass(frozen=True)
class PublishedDocument:
    """The document of a scope that the node's head announces: the base of an increment."""

    entry: HeadEntry
    envelope: Envelope
    manifest_bytes: bytes
    source: Read

    @cached_property
    def sections(self) -> Mapping[str, manifest.SectionEntry]:
        """Of most documents nobody asks for them: they stand as they are."""
        return manifest.parse_state(self.manifest_bytes)

    @property
    def content_hash(self) -> str:
        return self.entry.content_hash

    @property
    def stored_sections(self) -> Mapping[str, StoredSection]:
        """As the content of another document: by their hashes, since a batch of large ones is more than memory."""
        return {name: StoredSection(entry.sha256, entry.size) for name, entry in self.sections.items()}

    @property
    def raw(self) -> frozenset[str]:
        return frozenset(name for name, entry in self.sections.items() if entry.is_raw)

    def read(self, name: str) -> bytes:
        return self.source(self.sections[name].sha256)


@dataclass(frozen=True)
class AllowedRecovery:
    """A recovery: the way back to `held`, and the content that was given up (None where it is not known any more)."""

    container: bytes
    from_config_version: int
    held: PublishedDocument
    given_up: str | None


@dataclass(frozen=True)
class Refusing:
    """A refusal that stands, and what the node has instead: None where it has nothing, or that is not kept."""

    refusal: KeptRefusal
    running: PublishedDocument | None


@dataclass(frozen=True)
class Situation:
    """One node. `head`: (epoch, generation), (0, 0) without one. `last`: the greatest version of each scope, ever, and
    `last_listed` without those that were candidates and no more. `candidates`: what its head announces as coming.
    `refusing`: by scope, what it does not take. `features`: by which it is given what it is given (features.py).
    """

    node_id: str
    based_on: Basis
    head: Pair
    held: Mapping[str, PublishedDocument]
    last: Mapping[str, Pair]
    last_listed: Mapping[str, Pair]
    candidates: Mapping[str, PublishedDocument] = field(default_factory=dict)
    recoveries: Mapping[str, AllowedRecovery] = field(default_factory=dict)
    refusing: Mapping[str, Refusing] = field(default_factory=dict)
    features: frozenset[str] | None = None


def read_issue(
    transaction: Transaction, keys: Sequence[SigningKey], settings: CoordinatorSettings, now: float
) -> Issue:
    """Unpublishable without a trust bundle: nobody could verify what we sign. Refused: see authority.sound and
    authority.issue_time.
    """
    standing = cluster_state.sound(transaction)
    found = latest_bundle(transaction)
    if found is None:
        raise Unpublishable("no_trust_bundle", "no trust bundle was added yet")
    entry, bundle = found
    return Issue(
        cluster_id=standing.cluster_id,
        authority_epoch=standing.authority_epoch,
        now=now,
        issued_at=cluster_state.issue_time(transaction, now, back_s=CLOCK_SKEW_S),
        settings=settings,
        keys=tuple(keys),
        bundle=bundle,
        bundle_entry=entry,
        revocations=read_revocations(transaction),
    )


def latest_bundle(transaction: Transaction) -> tuple[HeadEntry, TrustBundle] | None:
    """The trust bundle published last, parsed once; None before the first."""
    document = next(iter(_bundle_rows(transaction, 1)), None)
    if document is None:
        return None
    signed = bytes(document.envelope)  # it holds the hash of the content: one envelope, one bundle
    if signed not in _parsed:
        bundle = _bundle(transaction, document)
        _parsed.clear()
        _parsed[signed] = bundle
    return _entry(document), _parsed[signed]


def first_bundle(transaction: Transaction) -> TrustBundle | None:
    """The one that a node is given first: its roots are those that the node pins."""
    table = schema.trust_bundles
    row = transaction.row(select(table.c.snapshot_id).order_by(table.c.config_version).limit(1))
    return None if row is None else _bundle(transaction, _rows(transaction, [row.snapshot_id])[row.snapshot_id])


def trust_bundles(transaction: Transaction, most: int) -> list[TrustBundle]:
    """The last ones, the newest first."""
    return [_bundle(transaction, document) for document in _bundle_rows(transaction, most)]


def read_revocations(transaction: Transaction) -> Revocations:
    return manifest.parse_revocations(dict(revocations.manifest(transaction)), of_head=True)


def read_situations(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, Situation]:
    """Of entries of the catalog; who is none is left out."""
    found: dict[str, Situation] = {}
    for chunk in chunks(node_ids):
        found |= _read_chunk(transaction, chunk)
    return found


def _read_chunk(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, Situation]:
    nodes, heads, status = schema.nodes, schema.heads, schema.node_status
    joined = nodes.outerjoin(heads, nodes.c.node_id == heads.c.node_id)
    joined = joined.outerjoin(status, nodes.c.node_id == status.c.node_id)
    columns = select(
        nodes.c.node_id,
        nodes.c.generation,
        heads.c.authority_epoch,
        heads.c.generation.label("published"),
        heads.c.listing,
        heads.c.candidates,
        status.c.features,
    )
    rows = transaction.rows(columns.select_from(joined).where(nodes.c.node_id.in_(node_ids)))
    listings = {row.node_id: _listing(row.listing) for row in rows}
    coming = {row.node_id: _listing(row.candidates) for row in rows}
    held, candidates = _held_documents(transaction, listings), _held_documents(transaction, coming)
    last = last_versions(transaction, node_ids)
    listed = {node_id: {scope: pairs.listed for scope, pairs in last[node_id].items()} for node_id in listings}
    recoveries = _recoveries(transaction, node_ids, listed)
    refusing = _refusing(transaction, node_ids)
    return {
        row.node_id: Situation(
            node_id=row.node_id,
            based_on=Basis(row.generation, row.published or 0),
            head=(row.authority_epoch or 0, row.published or 0),
            held=held[row.node_id],
            last={scope: pairs.numbered for scope, pairs in last[row.node_id].items()},
            last_listed={scope: pair for scope, pair in listed[row.node_id].items() if pair != (0, 0)},
            candidates=candidates[row.node_id],
            recoveries=recoveries[row.node_id],
            refusing=refusing.get(row.node_id, {}),
            features=features.parse(row.features),
        )
        for row in rows
    }


def _listing(text: str | None) -> dict[str, HeadEntry]:
    value = {} if text is None else canonical.loads(text.encode())
    if not isinstance(value, dict):
        raise AssertionError("a listing is an object")
    return {scope: HeadEntry(**entry) for scope, entry in value.items()}


def _held_documents(
    transaction: Transaction, listings: Mapping[str, Mapping[str, HeadEntry]]
) -> dict[str, dict[str, PublishedDocument]]:
    """A listed document that is gone is as none: its scope is compiled anew. What many nodes share is read once."""
    wanted = {entry.snapshot_id for listing in listings.values() for entry in listing.values()}
    read = reader(transaction)
    found = {id_: _holding(_entry(row), row, read) for id_, row in _rows(transaction, wanted).items()}
    return {
        node_id: {scope: found[entry.snapshot_id] for scope, entry in listing.items() if entry.snapshot_id in found}
        for node_id, listing in listings.items()
    }


def read_document(transaction: Transaction, snapshot_id: str) -> PublishedDocument:
    """One that is kept."""
    row = _rows(transaction, [snapshot_id])[snapshot_id]
    return _holding(_entry(row), row, reader(transaction))


def _holding(entry: HeadEntry, row: "Row[Any]", read: Read) -> PublishedDocument:
    parsed = envelope.parse(bytes(row.envelope), SNAPSHOT)
    return PublishedDocument(entry, parsed, bytes(row.manifest), read)


def _refusing(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, dict[str, Refusing]]:
    """What a node has is looked up among what was published for it: a claim alone is nothing (rules S70)."""
    refusals = refusal_records.of_nodes(transaction, node_ids)
    lines = {
        (node_id, scope, *refusal.running.pair)
        for node_id, scopes in refusals.items()
        for scope, refusal in scopes.items()
        if refusal.running is not None
    }
    running = _published_entries(transaction, lines)
    rows, read = _rows(transaction, {entry.snapshot_id for entry in running.values()}), reader(transaction)
    found: dict[str, dict[str, Refusing]] = defaultdict(dict)
    for node_id, scopes in refusals.items():
        for scope, refusal in scopes.items():
            entry = running.get((node_id, scope, *(refusal.running.pair if refusal.running else (0, 0))))
            row = None if entry is None else rows.get(entry.snapshot_id)
            held = None if entry is None or row is None else _holding(entry, row, read)
            found[node_id][scope] = Refusing(refusal, held)
    return found


def _published_entries(
    transaction: Transaction, lines: Iterable[tuple[str, str, int, int]]
) -> dict[tuple[str, str, int, int], HeadEntry]:
    table = schema.published
    key = tuple_(table.c.node_id, table.c.scope, table.c.authority_epoch, table.c.config_version)
    return {
        (row.node_id, row.scope, row.authority_epoch, row.config_version): _entry(row)
        for chunk in chunks(sorted(lines))
        for row in transaction.rows(select(table).where(key.in_(chunk)))
    }


def _recoveries(
    transaction: Transaction, node_ids: Sequence[str], last: Mapping[str, Mapping[str, Pair]]
) -> dict[str, dict[str, AllowedRecovery]]:
    """The newest of each node and scope, where the version that it leads to is still kept."""
    table, kept = schema.recoveries, schema.documents
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    chosen = select(table, kept.c.envelope, kept.c.manifest, kept.c.signatures).select_from(joined)
    found: dict[str, dict[str, AllowedRecovery]] = defaultdict(dict)
    for row in transaction.rows(chosen.where(table.c.node_id.in_(node_ids)).order_by(kept.c.published_at)):
        epoch = last[row.node_id].get(row.scope, (0, 0))[0]
        allowed = _recovery(transaction, row, epoch)
        if allowed is not None:
            found[row.node_id][row.scope] = allowed
    return found


def _recovery(transaction: Transaction, row: "Row[Any]", epoch: int) -> AllowedRecovery | None:
    table = schema.published
    line = table.c.node_id == row.node_id, table.c.scope == row.scope, table.c.authority_epoch == epoch
    versions = (row.from_config_version, row.to_config_version)
    published = {
        row.config_version: HeadEntry(epoch, row.config_version, row.content_hash, row.snapshot_id)
        for row in transaction.rows(select(table).where(*line, table.c.config_version.in_(versions)))
    }
    target, given_up = published.get(row.to_config_version), published.get(row.from_config_version)
    rows = {} if target is None else _rows(transaction, [target.snapshot_id])
    if target is None or target.content_hash != row.to_content_hash or not rows:
        return None
    held = _holding(target, rows[target.snapshot_id], reader(transaction))
    return AllowedRecovery(_container(row), row.from_config_version, held, given_up.content_hash if given_up else None)


def _container(row: "Row[Any]") -> bytes:
    signatures = _signatures(row.signatures)
    return b"".join(container.encode(bytes(row.envelope), signatures, bytes(row.manifest), ()))


def _signatures(text: str) -> list[tuple[str, bytes]]:
    value = canonical.loads(text.encode())
    if not isinstance(value, list):
        raise AssertionError("signatures are an array")
    return [(key_id, base64.b64decode(signature)) for key_id, signature in value]


def _rows(transaction: Transaction, snapshot_ids: Iterable[str]) -> dict[str, "Row[Any]"]:
    table = schema.documents
    return {
        row.snapshot_id: row
        for chunk in chunks(sorted(snapshot_ids))
        for row in transaction.rows(select(table).where(table.c.snapshot_id.in_(chunk)))
    }


def _bundle_rows(transaction: Transaction, most: int) -> "list[Row[Any]]":
    table = schema.trust_bundles
    newest = select(table.c.snapshot_id).order_by(table.c.config_version.desc()).limit(most)
    ids = [row.snapshot_id for row in transaction.rows(newest)]
    found = _rows(transaction, ids)
    return [found[snapshot_id] for snapshot_id in ids]


def _bundle(transaction: Transaction, document: "Row[Any]") -> TrustBundle:
    entries, read = manifest.parse_state(bytes(document.manifest)), reader(transaction)
    sections = {name: read(entry.sha256) for name, entry in entries.items()}
    return bundles.from_bytes(envelope.parse(bytes(document.envelope), SNAPSHOT), sections)


def _entry(row: "Row[Any]") -> HeadEntry:
    return HeadEntry(row.authority_epoch, row.config_version, row.content_hash, row.snapshot_id)


def reader(transaction: Transaction) -> Read:
    """Many nodes of a batch hold the same section, one after the other."""
    return lru_cache(maxsize=SECTIONS_REMEMBERED)(lambda sha256: object_store.get(transaction, section_key(sha256)))

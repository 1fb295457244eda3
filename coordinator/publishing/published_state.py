"""What is published for a node now: what its next publication starts from. Values, and where they are read.

    read_issue(...)        the authority, the time, the trust bundle, the revocations
    read_situations(...)   for each node its generation, its head, and the documents that the head announces

Both in the transaction that reads the model, so that nothing can slip in between (rules K21).
"""

import base64
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

from sqlalchemy import select, tuple_
from sqlalchemy.engine import Row

from coordinator.base.settings import CLOCK_SKEW_S, CoordinatorSettings
from coordinator.database import cluster_state, documents, object_store, revocations, schema
from coordinator.database.database import Transaction, is_in, is_named
from coordinator.database.documents import HeadEntry, chunks, section_key
from coordinator.declared.compiler import StoredSection
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing.heads import Basis, Pair, last_versions
from coordinator.publishing.remembered import KnownDocument, KnownHead, PublishedMemory, Standing
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.reports import features, refusal_records
from coordinator.reports.standing_refusals import KeptRefusal
from snapshot import bundle as bundles
from snapshot import canonical, container, envelope, manifest
from snapshot.bundle import TrustBundle
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.manifest import Revocations

SECTIONS_REMEMBERED = 8
_out, _status = schema.heads, schema.node_status
_SITUATIONS = (
    select(
        schema.nodes.c.node_id,
        schema.nodes.c.generation,
        _out.c.authority_epoch,
        _out.c.generation,
        _out.c.snapshot_id,
        _out.c.listing,
        _status.c.features,
    )
    .select_from(
        schema.nodes.outerjoin(_out, schema.nodes.c.node_id == _out.c.node_id).outerjoin(
            _status, schema.nodes.c.node_id == _status.c.node_id
        )
    )
    .where(is_named(schema.nodes.c.node_id))
)
_ANY_RECOVERY = select(schema.recoveries.c.snapshot_id).limit(1)
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
    source: Read = field(compare=False, repr=False)

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


@dataclass
class _KeptDocuments:
    """The documents that the heads of some nodes name, by id. Whether they are kept is asked of all of them at once;
    they are read, what is not remembered together, once somebody asks for one that is not.
    """

    transaction: Transaction
    known: PublishedMemory
    named: frozenset[str]
    gone: frozenset[str]
    _made: dict[str, PublishedDocument] = field(default_factory=dict)

    @classmethod
    def read(cls, transaction: Transaction, heads_out: Iterable[KnownHead], known: PublishedMemory) -> "_KeptDocuments":
        named = frozenset[str]().union(*(head.names for head in heads_out))
        return cls(transaction, known, named, documents.missing_ids(transaction, named))

    def get(self, snapshot_id: str) -> PublishedDocument | None:
        """None of one that is gone."""
        if snapshot_id in self.gone:
            return None
        if snapshot_id not in self._made:
            known = self.known.documents.get(snapshot_id)
            if known is None:
                self._read_unknown()
            else:
                self._make(known)
        return self._made[snapshot_id]

    def _read_unknown(self) -> None:
        unknown = {id_ for id_ in self.named - self.gone - self._made.keys() if self.known.documents.get(id_) is None}
        for row in _rows(self.transaction, unknown).values():
            document = _known_document(row)
            self.known.keep_document(document)
            self._make(document)

    def _make(self, document: KnownDocument) -> None:
        made = PublishedDocument(document.entry, document.envelope, document.manifest, self._source)
        self._made[document.entry.snapshot_id] = made

    @cached_property
    def _source(self) -> Read:
        return reader(self.transaction)


@dataclass(frozen=True, eq=False)
class HeldDocuments(Mapping[str, PublishedDocument]):
    """What a listing names, by scope. One that is gone is as none: its scope is compiled anew. Most are never asked
    for: the scope stands as it is.
    """

    listing: Mapping[str, HeadEntry]
    kept: _KeptDocuments = field(repr=False)

    @property
    def is_whole(self) -> bool:
        """Nothing is gone."""
        return not self.kept.gone or all(entry.snapshot_id not in self.kept.gone for entry in self.listing.values())

    def __getitem__(self, scope: str) -> PublishedDocument:
        found = self.kept.get(self.listing[scope].snapshot_id)
        if found is None:
            raise KeyError(scope)
        return found

    def __contains__(self, scope: object) -> bool:
        """Reads nothing."""
        entry = self.listing.get(scope) if isinstance(scope, str) else None
        return entry is not None and entry.snapshot_id not in self.kept.gone

    def __iter__(self) -> Iterator[str]:
        return (scope for scope, entry in self.listing.items() if entry.snapshot_id not in self.kept.gone)

    def __len__(self) -> int:
        return sum(1 for _ in self)


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


class Situation(NamedTuple):
    """One node. `head`: (epoch, generation), (0, 0) without one; `head_id`: of its document. `last`: the greatest
    version of each scope, ever, and `last_listed` without those that were candidates and no more. `candidates`: what
    its head announces as coming. `refusing`: by scope, what it does not take. `features`: by which it is given what it
    is given (features.py). `names`: the ids of all that its head lists and announces. `listing_text`: what it lists, as
    it is kept. `standing`: what that was made from, where it is remembered.
    """

    node_id: str
    based_on: Basis
    head: Pair
    head_id: str | None
    held: HeldDocuments
    last: Mapping[str, Pair]
    last_listed: Mapping[str, Pair]
    candidates: HeldDocuments
    recoveries: Mapping[str, AllowedRecovery]
    refusing: Mapping[str, Refusing]
    features: frozenset[str] | None = None
    names: frozenset[str] = frozenset()
    listing_text: str = "{}"
    standing: Standing | None = None


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


def read_situations(
    transaction: Transaction, node_ids: Sequence[str], known: PublishedMemory | None = None
) -> dict[str, Situation]:
    """Of entries of the catalog; who is none is left out. `known`: what need not be read again."""
    found: dict[str, Situation] = {}
    for chunk in chunks(node_ids):
        found |= _read_chunk(transaction, chunk, known or PublishedMemory())
    return found


def _read_chunk(transaction: Transaction, node_ids: Sequence[str], known: PublishedMemory) -> dict[str, Situation]:
    rows = [tuple(row) for row in transaction.rows(_SITUATIONS, {"named": node_ids})]
    out = _heads_out(transaction, {node_id: head_id for node_id, _, _, _, head_id, _, _ in rows}, known)
    kept = _KeptDocuments.read(transaction, out.values(), known)
    recoveries = _recoveries(transaction, node_ids, {node_id: head.last_listed for node_id, head in out.items()})
    refusing = _refusing(transaction, node_ids)
    found: dict[str, Situation] = {}
    for node_id, generation, epoch, published, head_id, listing, said in rows:
        head = out[node_id]
        found[node_id] = Situation(
            node_id=node_id,
            based_on=Basis(generation, published or 0),
            head=(epoch or 0, published or 0),
            head_id=head_id,
            held=HeldDocuments(head.listing, kept),
            last=head.last,
            last_listed=head.last_listed,
            candidates=HeldDocuments(head.candidates, kept),
            recoveries=recoveries.get(node_id, {}),
            refusing=refusing.get(node_id, {}),
            features=features.parse(said),
            names=head.names,
            listing_text=listing or "{}",
            standing=head.standing,
        )
    return found


def _heads_out(
    transaction: Transaction, wanted: Mapping[str, str | None], known: PublishedMemory
) -> dict[str, KnownHead]:
    """By node. `wanted`: the id of the head that is out for it, or None."""
    remembered = {node_id: known.head(node_id, snapshot_id) for node_id, snapshot_id in wanted.items()}
    found = {node_id: head for node_id, head in remembered.items() if head is not None}
    if new := [node_id for node_id in wanted if node_id not in found]:
        found |= _read_heads(transaction, new)
        for node_id in new:
            if wanted[node_id] is not None:
                known.heads.put(node_id, found[node_id])
    return found


def _read_heads(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, KnownHead]:
    """One that lists nothing for a node without."""
    table = schema.heads
    columns = select(table.c.node_id, table.c.snapshot_id, table.c.listing, table.c.candidates)
    rows = {row.node_id: row for row in transaction.rows(columns.where(is_in(table.c.node_id, node_ids)))}
    last = last_versions(transaction, node_ids)
    found: dict[str, KnownHead] = {}
    for node_id in node_ids:
        row, pairs = rows.get(node_id), last[node_id]
        listing = {} if row is None else documents.entries_of(row.listing)
        candidates = {} if row is None else documents.entries_of(row.candidates)
        found[node_id] = KnownHead(
            snapshot_id="" if row is None else row.snapshot_id,
            listing=listing,
            candidates=candidates,
            last={scope: pair.numbered for scope, pair in pairs.items()},
            last_listed={scope: pair.listed for scope, pair in pairs.items() if pair.listed != (0, 0)},
            names=documents.names_in(listing, candidates),
        )
    return found


def read_document(transaction: Transaction, snapshot_id: str) -> PublishedDocument:
    """One that is kept."""
    row = _rows(transaction, [snapshot_id])[snapshot_id]
    return _holding(_entry(row), row, reader(transaction))


def _holding(entry: HeadEntry, row: "Row[Any]", read: Read) -> PublishedDocument:
    parsed = envelope.parse(bytes(row.envelope), SNAPSHOT)
    return PublishedDocument(entry, parsed, bytes(row.manifest), read)


def _known_document(row: "Row[Any]") -> KnownDocument:
    return KnownDocument(_entry(row), envelope.parse(bytes(row.envelope), SNAPSHOT), bytes(row.manifest))


def _refusing(transaction: Transaction, node_ids: Sequence[str]) -> dict[str, dict[str, Refusing]]:
    """What a node has is looked up among what was published for it: a claim alone is nothing (rules S70)."""
    if not refusal_records.are_any(transaction):
        return {}
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
    if transaction.row(_ANY_RECOVERY) is None:  # as in most clusters
        return {}
    table, kept = schema.recoveries, schema.documents
    joined = table.join(kept, table.c.snapshot_id == kept.c.snapshot_id)
    chosen = select(table, kept.c.envelope, kept.c.manifest, kept.c.signatures).select_from(joined)
    found: dict[str, dict[str, AllowedRecovery]] = defaultdict(dict)
    for row in transaction.rows(chosen.where(is_in(table.c.node_id, node_ids)).order_by(kept.c.published_at)):
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
        for row in transaction.rows(select(table).where(is_in(table.c.snapshot_id, chunk)))
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

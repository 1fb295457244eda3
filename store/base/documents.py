"""Documents and pointers as they are held: what a reader gets (rules S66, P3; threats D-45).

Reading         one consistent view: generation, scopes, marks, documents
StoredDocument  a verified document; satisfies `snapshot.verifier_state.HeldDocument`
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Self, TypeVar

from snapshot import envelope as envelopes
from snapshot import manifest as manifests
from snapshot import section_table
from snapshot.envelope import INCREMENT, Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD
from snapshot.limits import MIB, Limits
from snapshot.manifest import SectionChange, SectionEntry
from snapshot.reasons import Rejected
from store.base import blobs, failed_content, meta, probation
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.records import (
    DocumentRecord,
    FailedContent,
    Good,
    MetaRecord,
    ScopeRecord,
    ScopeTrial,
    name_of,
    pack,
    scope_key,
    unpack,
)

MOST_REMEMBERED = 1024  # records of scopes

T = TypeVar("T")
Fetch = Callable[[bytes], bytes]  # the bytes of a blob, hashed

# What was verified once under the node's own limits is read back under any.
_READ_LIMITS = Limits(section_bytes=1 << 40, content_bytes=1 << 40, manifest_bytes=64 * MIB, sections=1 << 20)


@frozen
class StoredDocument:
    """A verified document and its full state. `fetch` reads blobs, in the transaction or on their own."""

    record: DocumentRecord
    digest: bytes  # of the envelope
    fetch: Fetch

    @classmethod
    def of(
        cls, record: DocumentRecord, fetch: Fetch, state: Mapping[str, SectionEntry], envelope: Envelope | None = None
    ) -> Self:
        """A document whose full state is at hand and need not be parsed, and perhaps its envelope."""
        held = cls(record, blobs.digest_of(record.envelope), fetch)
        vars(held)["sections"] = state
        if envelope is not None:
            vars(held)["envelope"] = envelope
        return held

    @property
    def scope(self) -> str:
        return self.record.scope

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def envelope_hash(self) -> str:
        return name_of(self.digest)

    @property
    def envelope_bytes(self) -> bytes:
        return self.record.envelope

    @property
    def signatures(self) -> tuple[tuple[str, bytes], ...]:
        return self.record.signatures

    @property
    def signers(self) -> tuple[str, ...]:
        """Key ids of the signatures that were counted."""
        return self.record.signers

    @property
    def judged_at(self) -> float:
        return self.record.judged_at

    @property
    def content_hash(self) -> str:
        return self.record.content_hash

    @property
    def version(self) -> tuple[int, int]:
        return self.envelope.version

    @cached_property
    def envelope(self) -> Envelope:
        return known_good(lambda: envelopes.parse(self.record.envelope, self.record.kind), self.scope)

    @property
    def manifest_bytes(self) -> bytes:
        """As signed: of an increment its changes."""
        return self.fetch(self.record.manifest)

    @property
    def state_bytes(self) -> bytes:
        """The canonical manifest of the full state; `content_hash` is its hash."""
        return self.fetch(self.record.state)

    @cached_property
    def sections(self) -> Mapping[str, SectionEntry]:
        """The full state: every section's hash and size. A head has none."""
        return {} if self.kind == HEAD else state_of(self.state_bytes, self.scope)

    @property
    def sections_at_hand(self) -> Mapping[str, SectionEntry] | None:
        """The same if they have been read; nothing is read for it."""
        found: Mapping[str, SectionEntry] | None = vars(self).get("sections")
        return found

    def read(self, name: str) -> bytes:
        """The bytes of a section, hashed now; KeyError where there is none, StoreError where they are damaged."""
        return self.fetch(bytes.fromhex(self.sections[name].sha256))

    def holds(self, name: str, sha256: str) -> bool:
        """Whether a section has this hash, and its bytes, hashed now, as well; StoreError where they are damaged."""
        entry = self.sections.get(name)
        if entry is None or entry.sha256 != sha256:
            return False
        self.read(name)
        return True


class HashedDocument(StoredDocument):
    """One whose sections were hashed a moment ago, in this start: they are not hashed once more to judge it again."""

    @classmethod
    def just_now(cls, held: StoredDocument) -> Self:
        return cls.of(held.record, held.fetch, held.sections)

    def holds(self, name: str, sha256: str) -> bool:
        entry = self.sections.get(name)
        return entry is not None and entry.sha256 == sha256


class StoreReading:
    """One read transaction, seen as scopes and documents. Use it inside its block, on one thread."""

    def __init__(self, transaction: LmdbTransaction) -> None:
        self._transaction = transaction
        self._meta = meta.read(transaction)
        self._scopes: Mapping[str, ScopeRecord] | None = None

    @property
    def generation(self) -> int:
        """The number of activations and withdrawals, rebuilt stores included; `set_id` of the rules."""
        return self._meta.generation

    @property
    def commit_number(self) -> int:
        """The number of the commit that is seen; it never repeats while the store is open."""
        return self._transaction.number

    @property
    def incarnation(self) -> str:
        return self._meta.incarnation

    @property
    def meta(self) -> MetaRecord:
        return self._meta

    def scopes(self) -> Mapping[str, ScopeRecord]:
        """Every scope that was ever accepted, also withdrawn ones; the records of damaged ones are left out."""
        if self._scopes is None:
            self._scopes = {record.scope: record for record in scope_records(self._transaction)}
        return self._scopes

    def scope(self, scope: str) -> ScopeRecord | None:
        return scope_record(self._transaction, scope)

    def active(self, scope: str) -> StoredDocument | None:
        record = self.scope(scope)
        return self.document(record.active) if record and record.active else None

    def previous(self, scope: str) -> StoredDocument | None:
        record = self.scope(scope)
        return self.document(record.previous) if record and record.previous else None

    def document(self, digest: bytes) -> StoredDocument:
        return document(self._transaction, digest, self.blob)

    def blob(self, digest: bytes) -> bytes:
        return blobs.get(self._transaction, digest)

    def lost_scopes(self) -> frozenset[str]:
        """Scopes whose accepted content is not what serves: damaged, withdrawn, or of a lost store (threats C04)."""
        return frozenset(name for name, record in self.scopes().items() if is_lost(record))

    def reverted_scopes(self) -> frozenset[str]:
        """Lost scopes that are so by the node's own act: what was accepted has failed, and what was good serves."""
        return frozenset(name for name, record in self.scopes().items() if is_lost(record) and self._is_back(record))

    def _is_back(self, record: ScopeRecord) -> bool:
        failed = self.failure(record.scope)
        is_the_accepted = failed is not None and (failed.authority_epoch, failed.config_version) == record.order
        return is_the_accepted and record.active is not None and not record.on_previous

    def failure(self, scope: str) -> FailedContent | None:
        """What the scope tried last and failed, until other content has come."""
        return failed_content.last(self._transaction, scope)

    def good(self, scope: str) -> tuple[Good, ...]:
        """What of it has proved itself, the newest first."""
        record = self.scope(scope)
        return () if record is None else probation.good(self._transaction, record)

    def trial(self, scope: str) -> ScopeTrial:
        proved, on = self.good(scope), probation.probation(self._transaction, scope)
        newest = name_of(proved[0].content) if proved else None
        return ScopeTrial(newest, on.until if on is not None else None, self.failure(scope))

    def in_quarantine(self) -> tuple[FailedContent, ...]:
        """What is not activated again, of all scopes."""
        return tuple(failed_content.in_quarantine(self._transaction))


def is_lost(record: ScopeRecord) -> bool:
    return record.active != record.accepted


def document(transaction: LmdbTransaction, digest: bytes, fetch: Fetch) -> StoredDocument:
    """The document of an envelope's digest; store_corrupt when its record is missing or damaged."""
    data = transaction.get("snapshots", digest)
    if data is None:
        raise StoreError(StoreFault.STORE_CORRUPT, f"document {name_of(digest)} is missing")
    return StoredDocument(unpack(DocumentRecord, data), digest, fetch)


def put_document(transaction: LmdbTransaction, record: DocumentRecord) -> bytes:
    digest = blobs.digest_of(record.envelope)
    transaction.put("snapshots", digest, pack(record))
    return digest


def scope_record(transaction: LmdbTransaction, scope: str) -> ScopeRecord | None:
    data = transaction.get("scopes", scope_key(scope))
    return None if data is None else _scope_record_of(data)


def scope_records(transaction: LmdbTransaction) -> Iterator[ScopeRecord]:
    """The records that can be read; a damaged one is the business of the start and of `check`."""
    for _, data in transaction.items("scopes"):
        try:
            yield _scope_record_of(data)
        except StoreError:
            continue


@lru_cache(maxsize=MOST_REMEMBERED)
def _scope_record_of(data: bytes) -> ScopeRecord:
    """By all of its bytes: other ones are read and held against their checksum. Each update of one scope goes through
    the records of all, several times.
    """
    return unpack(ScopeRecord, data)


def put_scope(transaction: LmdbTransaction, record: ScopeRecord) -> None:
    transaction.put("scopes", scope_key(record.scope), pack(record))


def state_of(data: bytes, what: str) -> Mapping[str, SectionEntry]:
    return known_good(lambda: section_table.read_state(data, _READ_LIMITS), what)


def changes_of(data: bytes, what: str) -> dict[str, SectionChange]:
    return known_good(lambda: manifests.parse_changes(data, _READ_LIMITS), what)


def state_after(
    record_kind: str, manifest: bytes, base: StoredDocument | None, what: str
) -> tuple[Mapping[str, SectionEntry], bytes]:
    """The full state that a manifest leads to, and its canonical bytes; for a head no sections."""
    if record_kind == HEAD:
        return {}, manifest
    if record_kind != INCREMENT:
        return state_of(manifest, what), manifest
    if base is None:
        raise StoreError(StoreFault.CONFLICT, f"{what}: an increment without its base")
    state = section_table.state_after(base.sections, changes_of(manifest, what))
    return state, section_table.state_bytes(state)


def known_good(parse: Callable[[], T], what: str) -> T:
    """Parse what passed the verifier once; that it no longer does is damage."""
    try:
        return parse()
    except Rejected as verdict:
        raise StoreError(StoreFault.STORE_CORRUPT, f"{what}: {verdict}; {verdict.detail}") from verdict

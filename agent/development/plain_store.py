"""What the local API reads of a store, without a store: documents that nobody has signed, in memory.

It is a `ViewedStore` (agent/state/view.py), so views, answers, notices and files are those of a node. Its documents
have envelopes, since readers are shown them: of the cluster `development`, for a year, with no signature. Nothing of it
could pass for a document elsewhere: it never leaves the process but as an answer that says `development`.
"""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent.development.plain_files import raw_of
from snapshot import manifest
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.identifiers import HEAD, parse_scope
from snapshot.manifest import SectionEntry
from store.base.documents import StoredDocument
from store.base.errors import StoreError, StoreFault
from store.base.pending import Waiting
from store.base.records import DocumentRecord, Rejection, ScopeRecord, ScopeTrial, name_of
from store.watch import GenerationChange, Watch

NAME = "development"
NO_KEY = "sha256:" + "0" * 64
YEAR_S = 365 * 86_400


class NoRejections:
    """Nothing is verified, so nothing is refused."""

    def ring(self) -> list[Rejection]:
        return []

    def last(self, _scope: str) -> Rejection | None:
        return None


@dataclass(frozen=True)
class PlainReading:
    """What is active at one moment."""

    generation: int
    records: Mapping[str, ScopeRecord]
    documents: Mapping[bytes, StoredDocument]

    @property
    def commit_number(self) -> int:
        return self.generation

    def scopes(self) -> Mapping[str, ScopeRecord]:
        return self.records

    def scope(self, scope: str) -> ScopeRecord | None:
        return self.records.get(scope)

    def document(self, digest: bytes) -> StoredDocument:
        return self.documents[digest]

    def trial(self, _scope: str) -> ScopeTrial:
        return ScopeTrial()


@dataclass
class PlainStore:
    """One writer. What a reader holds stays readable as long as it is active or previous."""

    rejections: NoRejections = field(default_factory=NoRejections)
    _present: PlainReading = field(default_factory=lambda: PlainReading(0, {}, {}))
    _blobs: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.watch = Watch(0)

    @property
    def commit_number(self) -> int:
        return self._present.generation

    @contextmanager
    def read(self) -> Iterator[PlainReading]:
        yield self._present

    def get(self, name: str) -> bytes:
        try:
            return self._blobs[bytes.fromhex(name.removeprefix("sha256:"))]
        except KeyError:
            raise StoreError(StoreFault.STORE_CORRUPT, "it has changed meanwhile: ask again") from None

    def document_at_hand(self, digest: bytes) -> StoredDocument | None:
        return None

    def waiting(self) -> Mapping[str, Waiting]:
        return {}

    def fill_level(self) -> float:
        return 0.0

    def replace(self, contents: Mapping[str, Mapping[str, bytes]], now: float) -> None:
        """Makes these the active scopes, each with a version of its own that counts its changes."""
        generation = self._present.generation + 1
        blobs: dict[bytes, bytes] = {}
        documents: dict[bytes, StoredDocument] = {}
        records: dict[str, ScopeRecord] = {}
        for scope, sections in {**contents, HEAD: {}}.items():
            before = self._present.records.get(scope)
            records[scope], held = self._record_of(scope, sections, before, generation, now)
            documents.update((document.digest, document) for document in held)
            blobs.update(self._blobs_of(held))
            blobs.update((_digest(data), data) for data in (*sections.values(), _state(scope, sections)))
        self._blobs = blobs
        self._present = PlainReading(generation, records, documents)
        self.watch.tell(GenerationChange(generation, tuple(sorted(contents))))

    def _record_of(
        self, scope: str, sections: Mapping[str, bytes], before: ScopeRecord | None, generation: int, now: float
    ) -> tuple[ScopeRecord, list[StoredDocument]]:
        """The record of a scope, and the documents that it points to. The same content stays what it was."""
        content = _digest(_state(scope, sections))
        if (
            before is not None
            and before.active is not None
            and before.content_hash == name_of(content)
            and scope != HEAD
        ):
            held = [
                self._present.documents[snapshot_id]
                for snapshot_id in (before.active, before.previous)
                if snapshot_id is not None
            ]
            return before, held
        version = 1 if before is None else before.version + 1
        envelope = _envelope(scope, version, content, sum(map(len, sections.values())), now).to_bytes()
        kind = HEAD if scope == HEAD else SNAPSHOT
        document = DocumentRecord(scope, kind, envelope, (), content, content, (), now)
        made = StoredDocument(document, _digest(envelope), lambda digest: self.get(name_of(digest)))
        record = ScopeRecord(
            scope,
            made.digest,
            None,
            made.digest,
            1,
            version,
            name_of(content),
            generation,
            now,
            int(now),
            int(now) + YEAR_S,
        )
        if before is None or before.active is None or scope == HEAD:
            return record, [made]
        return replace(record, previous=before.active), [made, self._present.documents[before.active]]

    def _blobs_of(self, documents: list[StoredDocument]) -> dict[bytes, bytes]:
        """Those that are here already."""
        wanted = [document.record.state for document in documents]
        wanted += [
            bytes.fromhex(entry.sha256)
            for document in documents
            if document.record.state in self._blobs
            for entry in document.sections.values()
        ]
        return {digest: self._blobs[digest] for digest in wanted if digest in self._blobs}


def _envelope(scope: str, version: int, content: bytes, length: int, now: float) -> Envelope:
    named, at = parse_scope(scope), int(now)
    return Envelope(
        kind=HEAD if scope == HEAD else SNAPSHOT,
        snapshot_id=f"{NAME}-{content.hex()[:16]}-{version}",
        cluster_id=NAME,
        subject_node_id=NAME,
        scope_type=named.type,
        scope_ids=named.ids,
        roles=(),
        organization_ids=(),
        config_version=version,
        authority_epoch=1,
        issued_at=at,
        valid_from=at,
        refresh_after=at + YEAR_S // 2,
        expires_at=at + YEAR_S,
        min_trust_bundle_version=0,
        signer_key_id=NO_KEY,
        signature_algorithm="ed25519",
        cosigner_key_ids=(),
        content_hash=name_of(content),
        content_length=length,
    )


def _state(scope: str, sections: Mapping[str, bytes]) -> bytes:
    raw = raw_of(scope, sections)
    return manifest.state_bytes({name: _entry(data, name in raw) for name, data in sections.items()})


def _entry(data: bytes, is_raw: bool) -> SectionEntry:
    return SectionEntry(hashlib.sha256(data).hexdigest(), len(data), is_raw)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()

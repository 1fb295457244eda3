"""What lies here that peers may ask for: this node's own active documents, and what it keeps for neighbours.

Of an own document that is active by an increment there is no whole signed container any more: its sections are there by
content, the document is not. Everything here reads, on a reading thread.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from agent.peers.entitlement import WantedDocument
from agent.relay.relaying import Relay
from agent.state.node import RunningNode
from snapshot import container
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts, Opening
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.manifest import parse_state
from snapshot.reasons import Rejected
from store.base.documents import StoredDocument
from store.base.errors import StoreError, StoreFault
from store.relay import RelayedContainer, digest_of

HeldContainer = StoredDocument | RelayedContainer

MOST_INDEXED = 256  # documents whose sections are remembered


@dataclass(frozen=True)
class SectionPlace:
    """Where the bytes of a section lie: in a kept file from `begin` on, or in the store."""

    size: int
    file: RelayedContainer | None = None
    begin: int = 0


@dataclass
class Shelf:
    node: RunningNode
    relay: Relay
    _indexed: dict[RelayedContainer, Mapping[str, SectionPlace]] = field(default_factory=dict)

    # ---- documents

    def find(self, snapshot_id: str) -> HeldContainer | None:
        """Own ones first."""
        kept = self.node.holdings.kept.active
        own = next((document for document in kept.values() if _is_whole(document, snapshot_id)), None)
        return own or self.relay.store.document(snapshot_id)

    def increment(self, scope: str, base: int) -> RelayedContainer | None:
        """As this node has fetched it, as a relay of its site."""
        return self.relay.store.increment(scope, base)

    def pieces(self, found: HeldContainer) -> Iterator[bytes]:
        """The container. StoreError."""
        if isinstance(found, RelayedContainer):
            return self.relay.pieces(found)
        names = list(found.sections)
        opening = container.encode_opening(found.envelope_bytes, found.signatures, found.manifest_bytes, len(names))
        return chain(opening, *(_section_pieces(found, name) for name in names))

    def manifest(self, found: HeldContainer) -> bytes:
        """The container without its sections. StoreError, Rejected."""
        opening, manifest = self._opening(found)
        return b"".join(container.encode(opening.envelope, opening.signatures, manifest, ()))

    # ---- sections

    def section_place(self, sha256: str, may: Callable[[WantedDocument], bool]) -> SectionPlace | None:
        """Where its bytes lie, of a document that may be given: no other one is looked into."""
        for own in self.node.holdings.kept.active.values():
            if own.scope in (TRUST_BUNDLE, HEAD):
                continue
            size = next((entry.size for entry in own.sections.values() if entry.sha256 == sha256), None)
            if size is not None and may(document_facts(own.envelope)):
                return SectionPlace(size)
        for kept in self.relay.store.documents.values():
            known = self._indexed.get(kept)
            if (known is None or sha256 in known) and may(document_facts(kept.envelope)):
                place = self._sections_of(kept).get(sha256)
                if place is not None:
                    return place
        return None

    def section(self, sha256: str, place: SectionPlace) -> bytes:
        """StoreError, for what is other than its hash says, too. It is small enough to be held whole."""
        if place.file is None:
            return self.node.store.get(f"sha256:{sha256}")
        with self.relay.noting_damage(place.file):
            data = b"".join(self.relay.store.pieces(place.file, place.begin, place.size))
            if hashlib.sha256(data).hexdigest() != sha256:
                raise StoreError(StoreFault.STORE_CORRUPT, f"{place.file.file.name}: a section is other than it was")
        return data

    # ---- heads

    def head(self, digest: str) -> tuple[tuple[int, int], bytes] | None:
        """The pair, and the container: this node's own, or the one that is kept, while it is in its time."""
        own = self.node.holdings.kept.active.get(HEAD)
        if own is not None and digest == digest_of(self.node.settings.node.node_id):
            return own.version, b"".join(container.encode(own.envelope_bytes, own.signatures, own.manifest_bytes, ()))
        kept = self.relay.store.head_of(digest)
        if kept is None or kept.envelope.expires_at <= self.node.now():
            return None
        return kept.envelope.version, b"".join(self.relay.pieces(kept))

    def head_version(self, digest: str) -> tuple[int, int] | None:
        """Of the same, without a look at its file."""
        own = self.node.holdings.kept.active.get(HEAD)
        if own is not None and digest == digest_of(self.node.settings.node.node_id):
            return own.version
        kept = self.relay.store.head_of(digest)
        return None if kept is None or kept.envelope.expires_at <= self.node.now() else kept.envelope.version

    def bundles_after(self, version: int, most_bytes: int) -> list[bytes]:
        """Those that follow, without a gap, as many as one answer holds."""
        found: list[bytes] = []
        versions, own = self.relay.store.bundle_versions(), self.node.holdings.kept.active.get(TRUST_BUNDLE)
        newest = own.envelope.config_version if own is not None else 0
        while (version := version + 1) in versions or version == newest:
            is_own = own is not None and version == newest
            data = b"".join(self.pieces(own)) if is_own and own is not None else self.relay.store.bundle(version)
            most_bytes -= len(data)
            if most_bytes < 0:
                break
            found.append(data)
        return found

    # ---- inside

    def _opening(self, found: HeldContainer) -> tuple[Opening, bytes]:
        if isinstance(found, StoredDocument):
            return Opening(found.envelope_bytes, found.signatures), found.manifest_bytes
        with self.relay.noting_damage(found):
            try:
                parts = ChunkParts(self.relay.store.pieces(found), self.node.holdings.holder.limits)
                opening, manifest = parts.opening(), parts.manifest()
            except Rejected as damage:  # it was whole when it was put there
                raise StoreError(StoreFault.STORE_CORRUPT, f"{found.file.name}: {damage}") from damage
            if f"sha256:{hashlib.sha256(manifest).hexdigest()}" != found.envelope.content_hash:
                raise StoreError(StoreFault.STORE_CORRUPT, f"{found.file.name}: the manifest is other than it was")
        return opening, manifest

    def _sections_of(self, kept: RelayedContainer) -> Mapping[str, SectionPlace]:
        """By hash; read once, since a file never changes. None of one that is damaged, or gone meanwhile: another one
        may have them. Several threads do this at once.
        """
        places = self._indexed.get(kept)
        if places is None:
            try:
                places = self._read_places(kept)
            except StoreError as error:
                if error.fault is not StoreFault.STORE_CORRUPT:
                    return {}
                places = {}
            except Rejected:
                places = {}
            for forgotten in list(self._indexed)[: max(0, len(self._indexed) + 1 - MOST_INDEXED)]:
                self._indexed.pop(forgotten, None)
            self._indexed[kept] = places
        return places

    def _read_places(self, kept: RelayedContainer) -> Mapping[str, SectionPlace]:
        """A container has one encoding, so places follow from sizes. StoreError, Rejected."""
        opening, manifest = self._opening(kept)
        entries = parse_state(manifest, self.node.holdings.holder.limits)
        before = container.encode_opening(opening.envelope, opening.signatures, manifest, len(entries))
        begin, places = sum(map(len, before)), {}
        for entry in entries.values():
            begin += len(container.encode_section_head(entry.size))
            places[entry.sha256] = SectionPlace(entry.size, kept, begin)
            begin += entry.size
        return places


def document_facts(envelope: Envelope) -> WantedDocument:
    return WantedDocument(
        envelope.snapshot_id,
        envelope.scope,
        envelope.subject_node_id,
        envelope.state_hash,
        frozenset(envelope.organization_ids),
    )


def _is_whole(document: StoredDocument, snapshot_id: str) -> bool:
    return document.kind == SNAPSHOT and document.envelope.snapshot_id == snapshot_id


def _section_pieces(document: StoredDocument, name: str) -> Iterator[bytes]:
    data = document.read(name)
    yield container.encode_section_head(len(data))
    yield data

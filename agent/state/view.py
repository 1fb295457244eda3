"""What is active, seen in one read transaction: what the local API, the files and the services go by (rules P3, X17).

    Views.all()         every active scope, with the generation
    Views.scope(name)   one of them
    Views.at_hand()     what `all` gave last, while nothing else was committed: nothing is read for it

The documents may be kept and read from after the block: their blobs are hashed at each read.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from agent.base.age import age_s
from agent.files.layout import ProjectedScope
from agent.state.revoked_services import revoked_services
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.degraded import REQUIRED
from snapshot.envelope import Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD
from store.base.documents import StoredDocument
from store.base.pending import Waiting
from store.base.records import Rejection, ScopeRecord, ScopeTrial, name_of

HEAD_FRESH_S = 86_400  # the most that agent.toml may say


class Grade(StrEnum):
    FRESH = "fresh"  # a valid head confirms it
    STALE = "stale"  # the head is over, the snapshot is not
    EXPIRED = "expired"  # the snapshot is over


@frozen
class ActiveScope:
    """`good_for_s`: of a head, how long after its `issued_at` it is believed at most, whatever it says. Whoever has a
    config key for an hour could otherwise sign the last word for years, and keep the node from ever being degraded.
    """

    record: ScopeRecord
    document: StoredDocument
    good_for_s: int | None = None

    @property
    def expires_at(self) -> int:
        envelope = self.document.envelope
        if self.good_for_s is None:
            return envelope.expires_at
        return min(envelope.expires_at, envelope.issued_at + self.good_for_s)

    def age_s(self, now: float) -> int:
        return age_s(self.document.envelope.issued_at, self.record.activated_at or None, now)

    @property
    def identity(self) -> tuple[int, int, str]:
        """Differs for each content that was ever active under its name."""
        return *self.document.version, self.document.content_hash


@frozen
class View:
    """`scopes`: the active ones, without the head."""

    generation: int
    scopes: Mapping[str, ActiveScope]
    head: ActiveScope | None

    @cached_property
    def revoked_services(self) -> frozenset[str]:
        """Of a view of all scopes: services, and what they go out by, that the head or the bundle revokes."""
        bundle = self.scopes.get(TRUST_BUNDLE)
        return revoked_services(self.head.document if self.head else None, bundle.document if bundle else None)

    def head_is_fresh(self, now: float) -> bool:
        return self.head is not None and now < self.head.expires_at

    def age_s(self, envelope: Envelope, now: float) -> int:
        """Of any document: what is active is known since it was taken."""
        held = self.head if envelope.kind == HEAD else self.scopes.get(envelope.scope)
        if held is not None and held.document.envelope.snapshot_id == envelope.snapshot_id:
            return held.age_s(now)
        return age_s(envelope.issued_at, None, now)

    def grade_of(self, scope: ActiveScope, now: float) -> Grade:
        if now >= scope.expires_at:
            return Grade.EXPIRED
        return Grade.FRESH if self.head_is_fresh(now) else Grade.STALE

    def grade(self, now: float) -> Grade:
        """Of the node: expired when a required scope is, or is not there."""
        required = [self.scopes.get(name) for name in REQUIRED]
        if any(scope is None or now >= scope.expires_at for scope in required):
            return Grade.EXPIRED
        return Grade.FRESH if self.head_is_fresh(now) else Grade.STALE

    def next_expiry(self, now: float) -> int | None:
        """When the next of these grades changes by itself."""
        held = [*self.scopes.values(), *([self.head] if self.head else [])]
        return min((scope.expires_at for scope in held if scope.expires_at > now), default=None)

    def has_same_files(self, other: "View", now: float) -> bool:
        """In all that the files show, but for the generation. What is revoked is read, and so is asked for last."""
        is_same = self.file_facts(now) == other.file_facts(now)
        return is_same and self.revoked_services == other.revoked_services

    def file_facts(self, now: float) -> dict[str, tuple[object, ...]]:
        """What the files show of each scope."""
        return {
            name: (scope.identity, scope.expires_at, self.grade_of(scope, now)) for name, scope in self.scopes.items()
        }

    def projected_scopes(self, now: float) -> Iterator[ProjectedScope]:
        for name, scope in self.scopes.items():
            yield ProjectedScope(
                name,
                *scope.identity,
                expires_at=scope.expires_at,
                grade=str(self.grade_of(scope, now)),
                sections=scope.document.sections,
                read=scope.document.read,
                revoked=self.revoked_services,
            )


class RecordedRefusals(Protocol):
    def ring(self) -> list[Rejection]: ...

    def last(self, scope: str) -> Rejection | None: ...


class ViewedReading(Protocol):
    """One read transaction."""

    @property
    def generation(self) -> int: ...

    @property
    def commit_number(self) -> int: ...

    def scopes(self) -> Mapping[str, ScopeRecord]: ...

    def scope(self, scope: str) -> ScopeRecord | None: ...

    def document(self, digest: bytes) -> StoredDocument: ...

    def trial(self, scope: str) -> ScopeTrial: ...


class ViewedStore(Protocol):
    """What is read of a store here and by those who answer from views: the store's, or that of plain files."""

    @property
    def commit_number(self) -> int: ...

    @property
    def rejections(self) -> RecordedRefusals: ...

    def read(self) -> AbstractContextManager[ViewedReading]: ...

    def get(self, name: str) -> bytes: ...

    def document_at_hand(self, digest: bytes) -> StoredDocument | None: ...

    def waiting(self) -> Mapping[str, Waiting]: ...

    def fill_level(self) -> float: ...


class Views:
    """Synchronous; for the reading threads. Documents do not change, so what was parsed once is kept."""

    def __init__(self, store: ViewedStore, head_fresh_s: int = HEAD_FRESH_S) -> None:
        self._store = store
        self._head_fresh_s = head_fresh_s
        self._parsed: dict[bytes, StoredDocument] = {}
        self._last: tuple[int, View] | None = None

    @property
    def store(self) -> ViewedStore:
        return self._store

    def all(self) -> View:
        with self._store.read() as reading:
            last = self._last
            if last is not None and last[0] == reading.commit_number:
                return last[1]
            view = self._view(reading, records := reading.scopes())
            self._last = reading.commit_number, view
            self._forget_all_but(records.values())
            return view

    def at_hand(self) -> View | None:
        """Also for the event loop."""
        last = self._last
        return last[1] if last is not None and last[0] == self._store.commit_number else None

    def scope(self, name: str) -> View:
        """A view that holds this scope alone, if it is active, and the head."""
        with self._store.read() as reading:
            found = {scope: reading.scope(scope) for scope in {name, HEAD}}
            return self._view(reading, {scope: record for scope, record in found.items() if record is not None})

    def previous(self, name: str) -> StoredDocument | None:
        with self._store.read() as reading:
            record = reading.scope(name)
            return self._document(reading, record.previous) if record and record.previous else None

    def _view(self, reading: ViewedReading, records: Mapping[str, ScopeRecord]) -> View:
        held = {
            name: ActiveScope(record, self._document(reading, record.active))
            for name, record in records.items()
            if record.active is not None
        }
        head = held.pop(HEAD, None)
        return View(reading.generation, held, replace(head, good_for_s=self._head_fresh_s) if head else None)

    def _document(self, reading: ViewedReading, digest: bytes) -> StoredDocument:
        found = self._parsed.get(digest) or self._store.document_at_hand(digest)
        if found is None:
            found = StoredDocument(reading.document(digest).record, digest, self._fetch)
        self._parsed[digest] = found
        return found

    def _forget_all_but(self, records: Iterable[ScopeRecord]) -> None:
        """What is active no more may be large, and is seldom asked for."""
        kept = {record.active for record in records}
        self._parsed = {digest: document for digest, document in list(self._parsed.items()) if digest in kept}

    def _fetch(self, digest: bytes) -> bytes:
        return self._store.get(name_of(digest))

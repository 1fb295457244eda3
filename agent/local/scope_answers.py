"""`GET /v1/scopes/...`: documents and sections as they are, with what a reader must know about them (protocol.md 4).

Sections are served byte for byte, hashed when they are read (rules L29). A whole scope is streamed, one section at a
time, so that its size costs no memory.
"""

import base64
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import field

from agent.access.access import Access
from agent.base.threads import Threads
from agent.files.maps import inside, parts_of
from agent.local.section_cache import SmallSections
from agent.services.scope_reports import envelope_of
from agent.state.view import Grade, View, Views
from snapshot import canonical
from snapshot.envelope import Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD, ONE_EACH, format_time
from snapshot.manifest import SectionEntry, parse_state
from store.base.documents import StoredDocument
from wire.local.local_answers import OfDocument
from wire.peer import UnixPeer
from wire.request import JSON, HttpError, Request, Response

ACTIVE, PREVIOUS, PENDING = "active", "previous", "pending"
BATCH_BYTES = 256 << 10
BYTES = ("content-type", "application/octet-stream")  # of a raw section

Headers = list[tuple[str, str]]


@frozen
class ServedDocument:
    """A document to answer from; `read` gives the bytes of a section."""

    envelope: Envelope
    envelope_bytes: bytes
    manifest: bytes
    content_hash: str
    sections: Mapping[str, SectionEntry]
    document: StoredDocument | None
    parts: tuple[bytes, ...] = ()  # of a pending one

    def read(self, name: str) -> bytes:
        if self.document is not None:
            return self.document.read(name)
        return self.parts[list(self.sections).index(name)]


@frozen
class ScopeRequest:
    """A request for a scope, or for one section of it. What may be read is of its caller; `expired` was asked for."""

    scope: str
    slot: str
    may_read: bool
    may_read_expired: bool
    expired: bool
    etags: frozenset[str]

    @classmethod
    def of(cls, request: Request, access: Access, scope: str) -> "ScopeRequest":
        slot, peer = request.query_one("slot") or ACTIVE, request.peer
        if slot not in (ACTIVE, PREVIOUS, PENDING):
            raise HttpError(400, "bad_request", "slot must be active, previous or pending")
        may_read = isinstance(peer, UnixPeer) and access.may_read(peer, scope)
        may_read_expired = isinstance(peer, UnixPeer) and access.may_read_expired(peer, scope)
        return cls(scope, slot, may_read, may_read_expired, request.query_one("expired") == "allow", _etags(request))


@frozen
class ScopeAnswers:
    """Each answer is made in one go from one view: on a reading thread, or at once where all of it is at hand."""

    views: Views
    threads: Threads
    access: Access
    small: SmallSections = field(default_factory=SmallSections)

    async def scope(self, request: Request, now: float) -> Response:
        """Envelope, manifest and all sections as one JSON object; the bytes of a raw section in base64, as a string."""
        return await self.threads.read(self._scope, self._request(request), now)

    async def section(self, request: Request, now: float) -> Response:
        """The section's bytes, verbatim; by the name of a map that is signed in parts, the map."""
        asked, name = self._request(request), request.parameters["name"]
        at_hand = self._at_hand(asked, name, now)
        if at_hand is not None:
            return at_hand
        return await self.threads.read(self._section, asked, name, now)

    def _request(self, request: Request) -> ScopeRequest:
        return ScopeRequest.of(request, self.access, request.parameters["scope"])

    def _at_hand(self, asked: ScopeRequest, name: str, now: float) -> Response | None:
        """The answer that the threads would give, if it needs no disk and is none of the rare ones."""
        view = self.views.at_hand() if asked.may_read and asked.slot == ACTIVE else None
        active = view.scopes.get(asked.scope) if view is not None else None
        entry = (active.document.sections_at_hand or {}).get(name) if active is not None else None
        data = self.small.get(entry.sha256) if entry is not None else None
        if view is None or active is None or entry is None or data is None or now >= active.expires_at:
            return None
        headers = scope_headers(view, active.document.envelope, now)
        return _of_section(entry, data, headers, asked)

    def _scope(self, asked: ScopeRequest, now: float) -> Response:
        shown, headers = self.find(asked, now)
        etag = f'"{shown.content_hash}"'
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        start = b'{"envelope":%s,"manifest":%s,"sections":{' % (shown.envelope_bytes, shown.manifest)
        names = [canonical.dumps(name) for name in shown.sections]
        size = sum(len(name) + 1 for name in names) + sum(map(_length, shown.sections.values()))
        length = len(start) + size + max(0, len(names) - 1) + 2
        return Response(200, [JSON, *headers, ("content-length", str(length))], self._whole(start, shown))

    def _section(self, asked: ScopeRequest, name: str, now: float) -> Response:
        shown, headers = self.find(asked, now)
        entry = shown.sections.get(name)
        if entry is None and (parts := parts_of(asked.scope, name, shown.sections)):
            return self._map(shown, headers, asked, name, parts)
        if entry is None:
            raise HttpError(404, "not_found", "this scope has no such section", headers=headers)
        data = shown.read(name)
        self.small.keep(entry.sha256, data)
        return _of_section(entry, data, headers, asked)

    def _map(
        self,
        shown: ServedDocument,
        headers: Headers,
        asked: ScopeRequest,
        name: str,
        parts: Mapping[str, SectionEntry],
    ) -> Response:
        etag = etag_of(parts)
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        return Response(200, [JSON, *headers], self.stream_map(shown, asked.scope, name))

    async def stream_map(self, shown: ServedDocument, scope: str, name: str) -> AsyncIterator[bytes]:
        """A map that is signed in parts as one object, a few parts in memory at a time."""
        entries = await self.threads.read(parts_of, scope, name, shown.sections)
        between = b"{"
        for names in _batches(entries):
            if members := await self.threads.read(_inside, shown, names):
                yield between + members
                between = b","
        yield b"{}" if between == b"{" else b"}"

    async def _whole(self, start: bytes, shown: ServedDocument) -> AsyncIterator[bytes]:
        yield start
        comma = b""
        for names in _batches(shown.sections):
            yield comma + await self.threads.read(_members, shown, names)
            comma = b","
        yield b"}}"

    def find(self, asked: ScopeRequest, now: float) -> tuple[ServedDocument, Headers]:
        """What was asked for and its headers; HttpError 404, or 410 where it has expired."""
        view = self.views.at_hand() or self.views.all()
        shown = self._load(view, asked) if asked.may_read else None
        if shown is None:
            raise HttpError(404, "not_found", _none_here(asked.scope), headers=node_headers(view, now))
        headers = scope_headers(view, shown.envelope, now)
        if now >= shown.envelope.expires_at and not (asked.expired and asked.may_read_expired):
            remedy = (
                "ask with ?expired=allow to read it all the same" if asked.may_read_expired else "it must be renewed"
            )
            raise HttpError(410, "expired", f"this scope has expired: {remedy}", headers=headers)
        return shown, headers

    def _load(self, view: View, asked: ScopeRequest) -> ServedDocument | None:
        if asked.slot == PENDING:
            return self._pending(asked.scope)
        active = view.head if asked.scope == HEAD else view.scopes.get(asked.scope)
        document = active.document if active else None
        if asked.slot == PREVIOUS:
            document = self.views.previous(asked.scope)
        return None if document is None else _served_document(document)

    def _pending(self, scope: str) -> ServedDocument | None:
        """A snapshot that waits for its time. What is not verified is shown to nobody (rules X10)."""
        waiting = self.views.store.waiting().get(scope)
        envelope = envelope_of(waiting) if waiting is not None else None
        if waiting is None or envelope is None:
            return None
        manifest = waiting.parts.manifest()
        entries = parse_state(manifest)
        bodies = tuple(waiting.parts.sections([entry.size for entry in entries.values()]))
        return ServedDocument(envelope, waiting.envelope, manifest, envelope.content_hash, entries, None, bodies)


def _none_here(scope: str) -> str:
    """The same whatever there is, so that nobody learns what a node holds."""
    if scope in ONE_EACH:
        return f"{scope} is a scope for each service: {scope}/<id>, as `holdfast status` lists them"
    return "there is no such scope here"


def _of_section(entry: SectionEntry, data: bytes, headers: Headers, asked: ScopeRequest) -> Response:
    etag = f'"sha256:{entry.sha256}"'
    headers.append(("etag", etag))
    if is_known(etag, asked):
        return Response(304, headers)
    return Response(200, [BYTES if entry.is_raw else JSON, *headers], data)


def _batches(sections: Mapping[str, SectionEntry]) -> Iterator[list[str]]:
    """Names of sections that are read together: a large one alone, small ones up to the size of a piece."""
    names: list[str] = []
    size = 0
    for name, entry in sections.items():
        if names and size + entry.size > BATCH_BYTES:
            yield names
            names, size = [], 0
        names.append(name)
        size += entry.size
    if names:
        yield names


def _inside(shown: ServedDocument, names: list[str]) -> bytes:
    return inside(shown.read(name) for name in names)


def etag_of(parts: Mapping[str, SectionEntry]) -> str:
    """Of a map: differs with any part of it, and with nothing beside it."""
    hashes = (entry.sha256 for entry in parts.values())
    return f'"sha256:{hashlib.sha256(",".join(hashes).encode()).hexdigest()}"'


def _members(shown: ServedDocument, names: list[str]) -> bytes:
    return b",".join(canonical.dumps(name) + b":" + _value(shown, name) for name in names)


def _value(shown: ServedDocument, name: str) -> bytes:
    """The section as a JSON value."""
    data = shown.read(name)
    return b'"%s"' % base64.b64encode(data) if shown.sections[name].is_raw else data


def _length(entry: SectionEntry) -> int:
    """Of that value."""
    return 4 * ((entry.size + 2) // 3) + 2 if entry.is_raw else entry.size


def _served_document(document: StoredDocument) -> ServedDocument:
    manifest = document.manifest_bytes if document.kind == HEAD else document.state_bytes
    return ServedDocument(
        document.envelope,
        document.envelope_bytes,
        manifest,
        document.content_hash,
        document.sections,
        document,
    )


def node_headers(view: View, now: float) -> Headers:
    """On every answer."""
    return [("holdfast-generation", str(view.generation)), ("holdfast-grade", view.grade(now))]


def scope_headers(view: View, envelope: Envelope, now: float) -> Headers:
    """`Holdfast-Age`: age.py."""
    grade = Grade.EXPIRED if now >= envelope.expires_at else Grade.STALE
    if grade is Grade.STALE and view.head_is_fresh(now):
        grade = Grade.FRESH
    return [
        ("holdfast-generation", str(view.generation)),
        ("holdfast-grade", grade),
        ("holdfast-version", str(envelope.config_version)),
        ("holdfast-epoch", str(envelope.authority_epoch)),
        ("holdfast-expires", format_time(envelope.expires_at)),
        ("holdfast-age", str(view.age_s(envelope, now))),
    ]


def document_facts(headers: Headers) -> OfDocument:
    """Of the document, as `scope_headers` says it, beside what is answered from it."""
    told = dict(headers)
    return OfDocument(
        version=int(told["holdfast-version"]),
        expires_at=told["holdfast-expires"],
        grade=str(told["holdfast-grade"]),
    )


def _etags(request: Request) -> frozenset[str]:
    asked = request.header("if-none-match") or ""
    return frozenset(tag.strip().removeprefix("W/") for tag in asked.split(","))


def is_known(etag: str, asked: ScopeRequest) -> bool:
    """Whether the caller has it already."""
    return etag in asked.etags or "*" in asked.etags

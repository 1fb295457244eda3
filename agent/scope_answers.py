"""`GET /v1/scopes/...`: documents and sections as they are, with what a reader must know about them (protocol.md 4).

Sections are served byte for byte, hashed when they are read (rules L29). A whole scope is streamed, one section at a
time, so that its size costs no memory.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from agent.access import Access
from agent.scope_reports import waiting_envelope
from agent.threads import Threads
from agent.view import Grade, View, Views
from snapshot import canonical
from snapshot.envelope import Envelope
from snapshot.identifiers import HEAD, format_time
from snapshot.manifest import Entry, parse_state
from store.documents import StoredDocument
from wire.peer import UnixPeer
from wire.request import JSON, HttpError, Request, Response

ACTIVE, PREVIOUS, PENDING = "active", "previous", "pending"

Headers = list[tuple[str, str]]


@dataclass(frozen=True)
class Shown:
    """A document to answer from; `read` gives the bytes of a section."""

    envelope: Envelope
    envelope_bytes: bytes
    manifest: bytes
    content_hash: str
    sections: Mapping[str, Entry]
    document: StoredDocument | None
    parts: tuple[bytes, ...] = ()  # of a pending one

    def read(self, name: str) -> bytes:
        if self.document is not None:
            return self.document.read(name)
        return self.parts[list(self.sections).index(name)]


@dataclass(frozen=True)
class ScopeAnswers:
    views: Views
    threads: Threads
    access: Access

    async def scope(self, request: Request, now: float) -> Response:
        """Envelope, manifest and all sections as one JSON object."""
        shown, headers = await self._found(request, now)
        etag = f'"{shown.content_hash}"'
        headers.append(("etag", etag))
        if matches_etag(request, etag):
            return Response(304, headers)
        start = b'{"envelope":%s,"manifest":%s,"sections":{' % (shown.envelope_bytes, shown.manifest)
        names = [canonical.dumps(name) for name in shown.sections]
        size = sum(len(name) + 1 for name in names) + sum(entry.size for entry in shown.sections.values())
        length = len(start) + size + max(0, len(names) - 1) + 2
        return Response(200, [JSON, *headers, ("content-length", str(length))], self._whole(start, shown))

    async def section(self, request: Request, now: float) -> Response:
        """The section's bytes, verbatim."""
        shown, headers = await self._found(request, now)
        name = request.parameters["name"]
        entry = shown.sections.get(name)
        if entry is None:
            raise HttpError(404, "not_found", "this scope has no such section", headers=headers)
        etag = f'"sha256:{entry.sha256}"'
        headers.append(("etag", etag))
        if matches_etag(request, etag):
            return Response(304, headers)
        return Response(200, [JSON, *headers], await self.threads.read(shown.read, name))

    async def _whole(self, start: bytes, shown: Shown) -> AsyncIterator[bytes]:
        yield start
        comma = b""
        for name in shown.sections:
            yield comma + canonical.dumps(name) + b":" + await self.threads.read(shown.read, name)
            comma = b","
        yield b"}}"

    async def _found(self, request: Request, now: float) -> tuple[Shown, Headers]:
        """What was asked for and its headers; HttpError 404, or 410 where it has expired."""
        scope, slot = request.parameters["scope"], _slot(request)
        peer = request.peer
        if not isinstance(peer, UnixPeer) or not self.access.may_read(peer, scope):
            view = await self.threads.read(self.views.scope, HEAD)
            raise _missing(view, now)
        view, shown = await self.threads.read(self._load, scope, slot)
        if shown is None:
            raise _missing(view, now)
        headers = scope_headers(view, shown.envelope, now)
        self._refuse_expired(request, shown, headers, now)
        return shown, headers

    def _load(self, scope: str, slot: str) -> tuple[View, Shown | None]:
        view = self.views.scope(scope)
        if slot == PENDING:
            return view, self._pending(scope)
        active = view.head if scope == HEAD else view.scopes.get(scope)
        document = self.views.previous(scope) if slot == PREVIOUS else active.document if active else None
        return view, None if document is None else _shown(document)

    def _pending(self, scope: str) -> Shown | None:
        """A snapshot that waits for its time. What is not verified is shown to nobody (rules X10)."""
        store = self.views.store
        for held in store.pending():
            if held.scope != scope or not held.sealed or not held.waiting_until:
                continue
            envelope, slot = waiting_envelope(store, held), store.slot(scope, held.envelope_hash)
            if envelope is None or slot is None:
                continue
            parts = slot.parts()
            manifest = parts.manifest()
            entries = parse_state(manifest)
            bodies = tuple(parts.sections([entry.size for entry in entries.values()]))
            return Shown(envelope, slot.record.envelope, manifest, envelope.content_hash, entries, None, bodies)
        return None

    def _refuse_expired(self, request: Request, shown: Shown, headers: Headers, now: float) -> None:
        if now < shown.envelope.expires_at:
            return
        if request.query_one("expired") == "allow" and self.access.expired:
            return
        remedy = "ask with ?expired=allow to read it all the same" if self.access.expired else "it must be renewed"
        raise HttpError(410, "expired", f"this scope has expired: {remedy}", headers=headers)


def _shown(document: StoredDocument) -> Shown:
    manifest = document.manifest_bytes if document.kind == HEAD else document.state_bytes
    return Shown(
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
    """`Holdfast-Age` is the seconds since the document was issued."""
    grade = Grade.EXPIRED if now >= envelope.expires_at else Grade.STALE
    if grade is Grade.STALE and view.head_is_fresh(now):
        grade = Grade.FRESH
    return [
        ("holdfast-generation", str(view.generation)),
        ("holdfast-grade", grade),
        ("holdfast-version", str(envelope.config_version)),
        ("holdfast-epoch", str(envelope.authority_epoch)),
        ("holdfast-expires", format_time(envelope.expires_at)),
        ("holdfast-age", str(max(0, int(now - envelope.issued_at)))),
    ]


def matches_etag(request: Request, etag: str) -> bool:
    asked = request.header("if-none-match")
    tags = [tag.strip().removeprefix("W/") for tag in (asked or "").split(",")]
    return etag in tags or tags == ["*"]


def _slot(request: Request) -> str:
    slot = request.query_one("slot") or ACTIVE
    if slot not in (ACTIVE, PREVIOUS, PENDING):
        raise HttpError(400, "bad_request", "slot must be active, previous or pending")
    return slot


def _missing(view: View, now: float) -> HttpError:
    return HttpError(404, "not_found", "there is no such scope here", headers=node_headers(view, now))

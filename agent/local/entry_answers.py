"""`GET /v1/services` and `/v1/routes`: each by its own id, whatever scope and section it is signed in.

    /v1/services            {generation, services: {"<id>": {version, expires_at, grade}}} of those that may be read
    /v1/services/<id>       {settings, endpoints, workload, organization_id, resources, version, expires_at, grade}
    /v1/routes              {routes: {"<id>": {...}}, version, expires_at, grade}
    /v1/routes/<id>         {route: {...}, version, expires_at, grade}

A reader of scopes has to know that a service is a scope, that its entry lies in a section `services`, and that routes
are spread over 64 sections: how things are signed is none of a program's business. `version`, `expires_at` and `grade`
are those of the document that the entry stands in, which the headers tell as well. ETags are of the content: what is
renewed without a change keeps its own. `resources` is what the service goes out by, without what is revoked: the head
takes these away whatever the document says, so what is revoked is in the ETag, too.

Access is that of the scope: `[access."service_assignment/web"]` says who reads `web`, `route_policy` who reads routes.
"""

import hashlib
from collections.abc import AsyncIterator, Iterable, Mapping

from agent.access.access import Access
from agent.base.threads import Threads
from agent.files.maps import ROUTES, ROUTES_SCOPE, parts_of
from agent.local.scope_answers import (
    Headers,
    ScopeAnswers,
    ScopeRequest,
    ServedDocument,
    document_facts,
    etag_of,
    is_known,
    node_headers,
)
from agent.state.view import Views
from snapshot import canonical
from snapshot.egress import RESOURCES, usable_entries
from snapshot.frozen import frozen
from snapshot.identifiers import format_time, is_id, scope_name
from wire.forms import record
from wire.local.local_answers import OfDocument, RouteAnswer, ServiceAnswer, ServiceList
from wire.peer import UnixPeer
from wire.request import JSON, HttpError, Request, Response

SERVICES_TYPE, SERVICES = "service_assignment", "services"
PARTS_OF_SERVICE = ("organization_id", "workload", "endpoints", "settings")


@frozen
class EntryAnswers:
    """Each answer is made in one go from one view, on a reading thread."""

    scopes: ScopeAnswers
    views: Views
    threads: Threads
    access: Access

    async def services(self, peer: UnixPeer, now: float) -> Response:
        """Which there are, for this caller."""
        return await self.threads.read(self._services, peer, now)

    async def service(self, request: Request, now: float) -> Response:
        """One service's settings, endpoints and workload; null where this node is not told of them."""
        service_id = _id_of(request)
        asked = ScopeRequest.of(request, self.access, scope_name(SERVICES_TYPE, (service_id,)))
        return await self.threads.read(self._service, asked, service_id, now)

    async def routes(self, request: Request, now: float) -> Response:
        """All of them, streamed."""
        asked = ScopeRequest.of(request, self.access, ROUTES_SCOPE)
        return await self.threads.read(self._routes, asked, now)

    async def route(self, request: Request, now: float) -> Response:
        """One of them."""
        asked = ScopeRequest.of(request, self.access, ROUTES_SCOPE)
        return await self.threads.read(self._route, asked, _id_of(request), now)

    def _services(self, peer: UnixPeer, now: float) -> Response:
        view = self.views.all()
        shown = {
            scope.document.envelope.scope_ids[0]: OfDocument(
                version=scope.identity[1],
                expires_at=format_time(scope.expires_at),
                grade=str(view.grade_of(scope, now)),
            )
            for name, scope in view.scopes.items()
            if _is_service(name) and self.access.may_read(peer, name)
        }
        return Response.json(ServiceList(view.generation, shown).to_value(), headers=node_headers(view, now))

    def _service(self, asked: ScopeRequest, service_id: str, now: float) -> Response:
        shown, headers = self.scopes.find(asked, now)
        resources, etag = self._resources(shown)
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        entry = _entry(shown, [SERVICES] if SERVICES in shown.sections else [], service_id)
        if entry is None:
            raise HttpError(404, "not_found", "this service's document does not say what it is", headers=headers)
        members = {name: entry.get(name) for name in PARTS_OF_SERVICE}
        facts = vars(document_facts(headers))
        answer = ServiceAnswer(**members, resources=resources, **facts)  # type: ignore[arg-type]  # as it was signed
        return Response.json(answer.to_value(), headers=headers)

    def _resources(self, shown: ServedDocument) -> tuple[Mapping[str, object], str]:
        """What may be used, and the ETag of the answer that says so."""
        if RESOURCES not in shown.sections:
            return {}, f'"{shown.content_hash}"'
        section, view = shown.read(RESOURCES), self.views.at_hand() or self.views.all()
        usable, signed = usable_entries(section, view.revoked_services), usable_entries(section, ())
        if usable.keys() == signed.keys():
            return usable, f'"{shown.content_hash}"'
        told = canonical.dumps([shown.content_hash, sorted(usable)])
        return usable, f'"sha256:{hashlib.sha256(told).hexdigest()}"'

    def _routes(self, asked: ScopeRequest, now: float) -> Response:
        shown, headers = self.scopes.find(asked, now)
        etag = etag_of(parts_of(ROUTES_SCOPE, ROUTES, shown.sections))
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        return Response(200, [JSON, *headers], self._all_routes(shown, headers))

    async def _all_routes(self, shown: ServedDocument, headers: Headers) -> AsyncIterator[bytes]:
        yield canonical.dumps(record(OfDocument).write(document_facts(headers)))[:-1] + b',"routes":'
        async for piece in self.scopes.stream_map(shown, ROUTES_SCOPE, ROUTES):
            yield piece
        yield b"}"

    def _route(self, asked: ScopeRequest, route_id: str, now: float) -> Response:
        shown, headers = self.scopes.find(asked, now)
        entry = _entry(shown, parts_of(ROUTES_SCOPE, ROUTES, shown.sections), route_id)
        if entry is None:
            raise HttpError(404, "not_found", "there is no such route here", headers=headers)
        etag = f'"sha256:{hashlib.sha256(canonical.dumps(entry)).hexdigest()}"'
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        answer = RouteAnswer(route=entry, **vars(document_facts(headers)))
        return Response.json(answer.to_value(), headers=headers)


def _is_service(scope: str) -> bool:
    scope_type, _, ids = scope.partition("/")
    return scope_type == SERVICES_TYPE and is_id(ids)


def _id_of(request: Request) -> str:
    """What is no id is the id of nothing."""
    if not is_id(request.parameters["id"]):
        raise HttpError(404, "not_found", "that is no id: lower-case letters, digits and ._- make one")
    return request.parameters["id"]


def _entry(shown: ServedDocument, sections: Iterable[str], entry_id: str) -> dict[str, object] | None:
    """One entry of a map: the sections that do not even have its name in them are not parsed."""
    name = canonical.dumps(entry_id) + b":"
    for section in sections:
        data = shown.read(section)
        value = _load(data) if name in data else None
        found = value.get(entry_id) if isinstance(value, dict) else None
        if isinstance(found, dict):
            return found
    return None


def _load(data: bytes) -> object:
    try:
        return canonical.loads(data)
    except canonical.NotCanonical:
        return None

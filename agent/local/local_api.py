"""The local API on the Unix socket (protocol.md 4): its routes, and how each is answered.

    GET  /v1/status                           for everyone who can connect, of what they may read (sight.py)
    GET  /v1/scopes[/<scope>[/sections/<name>]]   scope_answers.py; `slot=previous|pending` for what is not active
    GET  /v1/services[/<id>], /v1/routes[/<id>]   entry_answers.py
    GET  /v1/config/<id>[/<path>]             file_answers.py; these, and all above, with `wait`: long_poll.py
    GET  /v1/watch                            watching.py
    POST /v1/may                              degraded.py
    POST /v1/import                           root and the agent's own account
    POST /v1/trust/confirm                    root and the agent's own account
    GET  /v1/quarantine, POST /v1/quarantine/clear    quarantine_answers.py
    GET  /v1/scopes/<scope>/rejections    what was refused, and why
    GET  /probe/startup|liveness|readiness, /metrics

A caller is whom the kernel says (access.py). No web page may ask (threats U12).
"""

from collections.abc import AsyncIterable, Callable, Collection, Mapping
from dataclasses import replace
from typing import Protocol

import trio

from agent.access.access import Access, may_administer
from agent.access.sight import CallerSight, visible_status
from agent.base.threads import Threads
from agent.local.entry_answers import EntryAnswers
from agent.local.file_answers import FileAnswers
from agent.local.long_poll import WAIT_MOST_S, LongPoll
from agent.local.quarantine_answers import QuarantineAnswers, QuarantineBackend
from agent.local.scope_answers import Headers, ScopeAnswers, node_headers
from agent.local.watching import Watching, wanted_scopes
from agent.services.publishing import Publishing
from agent.services.refused_scopes import RefusedScope, expired_scopes, refused_scopes, warnings
from agent.services.scope_reports import rejection_report, scope_reports
from agent.services.services import LocalService, Services, ready_for
from agent.state.view import View, Views
from snapshot import degraded
from snapshot.degraded import GateAnswer, GateFacts, GateReason, Question
from snapshot.frozen import frozen, mutable
from snapshot.grants import POLICY_SCOPE
from snapshot.identifiers import format_time, stands_for
from snapshot.limits import DEFAULT, Limits
from snapshot.manifest import ScopeVersion
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from wire.local.local_answers import (
    ActiveScopes,
    ActiveVersion,
    ConfirmedRoots,
    Liveness,
    NodeReadiness,
    RejectionList,
    TakenDocument,
)
from wire.local.node_status import (
    FilesCondition,
    HeldHead,
    HiddenFromCaller,
    NodeReport,
    NodeStatus,
    ServiceState,
)
from wire.logs import log
from wire.messages import BadMessageError, ConfirmRoots, MayAnswer, MayRequest
from wire.peer import UnixPeer
from wire.request import HttpError, Request, Response
from wire.routes import Handler, HttpRoute, Routes

WAIT_S = 55
POLL_S = WAIT_MOST_S + 15.0
IMPORT_S = 600.0
MAY_BYTES = 8 * 1024
MOST_GENERATION = 2**53 - 1
SOCKET_GONE = "socket_gone"


class NodeBackend(QuarantineBackend, Protocol):
    """What the API asks of the node itself."""

    def changes(self) -> int:
        """Differs once the node knows something that it did not."""

    def gate_facts(self) -> GateFacts:
        """What the gate goes by, now."""

    async def known_running(self, question: Question, facts: GateFacts) -> frozenset[str]:
        """The services that ran when the head expired, as the node itself knows it."""

    def listed_scopes(self) -> Collection[str] | None:
        """The scopes of the head that is held, None without one."""

    def wanted_scopes(self) -> Mapping[str, ScopeVersion]:
        """What the head lists and is not active, by scope."""

    def note_decision(self, question: Question, answer: GateAnswer, uid: int, now: float) -> None:
        """The gate has answered so."""

    def report(self) -> NodeReport:
        """What it says of itself in the status, now."""

    async def confirm_roots(self, named: Collection[str], threshold: int) -> ConfirmedRoots:
        """Somebody has compared the root keys. HttpError where this node holds other ones."""

    async def take(self, document: AsyncIterable[bytes]) -> TakenDocument:
        """A document from another medium through the whole verification; Rejected. What became of it."""


@frozen
class StatusAnswer:
    """`status` is all that there is to say; `whole` says it."""

    status: NodeStatus
    headers: Headers
    whole: Response

    def visible_to(self, sight: CallerSight) -> Response:
        return Response.json(visible_status(self.status, sight).to_value(), headers=self.headers)


@mutable
class LocalApi:
    node: NodeBackend
    views: Views
    threads: Threads
    access: Access
    services: Services
    publishing: Publishing
    watching: Watching
    now: Callable[[], float]
    limits: Limits = DEFAULT
    socket_trouble: Callable[[], str] = str
    validates: Callable[[str], bool] = lambda _: False  # of a scope: whether a service's validator sees it
    _last_status: tuple[object, StatusAnswer] | None = None

    def __post_init__(self) -> None:
        self._answers = ScopeAnswers(self.views, self.threads, self.access)
        self._files = FileAnswers(self._answers, self.threads, self.access)
        self._entries = EntryAnswers(self._answers, self.views, self.threads, self.access)

    def routes(self) -> Routes:
        scopes = "/v1/scopes/{scope}"
        return Routes(
            self._read("/v1/services/{id}", self.service),
            self._read("/v1/routes", self.all_routes),
            self._read("/v1/routes/{id}", self.route),
            self._read("/v1/config/{id}", self.files),
            self._read("/v1/config/{id}/{path...}", self.file),
            self._read(scopes, self.scope),
            self._read(f"{scopes}/sections/{{name}}", self.section),
            HttpRoute("GET", "/v1/services", again(self.local_services)),
            HttpRoute("GET", "/v1/status", again(self.status)),
            HttpRoute("GET", "/v1/scopes", again(self.scopes)),
            HttpRoute("GET", f"{scopes}/rejections", again(self.rejections)),
            HttpRoute("GET", "/v1/watch", self.watch, deadline_s=POLL_S),
            HttpRoute("POST", "/v1/may", self.may, body_bytes=MAY_BYTES),
            HttpRoute("POST", "/v1/import", self.take, body_bytes=self._import_bytes(), deadline_s=IMPORT_S, most=1),
            HttpRoute("POST", "/v1/trust/confirm", self.confirm, body_bytes=MAY_BYTES),
            *QuarantineAnswers(self.node).routes(),
            *self.probe_routes(),
        )

    def _read(self, path: str, handler: Handler) -> HttpRoute:
        """What has an ETag can be waited for."""

        async def answer(request: Request) -> Response:
            return await LongPoll(self.views, self.watching, self.now).of(again(handler))(request)

        return HttpRoute("GET", path, answer, deadline_s=POLL_S)

    def probe_routes(self) -> tuple[HttpRoute, ...]:
        """Also for a listener of their own, for the operator's tools."""
        return (
            HttpRoute("GET", "/probe/startup", self.alive),
            HttpRoute("GET", "/probe/liveness", self.alive),
            HttpRoute("GET", "/probe/readiness", self.readiness),
            HttpRoute("GET", "/metrics", again(self.metrics)),
        )

    # ---- the node

    async def status(self, request: Request) -> Response:
        """As it is now; counters and sources may be of the second that is running."""
        now = self.now()
        files = self.publishing.published.value, self.publishing.error
        of = (self.views.store.commit_number, self.node.changes(), int(now), files)
        if self._last_status is None or self._last_status[0] != of:
            made = await self.threads.read(self._status, self.node.gate_facts(), self.node.report(), now)
            self._last_status = of, made
        status, sight = self._last_status[1], self._sight(request)
        return status.whole if sight.sees_all else await self.threads.read(status.visible_to, sight)

    async def alive(self, request: Request) -> Response:
        """The event loop runs, and no more is meant (rules A12, X13, H19)."""
        return Response.json(Liveness(alive=True).to_value())

    async def readiness(self, request: Request) -> Response:
        """503 also while nobody can connect any more, which only who is connected, or asks elsewhere, finds out."""
        facts, now = self.node.gate_facts(), self.now()
        mode, cause = _gate(facts, now)
        expired, sight = expired_scopes(facts, now), self._sight(request)
        cause = cause or (SOCKET_GONE if self.socket_trouble() else None)
        cause = cause or (str(GateReason.SCOPE_EXPIRED) if expired else None)
        said = await self.threads.read(self._warnings, now, sight)
        shown = tuple(scope for scope in expired if sight.sees(scope))
        answer = NodeReadiness(ready=cause is None, mode=mode, cause=cause, expired=shown, warnings=said)
        return Response.json(answer.to_value(), 200 if cause is None else 503)

    async def metrics(self, request: Request) -> Response:
        facts, report, sight = self.node.gate_facts(), self.node.report(), self._sight(request)
        return await self.threads.read(self._metrics, facts, report, self.now(), sight)

    # ---- scopes

    async def scopes(self, request: Request) -> Response:
        return await self.threads.read(self._scopes, _local(request), self.now())

    async def scope(self, request: Request) -> Response:
        return await self._answers.scope(request, self.now())

    async def section(self, request: Request) -> Response:
        return await self._answers.section(request, self.now())

    async def local_services(self, request: Request) -> Response:
        return await self._entries.services(_local(request), self.now())

    async def service(self, request: Request) -> Response:
        return await self._entries.service(request, self.now())

    async def all_routes(self, request: Request) -> Response:
        return await self._entries.routes(request, self.now())

    async def route(self, request: Request) -> Response:
        return await self._entries.route(request, self.now())

    async def files(self, request: Request) -> Response:
        return await self._files.files(request, self.now())

    async def file(self, request: Request) -> Response:
        return await self._files.file(request, self.now())

    async def rejections(self, request: Request) -> Response:
        """What a refusal was about is for the scope's readers; that there was one is in the status."""
        scope = request.parameters["scope"]
        if not self.access.may_read(_local(request), scope):
            raise HttpError(404, "not_found", "there is no such scope here")
        return await self.threads.read(self._rejections, scope)

    async def watch(self, request: Request) -> Response:
        peer = _local(request)
        after = self._after(request)
        readable = wanted_scopes(request.query_all("scope"), lambda scope: self.access.may_read(peer, scope))
        if "text/event-stream" in (request.header("accept") or ""):
            headers = [("content-type", "text/event-stream"), ("cache-control", "no-store")]
            return Response(200, headers, self.watching.events(request, after, readable))
        wait_s = request.query_integer("wait", WAIT_S, 0, WAIT_MOST_S)
        start = self.watching.seen.value if after is None else after
        answer = None
        with request.waiting(yields=True), trio.move_on_after(wait_s):
            answer = await self.watching.next_change(start, readable)
        view = self.views.at_hand()  # mostly: it was what there is to tell
        headers = await self.threads.read(self._headers) if view is None else node_headers(view, self.now())
        if answer is None:
            return Response(204, headers)
        return Response.json(answer.to_value(), headers=headers)

    # ---- the gate

    async def may(self, request: Request) -> Response:
        peer = _local(request)
        try:
            asked = MayRequest.parse(await request.body())
        except BadMessageError as error:
            raise HttpError(400, "bad_request", str(error)) from error
        question = Question(asked.action, asked.scope, asked.resource, asked.running_since, asked.certificate)
        running = await self.node.known_running(question, self.node.gate_facts())
        facts, now = replace(self.node.gate_facts(), running=running), self.now()

        async def decide(_: Request) -> Response:
            answer, headers = await self.threads.read(self._may, peer, question, facts, now)
            self.node.note_decision(question, answer, peer.uid, now)
            body = MayAnswer(answer.allowed, str(answer.reason), str(answer.mode), answer.until)
            return Response.json(body.to_value(), headers=headers)

        return await again(decide)(request)

    async def take(self, request: Request) -> Response:
        if not may_administer(_local(request)):
            raise HttpError(403, "forbidden", "only root and the agent's own account hand in documents")
        try:
            return Response.json((await self.node.take(request.chunks())).to_value())
        except Rejected as refused:
            message = refused.detail or str(refused)
            raise HttpError(422, str(refused.reason), message, step=refused.step) from refused

    async def confirm(self, request: Request) -> Response:
        if not may_administer(_local(request)):
            raise HttpError(403, "forbidden", "only root and the agent's own account confirm root keys")
        try:
            asked = ConfirmRoots.parse(await request.body())
        except BadMessageError as error:
            raise HttpError(400, "bad_request", str(error)) from error
        return Response.json((await self.node.confirm_roots(asked.root_key_ids, asked.root_threshold)).to_value())

    # ---- inside; what has an underscore and reads runs on a reading thread

    def _import_bytes(self) -> int:
        """The limits of format.md 10 hold while it is read; this one only ends what goes on for ever."""
        limits = self.limits
        return limits.envelope_bytes + 16 * 1024 + limits.manifest_bytes + limits.content_bytes + 5 * limits.sections

    def _after(self, request: Request) -> int | None:
        resumed = request.header("last-event-id")
        if resumed is not None and resumed.isascii() and resumed.isdigit() and len(resumed) < 17:
            return int(resumed)
        if request.query_one("after") is None:
            return None
        return request.query_integer("after", 0, 0, MOST_GENERATION)

    def _may(self, peer: UnixPeer, question: Question, facts: GateFacts, now: float) -> tuple[GateAnswer, Headers]:
        """On a thread, since what a large scope names is read when it is asked for first."""
        return degraded.may(*_as_seen_by(peer, self.access, question, facts), now), self._headers()

    def _rejections(self, scope: str) -> Response:
        """The newest first, of those that the store still remembers (threats D-44)."""
        refused = [rejection for rejection in reversed(self.views.store.rejections.ring()) if rejection.scope == scope]
        answer = RejectionList(tuple(rejection_report(rejection) for rejection in refused))
        return Response.json(answer.to_value(), headers=self._headers())

    def _headers(self) -> Headers:
        """The node's grade is that of its required scopes, so it takes all of them."""
        return node_headers(self.views.at_hand() or self.views.all(), self.now())

    def _sight(self, request: Request) -> CallerSight:
        return CallerSight(self.access, request.peer)

    def _status(self, facts: GateFacts, report: NodeReport, now: float) -> "StatusAnswer":
        view = self.views.all()
        listed, told = self.node.listed_scopes(), self.services.notified
        reports = scope_reports(self.views, view, listed, told, now, self.validates)
        mode, fence = _gate(facts, now)
        status = NodeStatus(
            **vars(report),
            now=format_time(now),
            mode=mode,
            fence=fence,
            grade=str(view.grade(now)),
            generation=view.generation,
            head=_head(view, now),
            scopes=reports,
            refused={scope.scope: scope.to_message() for scope in self._refused_scopes(view, now)},
            expired=tuple(expired_scopes(facts, now)),
            services={service.name: self._service(service, view, facts, now) for service in self.services.services},
            files=FilesCondition(
                generation=max(0, self.publishing.published.value),
                fault=self.publishing.fault,
                error=self.publishing.error,
            ),
            hidden=HiddenFromCaller(scopes=0, services=0),
        )
        headers = node_headers(view, now)
        return StatusAnswer(status, headers, Response.json(status.to_value(), headers=headers))

    def _service(self, service: LocalService, view: View, facts: GateFacts, now: float) -> ServiceState:
        """rules A11, L22: a service that could not be told, or lacks a scope, is never shown as well."""
        ready, reason = ready_for(service, view, facts, now, self.node.listed_scopes() or ())
        told = self.services.notified.get(service.name)
        return ServiceState(
            ready=ready,
            reason=str(reason),
            scopes=tuple(service.scopes),
            told_generation=told.generation if told else None,
            told_at=format_time(told.at) if told else None,
            up_to_date=told is not None and told.ok and told.versions == service.versions(view),
            answer=told.detail if told else "",
            answer_ok=told.ok if told else None,
            outcome=told.outcome if told else None,
        )

    def _refused_scopes(self, view: View, now: float) -> list[RefusedScope]:
        return refused_scopes(view, self.node.wanted_scopes(), self.views.store.rejections.last, now)

    def _warnings(self, now: float, sight: CallerSight) -> tuple[str, ...]:
        """A store that cannot be read is no word on readiness: what is amiss there is told elsewhere."""
        try:
            refused = self._refused_scopes(self.views.all(), now)
            return tuple(warnings([rejection for rejection in refused if sight.sees(rejection.scope)]))
        except StoreError:
            return ()

    def _scopes(self, peer: UnixPeer, now: float) -> Response:
        view = self.views.all()
        shown = {
            name: ActiveVersion(
                authority_epoch=scope.identity[0],
                config_version=scope.identity[1],
                content_hash=scope.identity[2],
                expires_at=format_time(scope.expires_at),
                grade=str(view.grade_of(scope, now)),
                sections=len(scope.document.sections),
            )
            for name, scope in view.scopes.items()
            if self.access.may_read(peer, name)
        }
        return Response.json(ActiveScopes(view.generation, shown).to_value(), headers=node_headers(view, now))

    def _metrics(self, facts: GateFacts, report: NodeReport, now: float, sight: CallerSight) -> Response:
        """Their library is loaded by the first who asks: no start waits for it, and few nodes are asked."""
        from agent.local import metrics  # noqa: PLC0415

        view = self.views.all()
        seen = [service for service in self.services.services if sight.sees_service(service.scopes)]
        body = metrics.exposition(
            metrics.Sample(
                view,
                now,
                report.state,
                degraded.mode(facts, now),
                self.views.store.fill_level(),
                {
                    service.name: told
                    for service in seen
                    if (told := self.services.notified.get(service.name)) is not None
                },
                report.counters,
                report.ends,
                {scope.scope: scope.reason for scope in self._refused_scopes(view, now)},
                report.roots is None or report.roots.confirmed,
                {scope: coming.verdict for scope, coming in report.candidates.items()},
                report.relay.bytes if report.relay else 0,
                report.relay.heads + report.relay.documents if report.relay else 0,
                report.relay.handed_bytes if report.relay else 0,
                report.relay.waiting if report.relay else 0,
                sight.sees,
            )
        )
        return Response(200, [("content-type", metrics.CONTENT_TYPE)], body)


def again(handler: Handler) -> Handler:
    """Once more when the store could not be read: what was active a moment ago may be garbage by now. Then 503."""

    async def read(request: Request) -> Response:
        try:
            return await handler(request)
        except StoreError as error:
            log.warning("store not read", path=request.path, error=str(error))
        try:
            return await handler(request)
        except StoreError as error:
            raise HttpError(503, str(error.fault), "the store cannot be read at the moment", retry_after=1) from error

    return read


def _local(request: Request) -> UnixPeer:
    if not isinstance(request.peer, UnixPeer):
        raise HttpError(403, "forbidden", "this is answered on the Unix socket alone")
    return request.peer


def _gate(facts: GateFacts, now: float) -> tuple[str, str | None]:
    """The mode, and why nothing may go on."""
    cause = degraded.fence(facts, now)
    return str(degraded.mode(facts, now)), None if cause is None else str(cause)


def _as_seen_by(peer: UnixPeer, access: Access, question: Question, facts: GateFacts) -> tuple[Question, GateFacts]:
    """What the caller may not read is to it as what is not there; the policy holds for everybody all the same."""
    readable = {name: scope for name, scope in facts.scopes.items() if access.may_read(peer, name)}
    policy = {POLICY_SCOPE: facts.scopes[POLICY_SCOPE]} if POLICY_SCOPE in facts.scopes else {}
    asked = question.scope
    if asked is not None and not any(stands_for(asked, name) for name in readable):
        question = replace(question, scope="")
    return question, replace(facts, scopes=policy | readable)


def _head(view: View, now: float) -> HeldHead | None:
    if view.head is None:
        return None
    envelope = view.head.document.envelope
    return HeldHead(
        generation=envelope.config_version,
        authority_epoch=envelope.authority_epoch,
        age_s=view.head.age_s(now),
        expires_at=format_time(view.head.expires_at),
        grade="fresh" if view.head_is_fresh(now) else "expired",
    )

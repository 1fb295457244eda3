"""One HTTP/1.1 connection, request after request, in one task.

One cancel scope serves the whole connection, and its deadline moves with the phase: no request costs a task or a scope
of its own. Whatever cancels it ends the connection: the deadline of a phase, a caller who has gone, a pin taken away,
a listener that stops. What is then said to the caller follows from the cause and the phase (`_last_words`).
"""

import contextlib
import math
import re
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from http import HTTPStatus

import h11
import structlog
import trio

from wire.gone import GoneWatch
from wire.limits import ListenerLimits
from wire.peer import AnonymousPeer, Peer, TlsPeer
from wire.request import Headers, HttpError, Request, Response
from wire.routes import Route, Routes
from wire.shedding import Gate
from wire.target import BadTarget, Target

PIECE_BYTES = 65536
DRAIN_BYTES = 256 * 1024
DRAIN_S = 5.0
FAREWELL_S = 1.0
NO_BODY = frozenset({204, 304})

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})
_HEADER_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*+")
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}

log = structlog.get_logger(__name__)


class CallerGoneError(Exception):
    """The caller's end of the connection is closed."""


class Phase(Enum):
    IDLE = auto()  # between requests
    HEAD = auto()  # a request has begun
    WORK = auto()  # its handler runs
    WAITING = auto()  # its handler waits for news
    ANSWER = auto()  # the answer has begun


class Cause(Enum):
    DEADLINE = auto()
    GONE = auto()
    DISMISSED = auto()
    STOPPING = auto()


@dataclass(slots=True)
class Statistics:
    """What a listener has done since its start. `refused` counts error answers by their code."""

    accepted: int = 0
    turned_away: int = 0
    handshakes_failed: int = 0
    answered: int = 0
    faults: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def refuse(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1


@dataclass(slots=True)
class Service:
    """What the connections of one listener share. `hosts`: the only Host headers answered, where it is given."""

    name: str
    routes: Routes
    limits: ListenerLimits
    gate: Gate
    hosts: frozenset[str] | None = None
    gone: GoneWatch = field(default_factory=GoneWatch)
    statistics: Statistics = field(default_factory=Statistics)
    working: dict[Route, int] = field(default_factory=dict)
    stopping: bool = False


class Connection:
    """`descriptor` is the socket's, for noticing that the caller has gone."""

    def __init__(self, stream: trio.abc.Stream, descriptor: int, peer: Peer, service: Service) -> None:
        self.peer = peer
        self._stream = stream
        self._descriptor = descriptor
        self._service = service
        self._limits = service.limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=service.limits.head_bytes)
        self._scope = trio.CancelScope()
        self._phase = Phase.IDLE
        self._cause = Cause.DEADLINE
        self._slot: Route | None = None
        self._length: int | None = None

    # ---- the life of a connection

    async def run(self) -> None:
        """Until the connection is over. Raises nothing but what cancels the task."""
        try:
            with self._scope:
                await self._requests()
            if self._scope.cancelled_caught:
                await self._last_words()
            else:
                await self._linger()
        except CallerGoneError:
            pass
        finally:
            await self._close()

    def end(self, cause: Cause) -> None:
        """Ends the connection now, whatever it is doing."""
        self._cause = cause
        self._scope.cancel()

    @property
    def unoccupied(self) -> bool:
        """Nothing is lost if it ends: it is between requests, or its request waits for news."""
        return self._phase in (Phase.IDLE, Phase.WAITING)

    async def _requests(self) -> None:
        while not self._service.stopping:
            try:
                head = await self._next_head()
            except h11.RemoteProtocolError as error:
                await self._refuse_head(error)
                return
            if head is None or not await self._answer(head) or not await self._next_cycle():
                return

    async def _next_head(self) -> h11.Request | None:
        self._enter(Phase.IDLE, self._limits.idle_s)
        begun = False
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event if isinstance(event, h11.Request) else None
            if self._phase is Phase.IDLE and begun:
                self._enter(Phase.HEAD, self._limits.head_s)
            begun = await self._read(self._limits.head_bytes)

    async def _answer(self, head: h11.Request) -> bool:
        """Whether the connection may live on."""
        try:
            try:
                response = await self._respond(head)
                await self._send(response, head)
            except HttpError as error:
                self._service.statistics.refuse(error.code)
                await self._send(error.response(), head)
        except CallerGoneError:
            raise
        except Exception:
            log.exception("handler failed", listener=self._service.name, peer=self.peer.name)
            await self._fault()
            return False
        else:
            return True
        finally:
            self._release()

    async def _respond(self, head: h11.Request) -> Response:
        request = self._request(head)
        self._refuse_misled(request)
        route = self._service.routes.find(request)
        self._admit(route)
        request.body_limit = self._limits.body_bytes if route.body_bytes is None else route.body_bytes
        deadline_s = self._limits.deadline_s if route.deadline_s is None else route.deadline_s
        self._enter(Phase.WORK, deadline_s)
        return await route.handler(request)

    async def _next_cycle(self) -> bool:
        if self._http.our_state is not h11.DONE:
            return False
        if self._http.their_state is h11.SEND_BODY and not await self._drain():
            return False
        if self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    # ---- letting a request in

    def _request(self, head: h11.Request) -> Request:
        try:
            target = Target.parse(head.target)
        except BadTarget as error:
            raise HttpError(400, "bad_request", str(error)) from error
        self._length = None
        bodiless = True
        for name, value in head.headers:
            if name == b"content-length":
                self._length = int(value)
                bodiless = self._length == 0
            elif name == b"transfer-encoding":
                bodiless = False
        if bodiless:
            self._http.next_event()  # the end of the message, which h11 would otherwise hold back
        return Request(head.method.decode(), target, head.headers, self.peer, self)

    def _refuse_misled(self, request: Request) -> None:
        """A browser or a proxy that was led to a local socket shows it by Host or Origin (threats U12)."""
        hosts = self._service.hosts
        if hosts is None:
            return
        if request.header("origin") is not None:
            raise HttpError(403, "forbidden_origin", "no web page may ask here")
        host = (request.header("host") or "").partition(":")[0]
        if host not in hosts:
            raise HttpError(421, "misdirected_request", f"use one of these hosts: {', '.join(sorted(hosts))}")

    def _admit(self, route: Route) -> None:
        if isinstance(self.peer, TlsPeer) and self.peer.state not in route.states:
            raise HttpError(403, self.peer.state.value, f"this node is {self.peer.state.value}")
        if route.rate is not None:
            caller = self.peer.address if isinstance(self.peer, TlsPeer | AnonymousPeer) else self.peer.uid
            seconds = route.rate.refused(caller, trio.current_time())
            if seconds is not None:
                raise HttpError(429, "too_many_requests", "too many of these requests", retry_after=seconds)
        self._take_slot(route)

    def _take_slot(self, route: Route) -> None:
        service = self._service
        seconds = service.gate.refused(route.concern) if route.concern is not None else None
        working = service.working.get(route, 0)
        if seconds is None and route.most is not None and working >= route.most:
            seconds = route.concern.retry_after_s if route.concern is not None else 1
        if seconds is not None:
            raise HttpError(503, "overloaded", "too much to do at the moment", retry_after=seconds)
        self._slot = route
        self._occupy(1)

    def _release(self) -> None:
        if self._slot is not None:
            self._occupy(-1)
            self._slot = None

    def _occupy(self, change: int) -> None:
        route = self._slot
        if route is None:
            return
        if route.concern is not None:
            self._service.gate.occupy(change)
        if route.most is not None:
            self._service.working[route] = self._service.working.get(route, 0) + change

    # ---- what a request asks of its connection

    def announced(self) -> int | None:
        return self._length

    async def receive(self) -> bytes:
        """The next piece of the body, b"" at its end. A caller who is slow to send it holds no slot meanwhile."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._continue()
                self._occupy(-1)
                try:
                    await self._read(PIECE_BYTES)
                finally:
                    self._occupy(1)
        except h11.RemoteProtocolError as error:
            raise HttpError(400, "bad_request", "the body ends early, or is malformed") from error
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    async def _continue(self) -> None:
        await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        if self._service.stopping:
            self.end(Cause.STOPPING)
        phase, self._phase = self._phase, Phase.WAITING
        self._occupy(-1)
        self._service.gone.add(self._descriptor, self._gone)
        try:
            yield
        finally:
            self._service.gone.discard(self._descriptor)
            self._occupy(1)
            self._phase = phase

    def _gone(self) -> None:
        self.end(Cause.GONE)

    # ---- answering

    async def _send(self, response: Response, head: h11.Request) -> None:
        body = response.body
        framing, lines = _divided(response.headers)
        if self._service.stopping:
            framing.append((b"connection", b"close"))
        if response.status not in NO_BODY and isinstance(body, bytes):
            framing.append((b"content-length", b"%d" % len(body)))
        start = self._start(response.status, framing, lines)
        self._phase = Phase.ANSWER
        if isinstance(body, bytes):
            without = response.status in NO_BODY or head.method == b"HEAD"
            await self._send_whole(start, b"" if without else body)
        else:
            await self._send_stream(start, body, head)
        self._service.statistics.answered += 1

    def _start(self, status: int, framing: list[tuple[bytes, bytes]], lines: bytes) -> bytes:
        """The head of an answer. h11 sees what it must know, the framing; the other lines go in before its end."""
        start = self._http.send(h11.Response(status_code=status, headers=framing, reason=_PHRASES.get(status, b"")))
        return (start or b"")[:-2] + lines + b"\r\n"

    async def _send_whole(self, start: bytes, body: bytes) -> None:
        data = self._http.send(h11.Data(data=body)) if body else b""
        end = self._http.send(h11.EndOfMessage())
        await self._write(b"".join([start, data or b"", end or b""]))

    async def _send_stream(self, start: bytes, body: AsyncIterable[bytes], head: h11.Request) -> None:
        async with contextlib.aclosing(_iterator(body)) as pieces:
            await self._write_piece(start)
            if head.method != b"HEAD":
                async for piece in pieces:
                    if piece:
                        await self._write_piece(self._http.send(h11.Data(data=piece)))
            await self._write_piece(self._http.send(h11.EndOfMessage()))

    async def _write_piece(self, data: bytes | None) -> None:
        """Between the pieces of a stream it is the handler's affair how long it waits."""
        if data:
            self._scope.deadline = trio.current_time() + self._limits.stall_s
            await self._write(data)
            self._scope.deadline = math.inf

    async def _write(self, data: bytes) -> None:
        """What is short goes under the request's deadline; of the rest each piece must be taken in `stall_s`."""
        try:
            if len(data) <= PIECE_BYTES:
                await self._stream.send_all(data)
                return
            view = memoryview(data)
            for start in range(0, len(view), PIECE_BYTES):
                self._scope.deadline = trio.current_time() + self._limits.stall_s
                await self._stream.send_all(view[start : start + PIECE_BYTES])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise CallerGoneError from error

    async def _read(self, most: int) -> bool:
        try:
            data = await self._stream.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise CallerGoneError from error
        self._http.receive_data(bytes(data))
        return bool(data)

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._scope.deadline = trio.current_time() + seconds

    # ---- endings

    async def _refuse_head(self, error: h11.RemoteProtocolError) -> None:
        code = "too_large" if error.error_status_hint == 431 else "bad_request"
        refusal = HttpError(error.error_status_hint, code, "this is no HTTP/1.1 request within the limits")
        await self._close_with(refusal)

    async def _fault(self) -> None:
        self._service.statistics.faults += 1
        await self._close_with(HttpError(500, "internal_error", "the fault has been logged"))

    async def _last_words(self) -> None:
        """After a cancellation: what a caller can still be told, and may."""
        if self._phase in (Phase.IDLE, Phase.ANSWER) or self._cause in (Cause.GONE, Cause.DISMISSED):
            return
        if self._cause is Cause.STOPPING:
            refusal = HttpError(503, "shutting_down", "this server is stopping", retry_after=1)
        elif self._phase is Phase.HEAD or self._http.their_state is h11.SEND_BODY:
            refusal = HttpError(408, "timed_out", "the request took too long to arrive")
        else:
            refusal = HttpError(503, "timed_out", "the answer took too long", retry_after=1)
        with trio.move_on_after(FAREWELL_S):
            await self._close_with(refusal)
            await self._linger()

    async def _close_with(self, refusal: HttpError) -> None:
        """The refusal, if no answer has begun, and the word that the connection ends."""
        self._service.statistics.refuse(refusal.code)
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        response = refusal.response()
        body = response.body if isinstance(response.body, bytes) else b""
        framing, lines = _divided(response.headers)
        framing += [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        await self._send_whole(self._start(refusal.status, framing, lines), body)

    async def _drain(self) -> bool:
        """An unread body that is small goes, so that the connection can live on."""
        if self._http.they_are_waiting_for_100_continue or self._length is None or self._length > DRAIN_BYTES:
            return False
        self._enter(Phase.ANSWER, DRAIN_S)
        left = DRAIN_BYTES
        try:
            while left > 0 and (piece := await self.receive()):
                left -= len(piece)
        except HttpError:
            return False
        return left > 0

    async def _linger(self) -> None:
        """Reads on for a moment where a body is unread: closing would reset, and the answer might be lost."""
        if self._http.their_state not in (h11.SEND_BODY, h11.ERROR):
            return
        with trio.move_on_after(FAREWELL_S), contextlib.suppress(trio.BrokenResourceError):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            for _ in range(DRAIN_BYTES // PIECE_BYTES):
                if not await self._stream.receive_some(PIECE_BYTES):
                    return

    async def _close(self) -> None:
        if self._cause in (Cause.GONE, Cause.DISMISSED):
            await trio.aclose_forcefully(self._stream)
            return
        with trio.move_on_after(FAREWELL_S), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.aclose()


def _divided(headers: Headers) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """The headers that decide how the message is framed, and the lines of the others.

    Writing the lines ourselves, checked at once, costs a fifth of h11's checks one by one.
    """
    framing, lines = [], []
    for name, value in headers:
        if name.lower() in _FRAMING:
            framing.append((name.encode(), value.encode()))
        else:
            lines.append(f"{name}: {value}\r\n")
    written = "".join(lines).encode("latin-1")
    # As many lines as headers: a value with a line of its own would match, too.
    if written.count(b"\r\n") != len(lines) or not _HEADER_LINES.fullmatch(written):
        raise ValueError("a header of the handler's that HTTP does not allow")
    return framing, written


async def _iterator(body: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces, and the source is closed with it, in the task that used it."""
    try:
        async for piece in body:
            yield piece
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()

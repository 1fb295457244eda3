"""One HTTP/1.1 connection, request after request, in one task. What its bytes say is read and written beside it
(wire/http1).

One cancel scope serves the whole connection: no request costs a task, a scope or a timer of its own. Whatever cancels
it ends the connection: the deadline of a phase, a caller who has gone, a pin taken away, a listener that stops. What
is then said to the caller follows from the cause and the phase (`_last_words`). A deadline is a number here, which the
listener looks at each second (server.py): moving a timer twice for each request cost a fifth of all the work.

Room (the gate, a route's turns) is for making an answer, not for sending it: else sixteen slow links keep documents
from a fleet. What is on its way is bounded by its caller's share (`HttpRoute.each`), by a least rate, and in all by
`sending_bytes`, so that memory is: beyond that an answer keeps its room until it is sent.
"""

import contextlib
import math
from collections.abc import AsyncIterable, Iterator
from contextlib import AbstractContextManager
from enum import Enum, auto

import h11
import trio

from wire.http1.answer_writer import NO_BODY, AnswerWriter, pieces_of
from wire.http1.request_head import RequestHead
from wire.http1.request_reader import Ahead, RequestReader
from wire.http1.target import BadTarget, Target
from wire.limits import Tally
from wire.logs import log
from wire.peer import Peer, TlsPeer, UnixPeer
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute
from wire.service import HttpService

PIECE_BYTES = 65536
RATE_WINDOW_BYTES = 256 * 1024
DRAIN_BYTES = 256 * 1024
DRAIN_S = 5.0
FAREWELL_S = 1.0
SHARE_RETRY_S = 5


class CallerGoneError(Exception):
    """The caller's end of the connection is closed."""


class Phase(Enum):
    IDLE = auto()  # between requests
    HEAD = auto()  # a request has begun
    WORK = auto()  # its handler runs
    WAITING = auto()  # its handler waits for news
    ANSWER = auto()  # the answer has begun


class CloseCause(Enum):
    DEADLINE = auto()
    GONE = auto()
    DISMISSED = auto()
    STOPPING = auto()


class Connection:
    """`descriptor` is the socket's, for noticing that the caller has gone."""

    def __init__(self, stream: trio.abc.Stream, descriptor: int, peer: Peer, service: HttpService) -> None:
        self.peer = peer
        self._stream = stream
        self._descriptor = descriptor
        self._service = service
        self._limits = service.limits
        self._reader = RequestReader(service.limits.head_bytes)
        self._writer = AnswerWriter(old=True)
        self._scope = trio.CancelScope()
        self._wait = self._scope
        self._asked = False
        self._due = math.inf
        self._phase = Phase.IDLE
        self._cause = CloseCause.DEADLINE
        self._watched = False
        self._caller_gone = False
        self._slot: HttpRoute | None = None
        self._share: Tally | None = None
        self._length: int | None = None
        self._ambiguous = False
        self._opened = trio.current_time()

    @property
    def idle(self) -> bool:
        """Between requests, or before the first."""
        return self._phase is Phase.IDLE

    @property
    def since(self) -> float:
        """When it began to be idle; when it was opened, while it is not."""
        return self._due - self._limits.idle_s if self.idle and self._due < math.inf else self._opened

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

    def end(self, cause: CloseCause) -> None:
        """Ends the connection now, whatever it is doing."""
        self._cause = cause
        self._scope.cancel()

    def expire(self, now: float) -> float:
        """Ends the connection if its phase has taken too long. When that is."""
        if now >= self._due:
            self.end(CloseCause.DEADLINE)
        return self._due

    def wind_down(self) -> None:
        """The listener stops. Between requests it ends; a wait ends; what runs, or has only just come, goes on."""
        if self._phase is Phase.WAITING and self._wait is not self._scope:
            self._wait.cancel()
        elif self._phase is Phase.WAITING or (self._phase is Phase.IDLE and self._asked):
            self.end(CloseCause.STOPPING)

    def end_if_idle(self) -> None:
        """Also if it has said nothing so far."""
        if self._phase is Phase.IDLE:
            self.end(CloseCause.STOPPING)

    async def _requests(self) -> None:
        while not (self._service.stopping and self._asked):
            try:
                head = await self._next_head()
            except h11.RemoteProtocolError as error:
                await self._refuse_head(error)
                return
            self._asked = True
            if head is None or not await self._answer(head) or not await self._next_cycle():
                return

    async def _next_head(self) -> RequestHead | None:
        self._enter(Phase.IDLE, self._limits.idle_s)
        self._writer = AnswerWriter(old=True)  # nobody is known yet to understand more
        begun = False
        while True:
            found = self._reader.next_head()
            if isinstance(found, RequestHead):
                return found
            if found is Ahead.OVER:
                return None
            if self._phase is Phase.IDLE and begun:
                self._enter(Phase.HEAD, self._limits.head_s)
            begun = await self._read(self._limits.head_bytes)

    async def _answer(self, head: RequestHead) -> bool:
        """Whether the connection may live on."""
        old = head.version < b"1.1"
        self._writer = AnswerWriter(is_head=head.method == "HEAD", old=old, closes=not head.keeps_alive)
        try:
            try:
                response = await self._respond(head)
                await self._send(response)
            except HttpError as error:
                self._service.statistics.refuse(error.code)
                await self._send(error.response(), close=self._ambiguous)
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

    async def _respond(self, head: RequestHead) -> Response:
        request = self._request(head)
        route = self._service.routes.find(request)
        request.body_limit = self._limits.body_bytes if route.body_bytes is None else route.body_bytes
        deadline_s = self._limits.deadline_s if route.deadline_s is None else route.deadline_s
        self._enter(Phase.WORK, deadline_s)
        await self._admit(route)
        return await route.handler(request)

    async def _next_cycle(self) -> bool:
        if self._writer.closes or not self._writer.ended:
            return False
        if self._reader.is_in_body and not await self._drain():
            return False
        if self._reader.is_in_body or self._reader.broken:
            return False
        self._reader.finish()
        if self._reader.has_more:  # requests that came together: nothing is waited for between them
            await trio.lowlevel.checkpoint()
        return True

    # ---- letting a request in

    def _request(self, head: RequestHead) -> Request:
        self._judge(head)
        try:
            target = Target.parse(head.target)
        except BadTarget as error:
            raise HttpError(400, "bad_request", str(error)) from error
        return Request(head.method, target, head.lines.headers, self.peer, self)

    def _judge(self, head: RequestHead) -> None:
        """How long the body is, before anything else is refused: its end is that of the request. And on a local socket,
        whether the caller was led here (threats U12).
        """
        self._length = head.lines.length
        if head.lines.framings > 1 or not head.version.startswith(b"1."):
            # Somebody in front of us may see another end of it (RFC 9112, 6.1): nothing that follows is believed.
            self._ambiguous = True
            raise HttpError(400, "bad_request", "a body with two lengths, or another HTTP than 1")
        for name, value in head.lines.misleading:
            self._refuse_misled(name, value)

    def _refuse_misled(self, name: bytes, value: bytes) -> None:
        """A browser or a proxy that was led to a local listener shows it by Host or Origin. Of a Unix socket, which no
        name leads to, the Host says nothing.
        """
        hosts = self._service.hosts
        if name == b"origin" and (hosts is not None or isinstance(self.peer, UnixPeer)):
            raise HttpError(403, "forbidden_origin", "no web page may ask here")
        if name == b"host" and hosts is not None and _without_port(value) not in hosts:
            raise HttpError(421, "misdirected_request", f"use one of these hosts: {', '.join(sorted(hosts))}")

    async def _admit(self, route: HttpRoute) -> None:
        if isinstance(self.peer, TlsPeer) and self.peer.state not in route.states:
            raise HttpError(403, self.peer.state.value, f"this node is {self.peer.state.value}")
        if route.rate is not None:
            caller = self.peer.uid if isinstance(self.peer, UnixPeer) else self.peer.address
            seconds = route.rate.wait_s(caller, trio.current_time())
            if seconds is not None:
                raise HttpError(429, "too_many_requests", "too many of these requests", retry_after=seconds)
        self._take_share(route)
        await self._take_slot(route)

    def _take_share(self, route: HttpRoute) -> None:
        """Before any waiting in line: who has more places there than others would have more turns."""
        if route.each is None:
            return
        if not route.each.take(self.peer.name):
            raise HttpError(429, "too_many_requests", "too many of these at once", retry_after=SHARE_RETRY_S)
        self._share = route.each

    async def _take_slot(self, route: HttpRoute) -> None:
        gate, turns = self._service.gate, self._service.turns_of(route)
        seconds = gate.wait_s(route.concern) if route.concern is not None else None
        if seconds is None and turns is not None and not await turns.take(self._limits.turn_s):
            seconds = route.concern.retry_after_s if route.concern is not None else 1
        if seconds is not None:
            raise HttpError(503, "overloaded", "too much to do at the moment", retry_after=seconds)
        self._slot = route
        if route.concern is not None:
            gate.occupy(1)

    def _release(self) -> None:
        self._give_room_back()
        if self._share is not None:
            self._share.give_back(self.peer.name)
            self._share = None

    def _give_room_back(self) -> None:
        if self._slot is not None:
            self._occupy(-1)
            self._slot = None

    def _occupy(self, change: int) -> None:
        route = self._slot
        if route is None:
            return
        if route.concern is not None:
            self._service.gate.occupy(change)
        if (turns := self._service.turns_of(route)) is not None:
            turns.occupy(change)

    # ---- what a request asks of its connection

    def content_length(self) -> int | None:
        return self._length

    async def receive(self) -> bytes:
        """The next piece of the body, b"" at its end. A caller who is slow to send it holds no slot meanwhile."""
        try:
            while (piece := self._reader.next_piece()) is None:
                if self._reader.waits_for_continue:
                    await self._continue()
                self._occupy(-1)
                try:
                    await self._read(PIECE_BYTES)
                finally:
                    self._occupy(1)
        except h11.RemoteProtocolError as error:
            raise HttpError(400, "bad_request", "the body ends early, or is malformed") from error
        return piece

    async def _continue(self) -> None:
        due = self._due
        await self._write(self._reader.ask_for_body())
        self._due = due  # that of the request

    def allow(self, seconds: float) -> None:
        self._enter(Phase.WORK, seconds)

    def waiting(self, *, yields: bool) -> AbstractContextManager[None]:
        return self._yielding() if yields else _Wait(self)

    @contextlib.contextmanager
    def _yielding(self) -> Iterator[None]:
        scope = trio.CancelScope()
        with _Wait(self, scope), scope:
            yield

    def begin_wait(self, scope: trio.CancelScope | None) -> Phase:
        """Gives the phase that the wait comes out of."""
        self._watch()
        phase, self._phase = self._phase, Phase.WAITING
        self._wait = scope or self._scope
        if self._service.stopping:
            self.wind_down()
        self._occupy(-1)
        return phase

    def end_wait(self, phase: Phase) -> None:
        self._occupy(1)
        self._phase = phase

    def _watch(self) -> None:
        """From the first long poll to the end of the connection: each poll would cost two system calls more."""
        if self._caller_gone:
            self.end(CloseCause.GONE)
        elif not self._watched:
            self._watched = True
            self._service.gone.add(self._descriptor, self._note_hangup)

    def _note_hangup(self) -> None:
        self._caller_gone = True
        if self._phase is Phase.WAITING:
            self.end(CloseCause.GONE)

    # ---- answering

    async def _send(self, response: Response, *, close: bool = False) -> None:
        body, writer = response.body, self._writer
        writer.closes = writer.closes or close or self._service.stopping
        headers = (*response.headers, *self._service.headers)
        if isinstance(body, bytes):
            data = writer.whole(response.status, headers, body)
            self._phase = Phase.ANSWER
            size = len(body)
            if self._may_give_room_back(size):
                self._give_room_back()
                self._service.sending += size
                try:
                    await self._write(data)
                finally:
                    self._service.sending -= size
            else:
                await self._write(data)
        else:
            await self._send_stream(writer.start(response.status, headers), body, response.status)
        self._service.statistics.answered += 1

    def _may_give_room_back(self, size: int) -> bool:
        return self._service.sending + size <= self._limits.sending_bytes

    async def _send_stream(self, start: bytes, body: AsyncIterable[bytes], status: int) -> None:
        self._phase = Phase.ANSWER
        async with contextlib.aclosing(pieces_of(body)) as pieces:
            await self._write_piece(start)
            if not self._writer.is_head and status not in NO_BODY:
                async for piece in pieces:
                    await self._write_piece(self._writer.piece(piece))
            await self._write_piece(self._writer.end())

    async def _write_piece(self, data: bytes) -> None:
        """Between the pieces of a stream it is the handler's affair how long it waits."""
        if data:
            await self._write(data)
            self._due = math.inf

    async def _write(self, data: bytes) -> None:
        """On average at the least rate; the kernel tells only now and then what was taken, hence the window."""
        rate, begun = self._limits.least_rate, trio.current_time()
        patience = self._limits.stall_s + min(len(data), RATE_WINDOW_BYTES) / rate
        try:
            self._due = begun + patience
            if len(data) <= PIECE_BYTES:
                await self._stream.send_all(data)
                return
            view = memoryview(data)
            for start in range(0, len(view), PIECE_BYTES):
                self._due = min(trio.current_time(), begun + start / rate) + patience
                await self._stream.send_all(view[start : start + PIECE_BYTES])
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise CallerGoneError from error

    async def _read(self, most: int) -> bool:
        try:
            data = await self._stream.receive_some(most)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise CallerGoneError from error
        self._reader.receive(bytes(data))
        return bool(data)

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._due = trio.current_time() + seconds

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
        if self._phase in (Phase.IDLE, Phase.ANSWER) or self._cause in (CloseCause.GONE, CloseCause.DISMISSED):
            return
        if self._cause is CloseCause.STOPPING:
            refusal = HttpError(503, "shutting_down", "this server is stopping", retry_after=1)
        elif self._phase is Phase.HEAD or self._reader.is_in_body:
            refusal = HttpError(408, "timed_out", "the request took too long to arrive")
        else:
            refusal = HttpError(503, "timed_out", "the answer took too long", retry_after=1)
        with trio.move_on_after(FAREWELL_S):
            await self._close_with(refusal)
            await self._linger()

    async def _close_with(self, refusal: HttpError) -> None:
        """The refusal, if no answer has begun, and the word that the connection ends."""
        self._service.statistics.refuse(refusal.code)
        if self._writer.begun:
            return
        await self._send(refusal.response(), close=True)

    async def _drain(self) -> bool:
        """An unread body that is small goes, so that the connection can live on."""
        if self._reader.waits_for_continue or self._length is None or self._length > DRAIN_BYTES:
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
        if not (self._reader.is_in_body or self._reader.broken):
            return
        with trio.move_on_after(FAREWELL_S), contextlib.suppress(trio.BrokenResourceError):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            for _ in range(DRAIN_BYTES // PIECE_BYTES):
                if not await self._stream.receive_some(PIECE_BYTES):
                    return

    async def _close(self) -> None:
        self._service.gone.discard(self._descriptor)
        if self._cause in (CloseCause.GONE, CloseCause.DISMISSED):
            await trio.aclose_forcefully(self._stream)
            return
        with trio.move_on_after(FAREWELL_S), contextlib.suppress(trio.BrokenResourceError):
            await self._stream.aclose()


class _Wait:
    """While a handler waits for news. No generator: a poll of a fleet goes through here for each of its answers."""

    __slots__ = ("_connection", "_phase", "_scope")

    def __init__(self, connection: Connection, scope: trio.CancelScope | None = None) -> None:
        self._connection = connection
        self._scope = scope

    def __enter__(self) -> None:
        self._phase = self._connection.begin_wait(self._scope)

    def __exit__(self, *_: object) -> None:
        self._connection.end_wait(self._phase)


def _without_port(value: bytes) -> str:
    """Of a Host header; an IPv6 address has colons of its own, inside brackets."""
    host = value.decode("latin-1")
    name, bracket, _ = host.partition("]")
    return f"{name}]" if bracket else name.partition(":")[0]

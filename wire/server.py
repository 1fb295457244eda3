"""A listener: who may come in, how many, until when. One nursery, one task for each connection.

    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        ...
        server.stop()        # no more callers; running requests finish within `grace_s`, waiting ones are told

Cancelling `serve` ends all of it at once.
"""

import contextlib
import math
import random
from collections.abc import Container, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import trio

from wire.accept_loop import accept_all
from wire.connection import DRAIN_S, CloseCause, Connection
from wire.crowding import OpenConnection, making_room
from wire.limits import ListenerLimits, Tally
from wire.log_sampling import EVERY_S, Sampled
from wire.logs import log
from wire.peer import Peer
from wire.request import Headers
from wire.room import ConnectionRoom, principal_of
from wire.routes import Routes
from wire.service import HttpService, Statistics
from wire.shedding import Gate

CAPACITY = 256
TICK_S = 1.0
REFUSALS = 64  # that are told so at once: descriptors are not to run out by being polite
MADE_ROOM = "it made room for another"
SILENT_S = 1.0  # for a caller that has got in as the listener stops, and has not said anything yet


class TurnedAwayError(Exception):
    """A connection that is not let in: its handshake failed, or its caller is nobody we know."""


@dataclass(frozen=True, slots=True)
class OpenedConnection:
    """A connection that is let in. `end` is told for which connection, so that it can be ended from outside."""

    stream: trio.abc.Stream
    peer: Peer


@dataclass(eq=False, slots=True)
class Seat:
    """What a connection counts for: from before it is opened, until it has ended or had to make room for another."""

    caller: Hashable
    taken: bool = True


class Transport(Protocol):
    """How a raw connection becomes a stream with a known peer."""

    def caller(self, raw: trio.SocketStream) -> Hashable:
        """Whom the connection counts for, before it is opened: a uid or an address."""

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        """TurnedAwayError if it is not let in; what can be said to the caller has been said then."""

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        """While it is open, the transport may end it (its pin is taken away)."""

    async def refuse(self, raw: trio.SocketStream) -> None:
        """Says that there are too many connections, as far as the transport can."""

    async def follow(self) -> None:
        """What the transport does beside its connections, until cancelled."""


class Server:
    """`hosts`: the only Host headers that are answered, for local listeners (threats U12). `first`: the callers, as the
    transport names them, for whom `limits.reserved` connections are kept. `headers` stand on every answer.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        transport: Transport,
        limits: ListenerLimits,
        *,
        gate: Gate | None = None,
        hosts: frozenset[str] | None = None,
        first: Container[Hashable] = (),
        headers: Headers = (),
    ) -> None:
        # Chance spreads the return of callers; it keeps no secret.
        gate = gate or Gate(CAPACITY, random.random)
        self._service = HttpService(name, routes, limits, gate, hosts, headers)
        self._transport = transport
        self._limits = limits
        self._tally = Tally(limits.connections_each, limits.connections, limits.reserved, first)
        self._strangers = None if limits.strangers is None else ConnectionRoom(limits.strangers)
        self._log = Sampled(self._say)
        of_requests = (limits.head_s, limits.deadline_s, routes.shortest_s)
        self._shortest_phase_s = max(TICK_S, min(limits.idle_s, limits.stall_s, DRAIN_S, *of_requests))
        self._connections: dict[Connection, Seat] = {}
        self._refusals = 0
        self._accepting = trio.CancelScope()
        self._came = trio.Event()
        self._left = trio.Event()

    @property
    def connections(self) -> int:
        """Open ones, those in their handshake included."""
        return len(self._tally)

    def statistics(self) -> Statistics:
        """A copy."""
        now = self._service.statistics
        return replace(now, refused=dict(now.refused))

    def stop(self) -> None:
        """Stops accepting and winds down; `serve` returns when that is done."""
        self._accepting.cancel()

    async def wait_empty(self) -> None:
        """Until there is no connection."""
        while len(self._tally):
            await self._left.wait()

    async def serve(
        self,
        listener: trio.abc.Listener[trio.SocketStream],
        *,
        task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Until stopped or cancelled. The listener is closed in either case."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._service.gone.run)
            nursery.start_soon(self._expire)
            nursery.start_soon(self._transport.follow)
            nursery.start_soon(self._log.run)
            async with listener:
                with self._accepting:
                    task_status.started()
                    await accept_all(listener, self._serve_caller, nursery, self._note_exhaustion)
            await self._wind_down()
            nursery.cancel_scope.cancel()

    async def _expire(self) -> None:
        """Ends the connections whose phase has taken too long, a second late at most; rests while there is none, and
        while none of them can be due, nor one of a phase that begins meanwhile.
        """
        rest_s = TICK_S
        while True:
            if not self._connections:
                self._came = trio.Event()
                await self._came.wait()
                rest_s = self._shortest_phase_s
            await trio.sleep(rest_s)
            now = trio.current_time()
            due = min((connection.expire(now) for connection in self._connections), default=math.inf)
            rest_s = min(max(due - now, TICK_S), self._shortest_phase_s)

    async def _wind_down(self) -> None:
        self._service.stopping = True
        for connection in self._connections:
            connection.wind_down()
        with trio.move_on_after(self._limits.grace_s):
            with trio.move_on_after(SILENT_S):
                await self.wait_empty()
            for connection in self._connections:
                connection.end_if_idle()
            await self.wait_empty()

    async def _serve_caller(self, raw: trio.SocketStream) -> None:
        """The outermost edge of a connection's task: whatever happens in one, the listener lives."""
        caller = self._transport.caller(raw)
        seat = self._take_seat(caller)
        if seat is None:
            await self._refuse(raw)
            return
        try:
            await self._within_room(raw, seat)
        except TurnedAwayError as error:
            self._service.statistics.handshakes_failed += 1
            self._note_turned_away(caller, str(error))
        except Exception as error:
            self._service.statistics.faults += 1
            if self._log.is_first(f"failed: {type(error).__name__}"):
                log.exception("connection failed", listener=self._service.name, caller=caller)
        finally:
            self._give_back(seat)
            raw.socket.close()

    def _take_seat(self, caller: Hashable) -> Seat | None:
        if self._tally.take(caller) or (self._make_room(caller) and self._tally.take(caller)):
            return Seat(caller)
        return None

    def _make_room(self, caller: Hashable) -> bool:
        """Where places are reserved, somebody may have to go for another (crowding.py)."""
        if not self._limits.reserved:
            return False
        places = {
            OpenConnection(seat.caller, connection.idle, connection.since): (connection, seat)
            for connection, seat in self._connections.items()
            if seat.taken
        }
        goes = making_room(caller, list(places), self._tally)
        if goes is None:
            return False
        connection, seat = places[goes]
        self._give_back(seat)
        connection.end(CloseCause.DISMISSED)
        return True

    def _give_back(self, seat: Seat) -> None:
        if not seat.taken:
            return
        seat.taken = False
        self._tally.give_back(seat.caller)
        self._left.set()
        self._left = trio.Event()  # a new one here alone: several may wait for the last to leave

    async def _within_room(self, raw: trio.SocketStream, seat: Seat) -> None:
        if self._strangers is None:
            await self._serve_one(raw, seat)
            return
        with self._strangers.one(principal_of(str(seat.caller))) as scope:
            await self._serve_one(raw, seat)
        if scope.cancelled_caught:
            raise TurnedAwayError(MADE_ROOM)

    async def _serve_one(self, raw: trio.SocketStream, seat: Seat) -> None:
        opened = await self._transport.open(raw)
        self._service.statistics.accepted += 1
        connection = Connection(opened.stream, raw.socket.fileno(), opened.peer, self._service)
        self._connections[connection] = seat
        self._came.set()
        try:
            with self._transport.following(opened, connection):
                await connection.run()
        finally:
            del self._connections[connection]

    async def _refuse(self, raw: trio.SocketStream) -> None:
        self._service.statistics.turned_away += 1
        self._note_turned_away(self._transport.caller(raw), "too many connections")
        if self._refusals < REFUSALS:
            self._refusals += 1
            try:
                with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._transport.refuse(raw)
            finally:
                self._refusals -= 1
        raw.socket.close()

    # ---- what is said of it: strangers can have each of these as often as they like (log_sampling.py)

    def _note_turned_away(self, caller: Hashable, reason: str) -> None:
        if self._log.is_first(reason):
            log.info("connection turned away", listener=self._service.name, caller=caller, reason=reason)

    def _note_exhaustion(self, reason: str) -> None:
        if self._log.is_first(reason):
            remedy = "what holds the descriptors ends, or LimitNOFILE= of the unit is raised"
            log.error("nobody can be let in", listener=self._service.name, reason=reason, remedy=remedy)

    def _say(self, reason: str, count: int) -> None:
        log.info("connections not served", listener=self._service.name, reason=reason, count=count, within_s=EVERY_S)

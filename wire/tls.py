"""The listeners over TCP: with pinned client certificates, with none, and plain ones for probes.

OpenSSL judges a client's certificate by a trust store from which nothing can be taken out. So the pin table decides,
after each handshake and before the first byte; the trust store follows it: a new pin goes into the live context, and
when one has been taken away a new context is built in a thread, for the next handshake.
"""

import ssl
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import trio

from wire.certificate import KeyPair
from wire.connection import CloseCause, Connection
from wire.limits import ListenerLimits
from wire.peer import AnonymousPeer, OperatorPeer, TlsPeer
from wire.pins import Pin, PinTable
from wire.room import ConnectionRoom, principal_of
from wire.server import MADE_ROOM, OpenedConnection, TurnedAwayError
from wire.tls_contexts import alert_of, pinned_server_context, server_context
from wire.tls_stream import TlsStream

ALERT_S = 1.0
CONNECTIONS_EACH_NODE = 16
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError)


def node_peer(pin: Pin, address: str) -> TlsPeer:
    return TlsPeer(pin.fingerprint, pin.node_id, pin.state, address)


def operator_peer(pin: Pin, address: str) -> OperatorPeer:
    """Of a table in which each pin is an operator's, by their name."""
    return OperatorPeer(pin.fingerprint, pin.node_id, address)


class PinnedTransport:
    """Lets in the holders of pinned certificates, in whatever state; each request says which (routes.py).

    Before the handshake a connection counts for its address, afterwards for its holder too; handshakes have a room of
    their own. `peer` says what the holder of a pin is: a listener's table is either of nodes or of operators.
    """

    def __init__(
        self,
        table: PinTable,
        shown: KeyPair,
        limits: ListenerLimits,
        *,
        connections_each_node: int = CONNECTIONS_EACH_NODE,
        peer: Callable[[Pin, str], TlsPeer | OperatorPeer] = node_peer,
    ) -> None:
        self._table = table
        self._shown = shown
        self._limits = limits
        self._handshakes = ConnectionRoom(limits.handshakes)
        self._each_node = connections_each_node
        self._peer = peer
        self._outdated = trio.Event()
        self._settled = trio.Event()
        self._settled.set()
        self._context = pinned_server_context(shown, [pin.der for pin in table])
        table.attach(self)

    def show(self, shown: KeyPair) -> None:
        """After a renewal, from the next handshakes on; the key fits the certificate."""
        self._shown = shown
        self._outdate()

    def trust_pin(self, pin: Pin) -> None:
        self._context.load_verify_locations(cadata=pin.der)

    def distrust_pin(self, pin: Pin) -> None:
        self._outdate()

    async def wait_settled(self) -> None:
        """Until TLS trusts what the table holds, and nothing more."""
        await self._settled.wait()

    async def follow(self) -> None:
        """Builds a new context whenever the present one trusts too much; changes meanwhile make one more round."""
        while True:
            await self._outdated.wait()
            self._outdated = trio.Event()
            ders = {pin.fingerprint: pin.der for pin in self._table}
            # Only memory is touched, so nothing is lost if it is cancelled.
            build = partial(pinned_server_context, self._shown, list(ders.values()))
            context = await trio.to_thread.run_sync(build)  # noqa: TID251
            for pin in self._table:
                if pin.fingerprint not in ders:
                    context.load_verify_locations(cadata=pin.der)
            self._context = context
            if not self._outdated.is_set():
                self._settled.set()

    def caller(self, raw: trio.SocketStream) -> Hashable:
        return _address_of(raw)

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        with self._handshakes.one(principal_of(_address_of(raw))) as scope:
            stream = await _handshake(raw, self._context, self._limits.handshake_s)
        if scope.cancelled_caught:
            raise TurnedAwayError(MADE_ROOM)
        pin = self._table.find(stream.peer_certificate() or b"")
        if pin is None:
            # Taken away a moment ago, or signed by a pinned certificate (threats M02, M07).
            raise TurnedAwayError("a certificate that TLS took, and that is not pinned")
        if self._table.connections_of(pin.node_id) >= self._each_node:
            raise TurnedAwayError(f"too many connections of {pin.node_id}")
        return OpenedConnection(stream, self._peer(pin, _address_of(raw)))

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        if not isinstance(opened.peer, TlsPeer | OperatorPeer):
            return nullcontext()
        end = partial(connection.end, CloseCause.DISMISSED)
        return self._table.open_connection(opened.peer.fingerprint, end)

    async def refuse(self, raw: trio.SocketStream) -> None:
        """Nothing can be said before a handshake, and that is what there are too many of."""

    def _outdate(self) -> None:
        self._outdated.set()
        if self._settled.is_set():
            self._settled = trio.Event()


class ServerAuthTransport:
    """TLS that asks for no client certificate: joins, where none is pinned yet, and static files."""

    def __init__(self, shown: KeyPair, limits: ListenerLimits) -> None:
        self._limits = limits
        self._context = server_context(shown)

    def show(self, shown: KeyPair) -> None:
        self._context = server_context(shown)

    def caller(self, raw: trio.SocketStream) -> Hashable:
        return _address_of(raw)

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        stream = await _handshake(raw, self._context, self._limits.handshake_s)
        return OpenedConnection(stream, AnonymousPeer(_address_of(raw)))

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    async def refuse(self, raw: trio.SocketStream) -> None:
        """As above: nothing can be said."""

    async def follow(self) -> None:
        """There is nothing to follow."""


class AskingTransport:
    """Asks for a client certificate and takes none as well: files for anybody, changes for those that are pinned. One
    that is shown and not pinned ends the handshake.
    """

    def __init__(self, table: PinTable, shown: KeyPair, limits: ListenerLimits) -> None:
        self._limits = limits
        self.show(table, shown)

    def show(self, table: PinTable, shown: KeyPair) -> None:
        """From the next handshakes on."""
        self._table = table
        self._context = pinned_server_context(shown, [pin.der for pin in self._table])
        self._context.verify_mode = ssl.CERT_OPTIONAL if len(self._table) else ssl.CERT_NONE

    def caller(self, raw: trio.SocketStream) -> Hashable:
        return _address_of(raw)

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        stream = await _handshake(raw, self._context, self._limits.handshake_s)
        der = stream.peer_certificate()
        if not der:
            return OpenedConnection(stream, AnonymousPeer(_address_of(raw)))
        pin = self._table.find(der)
        if pin is None:
            raise TurnedAwayError("a certificate that TLS took, and that is not pinned")
        return OpenedConnection(stream, node_peer(pin, _address_of(raw)))

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    async def refuse(self, raw: trio.SocketStream) -> None:
        """As above: nothing can be said."""

    async def follow(self) -> None:
        """There is nothing to follow."""


class PlainTransport:
    """Plain HTTP for probes and metrics on a listener of their own (rules J46); it knows nobody."""

    def caller(self, raw: trio.SocketStream) -> Hashable:
        return _address_of(raw)

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        return OpenedConnection(raw, AnonymousPeer(_address_of(raw)))

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    async def refuse(self, raw: trio.SocketStream) -> None:
        """A probe that is turned away has its answer."""

    async def follow(self) -> None:
        """There is nothing to follow."""


async def _send_alert(raw: trio.SocketStream, alert: bytes) -> None:
    """Why a handshake failed: the other end would see a bare reset."""
    if not alert:
        return
    with trio.move_on_after(ALERT_S):
        try:
            await raw.send_all(alert)
            await raw.send_eof()
            while await raw.receive_some(4096):  # unread data at close would be a reset again
                pass
        except _GONE:
            return


async def _handshake(raw: trio.SocketStream, context: ssl.SSLContext, seconds: float) -> TlsStream:
    stream = TlsStream(raw, context)
    failure = await _failure_of_handshake(raw, stream, seconds)
    if failure:
        raise TurnedAwayError(failure)
    return stream


async def _failure_of_handshake(raw: trio.SocketStream, stream: TlsStream, seconds: float) -> str:
    """Empty where there is none. The error itself would hold on to the stream."""
    failure = ""
    with trio.move_on_after(seconds) as scope:
        try:
            await stream.do_handshake()
        except _GONE as error:
            failure = alert_of(error)
    if scope.cancelled_caught:
        return "the handshake took too long"
    if failure:
        await _send_alert(raw, stream.alert())
    return failure


def _address_of(raw: trio.SocketStream) -> str:
    try:
        address: str = raw.socket.getpeername()[0]
    except OSError:
        return "unknown"
    return address

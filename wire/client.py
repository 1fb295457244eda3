"""The strict client: HTTPS to coordinators and storage, HTTP to a local Unix socket.

    answer = await client.fetch(endpoint, Call("GET", path("v1", "head", wait=55), wait_s=55))
    async with client.stream(endpoint, call) as answer: async for piece in answer.chunks(): ...

h11 and our own connections rather than httpx or httpcore: httpcore 0.16 (Debian 12) keeps the connection of every
cancelled request in its pool for good, and long polls are cancelled all the time; and the checks of threats D-46 and
D-47 lie between name and connect(), and between the events of one answer, where neither has a place for them.
Nothing is taken from the environment (threats N06).
"""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import trio

from snapshot.mirrors import MirrorTls
from wire.addresses import AddressBook, Addresses
from wire.body_stream import BodyStream
from wire.certificate import fingerprint
from wire.endpoint import BadEndpointError, Endpoint
from wire.exchange import Call, ClientError, ClientFault, Deadlines, Exchange, StaleConnectionError, retry_after_s
from wire.messages import ERROR_BYTES, ErrorBody
from wire.tls_contexts import (
    SYSTEM_ROOTS,
    EmptyTrustError,
    TlsIdentity,
    alert_of,
    authority_context,
    is_of_unknown_authority,
    is_tls,
    own_der,
    pinned_context,
    public_context,
    unchecked_context,
)
from wire.tls_stream import TlsStream

KEPT_S = 60.0  # less than a server keeps an idle connection
NAMES_S = 1.0  # for DNS alone, where the last working address is known: then that one is tried beside it
NAMES_SHARE = 0.25  # and of the time for connecting at most so much
KEPT_EACH = 2
LOCAL_HOST = "localhost"
_TOLD_FIRST = {
    ClientFault.BAD_ENDPOINT: 3,  # nobody is asked there
    ClientFault.UNKNOWN_CA: 2,
    ClientFault.PEER_PIN_MISMATCH: 2,
    ClientFault.UNTRUSTED_MIRROR: 2,
    ClientFault.TLS_FAILED: 1,
}

__all__ = ["Call", "ClientError", "ClientFault", "Deadlines", "HttpClient", "HttpsConnector", "Reply", "UnixConnector"]

Place = TypeVar("Place", bound=Hashable)
PlaceT_contra = TypeVar("PlaceT_contra", bound=Hashable, contravariant=True)


@dataclass(frozen=True, slots=True)
class Reply:
    """A success: 2xx, or 304 to a request with If-None-Match. `headers` by lower-case name; `server` is the
    fingerprint of the certificate that the server showed (a join names it), "" on a local socket.
    """

    status: int
    headers: dict[str, str]
    server: str
    body: bytes = b""


class Streamed:
    """An answer whose body is still to come."""

    def __init__(self, exchange: Exchange, server: str) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self.announced = exchange.announced
        self.server = server
        self._exchange = exchange

    def chunks(self) -> BodyStream:
        return self._exchange.chunks()


@dataclass(frozen=True, slots=True)
class Connected:
    stream: trio.abc.Stream
    authority: str
    server: str = ""


class Connector(Protocol[PlaceT_contra]):
    async def connect(self, place: PlaceT_contra, seconds: float) -> Connected:
        """A stream to the place within that time; ClientError says why not."""


@dataclass(slots=True)
class KeptConnection:
    """A connection and what is said over it, one exchange after the other."""

    exchange: Exchange
    stream: trio.abc.Stream
    server: str
    free_since: float = 0.0


class HttpClient(Generic[Place]):
    """Keeps up to two idle connections to each place; `aclose` ends them."""

    def __init__(self, connector: Connector[Place], deadlines: Deadlines | None = None) -> None:
        self._connector = connector
        self._deadlines = deadlines or Deadlines()
        self._kept: dict[Place, list[KeptConnection]] = {}

    async def fetch(self, place: Place, call: Call) -> Reply:
        """The whole answer; ClientError for anything but a success."""
        async with self.stream(place, call) as answer:
            body = b"".join([piece async for piece in answer.chunks()])
            return Reply(answer.status, answer.headers, answer.server, body)

    @asynccontextmanager
    async def stream(self, place: Place, call: Call) -> AsyncIterator[Streamed]:
        """The answer with its body still to come. A body that is not read to its end costs the connection; a refusal
        does not: what is not there is asked for all the time.
        """
        line = await self._begin(place, call)
        refusal = await self._read_refusal(line)
        if refusal is not None:
            await self._put_back(place, line)
            raise refusal
        try:
            yield Streamed(line.exchange, line.server)
        except BaseException:
            await trio.aclose_forcefully(line.stream)
            raise
        await self._put_back(place, line)

    async def aclose(self) -> None:
        """Also those that are put back meanwhile."""
        while self._kept:
            _, lines = self._kept.popitem()
            await _end(lines)

    async def _begin(self, place: Place, call: Call) -> KeptConnection:
        """A kept connection may have been closed meanwhile: requests are idempotent, so a new one is tried (D-50)."""
        while isinstance(call.body, bytes) and (line := self._take(place)) is not None:
            with contextlib.suppress(StaleConnectionError):
                await _begin(line, call)
                return line
        connected = await self._connector.connect(place, self._deadlines.connect_s)
        exchange = Exchange(connected.stream, connected.authority, self._deadlines)
        line = KeptConnection(exchange, connected.stream, connected.server)
        await _begin(line, call)
        return line

    async def _read_refusal(self, line: KeptConnection) -> ClientError | None:
        """The connection goes where it cannot be read."""
        try:
            return await _refusal_in(line.exchange)
        except BaseException:
            await trio.aclose_forcefully(line.stream)
            raise

    def _take(self, place: Place) -> KeptConnection | None:
        lines = self._kept.get(place, [])
        return lines.pop() if lines else None

    async def _put_back(self, place: Place, line: KeptConnection) -> None:
        now = trio.current_time()
        lines = self._kept.pop(place, [])
        fresh = [kept for kept in lines if now - kept.free_since < KEPT_S]
        ended = [kept for kept in lines if kept not in fresh]
        if line.exchange.reusable and len(fresh) < KEPT_EACH:
            line.free_since = now
            fresh.append(line)
        else:
            ended.append(line)
        self._kept[place] = fresh
        await _end(ended)


class HttpsConnector:
    """To coordinators and storage (`to_authority`), to one other node (`to_node`), or to a mirror with a CA or
    certificate of its own (`to_mirror`). `pins`: of which certificates one must be shown, by fingerprint; none: any
    that the context takes. `stranger`: what one that is not believed is called.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        pins: Iterable[str] = (),
        own: bytes | None = None,
        stranger: ClientFault = ClientFault.UNKNOWN_CA,
    ) -> None:
        self._context = context
        self._pins = frozenset(pins)
        self._own = fingerprint(own) if own else None
        self._stranger = stranger
        self._addresses: AddressBook = Addresses()

    @classmethod
    def to_authority(
        cls, file: Path | None, identity: TlsIdentity | None = None, ders: Iterable[bytes] = ()
    ) -> "HttpsConnector":
        """The chain is checked against the CAs of this file, and these, before anything is sent (rules K15, threats
        J14).
        """
        return cls(authority_context(file, identity, ders), own=own_der(identity))

    @classmethod
    def to_node(cls, pins: Iterable[bytes], identity: TlsIdentity) -> "HttpsConnector":
        """That node's pinned certificates alone (threats D-31)."""
        pins = list(pins)
        context = pinned_context(pins, identity)
        return cls(context, map(fingerprint, pins), own_der(identity), ClientFault.PEER_PIN_MISMATCH)

    @classmethod
    def to_mirror(cls, tls: MirrorTls, system_roots: Path = SYSTEM_ROOTS) -> "HttpsConnector":
        """Whoever runs it is shown no certificate of ours, whatever the server asks for; the path of a head tells whose
        it is.
        """
        stranger = ClientFault.UNTRUSTED_MIRROR
        if tls.system_roots:
            return cls(public_context(system_roots), stranger=stranger)
        if tls.authorities:
            return cls(authority_context(None, ders=tls.authorities), stranger=stranger)
        if not tls.certificates:
            raise EmptyTrustError("no certificate of this mirror is known")
        return cls(unchecked_context(), tls.certificates, stranger=stranger)

    def remember_in(self, addresses: AddressBook) -> None:
        """In place of a book of its own."""
        self._addresses = addresses

    async def connect(self, place: Endpoint, seconds: float) -> Connected:
        failed = _Failed()
        with trio.move_on_after(seconds):
            last = self._addresses.find(place)
            if last is not None:
                return await self._connect_beside(place, last, seconds, failed)
            return await self._connect_in_turn(place, await _resolve(place), seconds, failed)
        raise failed.with_error(_too_late(place))

    async def _connect_beside(self, place: Endpoint, last: str, seconds: float, failed: "_Failed") -> Connected:
        """DNS is asked each time; the last working address comes first where the name still leads there, and serves
        when DNS is down. While DNS is silent, both go on, and whoever is connected first is it (rules K50, P16).
        """
        race, named = _Race(failed), trio.Event()

        async def by_name() -> None:
            try:
                found = await _resolve(place)
            except ClientError as error:
                failed.with_error(error)
                if error.reason is ClientFault.BAD_ENDPOINT:
                    nursery.cancel_scope.cancel()
                race.is_name_lost = True
                return
            finally:
                named.set()
            addresses = sorted(found, key=lambda address: address != last)
            if race.is_last_tried and last in addresses:
                addresses.remove(last)
            race.is_last_tried = True
            if addresses:
                await race.run(self._connect_in_turn(place, addresses, seconds, failed), nursery.cancel_scope)

        async def by_last() -> None:
            with trio.move_on_after(min(NAMES_S, seconds * NAMES_SHARE)):
                await named.wait()
            if race.is_last_tried or (named.is_set() and not race.is_name_lost):
                return
            race.is_last_tried = True
            await race.run(self._connect(place, last), nursery.cancel_scope)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(by_name)
                nursery.start_soon(by_last)
        except BaseException:
            await race.let_go()
            raise
        return race.outcome()

    async def _connect_in_turn(
        self, place: Endpoint, addresses: list[str], seconds: float, failed: "_Failed"
    ) -> Connected:
        told = failed.with_error(_too_late(place))
        for address in addresses:
            try:
                with trio.move_on_after(seconds / len(addresses)):
                    return await self._connect(place, address)
            except ClientError as error:
                told = failed.with_error(error)
        raise told

    async def _connect(self, endpoint: Endpoint, address: str) -> Connected:
        try:
            raw = await trio.open_tcp_stream(address, endpoint.port)
        except OSError as error:
            raise ClientError(ClientFault.CONNECT_FAILED, f"{endpoint} at {address}: {alert_of(error)}") from error
        stream = TlsStream(raw, self._context, endpoint.host)
        try:
            await stream.do_handshake()
            server = self._judge(stream.peer_certificate() or b"")
        except trio.BrokenResourceError as error:
            await trio.aclose_forcefully(stream)
            raise self._failure(endpoint, error) from error
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        self._addresses.note(endpoint, address)
        return Connected(stream, endpoint.authority, server)

    def _judge(self, der: bytes) -> str:
        shown = fingerprint(der)
        if shown == self._own:
            raise ClientError(ClientFault.PEER_PIN_MISMATCH, "the server showed our own certificate")
        if self._pins and shown not in self._pins:
            raise ClientError(self._stranger, f"the server showed {shown}")
        return shown

    def _failure(self, endpoint: Endpoint, error: BaseException) -> ClientError:
        if self._pins and isinstance(error.__cause__, ssl.SSLCertVerificationError):
            return ClientError(self._stranger, f"{endpoint} showed another certificate than its own")
        if is_of_unknown_authority(error):
            return ClientError(self._stranger, f"{endpoint}: {alert_of(error)}")
        fault = ClientFault.TLS_FAILED if is_tls(error) else ClientFault.CONNECT_FAILED
        return ClientError(fault, f"{endpoint}: {alert_of(error)}")


async def _resolve(endpoint: Endpoint) -> list[str]:
    try:
        return await endpoint.resolve()
    except BadEndpointError as error:
        raise ClientError(ClientFault.BAD_ENDPOINT, str(error)) from error
    except OSError as error:
        raise ClientError(ClientFault.CONNECT_FAILED, f"{endpoint.host}: {error}") from error


def _too_late(place: Endpoint) -> ClientError:
    return ClientError(ClientFault.TIMED_OUT, f"no connection to {place} in time")


@dataclass(slots=True)
class _Failed:
    """The failure of several that is told: what a certificate was judged to be before who was not reached at all, since
    something can be done about it (agent/update/second_look.py); of equals the last.
    """

    told: ClientError | None = None

    def with_error(self, error: ClientError) -> ClientError:
        """What is told now that there is this one as well."""
        if self.told is None or _TOLD_FIRST.get(error.reason, 0) >= _TOLD_FIRST.get(self.told.reason, 0):
            self.told = error
        return self.told


@dataclass(slots=True)
class _Race:
    """Attempts side by side, of which the first that succeeds is kept."""

    failed: _Failed
    winner: Connected | None = None
    is_last_tried: bool = False
    is_name_lost: bool = False

    async def run(self, attempt: Awaitable[Connected], others: trio.CancelScope) -> None:
        try:
            connected = await attempt
        except ClientError as error:
            self.failed.with_error(error)
            return
        if self.winner is not None:
            await trio.aclose_forcefully(connected.stream)
            return
        self.winner = connected
        others.cancel()

    def outcome(self) -> Connected:
        if self.winner is not None:
            return self.winner
        assert self.failed.told is not None  # noqa: S101 - each attempt has failed
        raise self.failed.told

    async def let_go(self) -> None:
        if self.winner is not None:
            await trio.aclose_forcefully(self.winner.stream)


class UnixConnector:
    """To a socket of this machine: an agent's, or a coordinator's admin socket."""

    async def connect(self, place: Path, seconds: float) -> Connected:
        with trio.move_on_after(seconds):
            try:
                return Connected(await trio.open_unix_socket(place), LOCAL_HOST)
            except OSError as error:
                raise ClientError(ClientFault.CONNECT_FAILED, f"{place}: {error.strerror}") from error
        raise ClientError(ClientFault.TIMED_OUT, f"{place} does not take connections")


async def _end(lines: Iterable[KeptConnection]) -> None:
    """All of them, also where it is cancelled meanwhile: nothing here waits for the other end."""
    with trio.CancelScope(shield=True):
        for line in lines:
            await trio.aclose_forcefully(line.stream)


async def _begin(line: KeptConnection, call: Call) -> None:
    try:
        await line.exchange.begin(call)
    except BaseException:
        await trio.aclose_forcefully(line.stream)
        raise


async def _refusal_in(exchange: Exchange) -> ClientError | None:
    """`refused` for an error answer. What its body says is bounded, and may be nonsense (rules P6)."""
    if 200 <= exchange.status < 300 or exchange.status == 304:
        return None
    error = ErrorBody.from_answer(await _error_body(exchange))
    return ClientError(
        ClientFault.REFUSED,
        f"{exchange.status} {error.code} {error.message}".strip(),
        status=exchange.status,
        code=error.code,
        step=error.step,
        remedy=error.remedy or "",
        retry_after_s=retry_after_s(exchange.headers),
    )


async def _error_body(exchange: Exchange) -> bytes:
    body = b""
    with contextlib.suppress(ClientError):
        async for piece in exchange.chunks():
            body += piece
            if len(body) > ERROR_BYTES:
                break
    return body

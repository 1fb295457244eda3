"""What the tests of wire/ share: certificates in files, servers that run for a block, raw conversations."""

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import trio

from wire.certificate import KeyPair, issue_server, make_authority, make_identity
from wire.limits import LOCAL, REMOTE, ListenerLimits
from wire.peer import PinState
from wire.pins import PinTable
from wire.request import Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.shedding import Gate
from wire.tls import PinnedTransport
from wire.tls_contexts import TlsIdentity
from wire.unix import HOSTS, UnixTransport, unix_listener

NOW = 1_800_000_000.0
LIMITS = replace(LOCAL, connections_each=64)
EVERYONE = frozenset(PinState)
# Long expired, to show that dates do not matter; and valid today, whatever today is.
ALWAYS = (946_684_800.0, 100 * 365 * 86400.0)


def write(folder: Path, name: str, pair: KeyPair) -> TlsIdentity:
    identity = TlsIdentity(folder / f"{name}.crt", folder / f"{name}.key")
    identity.certificate.write_bytes(pair.certificate_pem)
    identity.key.write_bytes(pair.key_pem)
    return identity


def node(folder: Path, name: str) -> tuple[TlsIdentity, bytes]:
    """A node's identity in files, and its certificate's DER."""
    pair = make_identity(name, ALWAYS[0], lifetime_s=ALWAYS[1])
    return write(folder, name, pair), pair.der


def authority(name: str) -> KeyPair:
    return make_authority(name, ALWAYS[0], lifetime_s=ALWAYS[1])


def issued(by: KeyPair, *hosts: str) -> KeyPair:
    """A server's certificate, of an authority or of whoever takes itself for one."""
    return issue_server(by, hosts, ALWAYS[0], lifetime_s=ALWAYS[1])


def text(words: str) -> Callable[[Request], Awaitable[Response]]:
    async def handler(request: Request) -> Response:
        return Response(200, [("content-type", "text/plain")], words.encode())

    return handler


async def whoami(request: Request) -> Response:
    return Response.json({"peer": request.peer.name, "parameters": request.parameters})


async def echo(request: Request) -> Response:
    return Response(200, (), await request.body())


async def boom(request: Request) -> Response:
    raise FileNotFoundError("of the handler's own")


class LongPoll:
    """A handler that waits for `news`, and remembers what became of its callers."""

    def __init__(self) -> None:
        self.news = trio.Event()
        self.waiting = 0
        self.cancelled = 0
        self.changed = trio.Event()

    async def __call__(self, request: Request) -> Response:
        self._change(1)
        try:
            with request.waiting():
                await self.news.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        finally:
            self._change(-1)
        return Response(200, (), b"news")

    def _change(self, by: int) -> None:
        self.waiting += by
        self.changed.set()
        self.changed = trio.Event()

    async def until(self, waiting: int) -> None:
        """Within less than the deadline of a request, which would end a wait, too."""
        with trio.fail_after(12):
            while self.waiting != waiting:
                await self.changed.wait()


def get(path: str, handler: Callable[[Request], Awaitable[Response]], **more: object) -> HttpRoute:
    return HttpRoute("GET", path, handler, **more)  # type: ignore[arg-type]


ROUTES = (
    get("/", text("root")),
    get("/whoami", whoami),
    get("/items/{name}", whoami),
    get("/boom", boom),
    HttpRoute("POST", "/echo", echo),
    HttpRoute("POST", "/unread", text("unread")),
)


@asynccontextmanager
async def running(server: Server, listener: trio.abc.Listener[trio.SocketStream]) -> AsyncIterator[Server]:
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def unix_server(
    folder: Path,
    *routes: HttpRoute,
    limits: ListenerLimits = LIMITS,
    gate: Gate | None = None,
    hosts: frozenset[str] | None = HOSTS,
    first: frozenset[int] = frozenset({0}),
) -> AsyncIterator[tuple[Server, Path]]:
    path = folder / "s.sock"
    server = Server("test", Routes(*ROUTES, *routes), UnixTransport(), limits, gate=gate, hosts=hosts, first=first)
    with unix_listener(path) as listener:
        async with running(server, listener):
            yield server, path


async def tcp_listener() -> tuple[trio.SocketListener, int]:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    return listener, listener.socket.getsockname()[1]


@asynccontextmanager
async def pinned_server(
    folder: Path, table: PinTable, *routes: HttpRoute, limits: ListenerLimits = REMOTE, **more: int
) -> AsyncIterator[tuple[Server, int, bytes]]:
    """A listener with pinned client certificates: the server, its port, and its certificate's DER."""
    identity, der = node(folder, "server")
    server = Server("test", Routes(*ROUTES, *routes), PinnedTransport(table, identity.read(), limits, **more), limits)
    listener, port = await tcp_listener()
    async with running(server, listener):
        yield server, port, der


def head(path: str = "/", method: str = "GET", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    with trio.fail_after(60):
        try:
            while piece := await stream.receive_some(65536):
                data += piece
        except trio.BrokenResourceError:
            pass
    return data


async def talk(path: Path, data: bytes) -> bytes:
    """Everything that the server says to these bytes, until it closes."""
    async with await trio.open_unix_socket(path) as stream:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_send, stream, data)
            answer = await read_all(stream)
            nursery.cancel_scope.cancel()
        return answer


async def once(path: Path, data: bytes) -> bytes:
    """One answer to one request that asks to close."""
    return await talk(path, data.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))


async def _send(stream: trio.abc.SendStream, data: bytes) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.send_all(data)


def plain_client(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    """A client that is not ours, blocking."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=60)
    return context.wrap_socket(raw, server_hostname="server")

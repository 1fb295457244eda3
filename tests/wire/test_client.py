"""The strict client, against our own server over real TLS and against scripted ones that misbehave."""

import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from tests.wire.lab import (
    LongPoll,
    authority,
    echo,
    get,
    issued,
    node,
    pinned_server,
    text,
    unix_server,
    whoami,
    write,
)
from tests.world import elapsed
from wire.certificate import fingerprint
from wire.client import Call, ClientError, ClientFault, Connected, HttpClient, HttpsConnector, UnixConnector
from wire.endpoint import Endpoint, path
from wire.limits import REMOTE
from wire.pins import PinTable
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import ServerAuthTransport
from wire.tls_contexts import EmptyTrustError, TlsIdentity, pinned_context, server_context
from wire.tls_stream import RECORD_BYTES

Script = Callable[[trio.abc.Stream], Awaitable[None]]


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0.05)


async def failure(request: Awaitable[object]) -> ClientError:
    with pytest.raises(ClientError) as caught:
        await request
    return caught.value


def local(port: int) -> Endpoint:
    return Endpoint("127.0.0.1", port, configured=True)


def authority_and_server(folder: Path, hosts: tuple[str, ...] = ("127.0.0.1", "localhost")) -> tuple[Path, TlsIdentity]:
    ours = authority("holdfast")
    (folder / "ca.crt").write_bytes(ours.certificate_pem)
    return folder / "ca.crt", write(folder, "server", issued(ours, *hosts))


@asynccontextmanager
async def coordinator(folder: Path, *routes: HttpRoute) -> AsyncIterator[tuple[Server, int, HttpClient[Endpoint]]]:
    ca, identity = authority_and_server(folder)
    server = Server("join", Routes(*routes), ServerAuthTransport(identity.read(), REMOTE), REMOTE)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    client = HttpClient(HttpsConnector.to_authority(ca))
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        yield server, listener.socket.getsockname()[1], client
        await client.aclose()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def scripted(folder: Path, script: Script) -> AsyncIterator[tuple[HttpClient[Path], Path]]:
    """A server on a Unix socket that says what `script` says after it has read a request's head."""

    async def one(stream: trio.SocketStream) -> None:
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = await stream.receive_some(65536)
                if not piece:
                    return
                head += piece
            await script(stream)
        except trio.BrokenResourceError:
            pass

    raw = trio.socket.socket(trio.socket.AF_UNIX)
    await raw.bind(str(folder / "scripted"))
    raw.listen()
    client = HttpClient(UnixConnector())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, one, [trio.SocketListener(raw)])
        yield client, folder / "scripted"
        await client.aclose()
        nursery.cancel_scope.cancel()


def says(answer: bytes) -> Script:
    async def script(stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)

    return script


def says_and_stays(answer: bytes) -> Script:
    async def script(stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)
        await trio.sleep_forever()

    return script


GET = Call("GET", "/")


async def test_an_answer_and_who_gave_it(tmp_path: Path) -> None:
    """rules K15: over a chain to the configured CA; a join names the certificate that the server showed."""
    async with coordinator(tmp_path, get("/whoami", whoami)) as (server, port, client):
        answer = await client.fetch(local(port), Call("GET", "/whoami"))
        assert json.loads(answer.body)["peer"] == "address:127.0.0.1"
        shown = ssl.PEM_cert_to_DER_cert((tmp_path / "server.crt").read_text())
        assert answer.server == fingerprint(shown)
        await client.fetch(local(port), Call("GET", "/whoami"))
        assert server.statistics().accepted == 1  # the connection was kept


async def test_an_answer_that_refuses_leaves_the_connection(tmp_path: Path) -> None:
    """threats N10: an increment that is not there is asked for at each change, and costs no handshake; a body that is
    not to be read on does.
    """

    async def refuse(request: Request) -> Response:
        raise HttpError(404, "not_found", "x" * request.query_integer("size", 0, 0, 1 << 20))

    async with coordinator(tmp_path, HttpRoute("GET", "/refused", refuse), HttpRoute("GET", "/who", whoami)) as (
        server,
        port,
        client,
    ):
        for _ in range(3):
            error = await failure(client.fetch(local(port), Call("GET", "/refused")))
            assert (error.status, error.code) == (404, "not_found")
            assert (await client.fetch(local(port), Call("GET", "/who"))).status == 200
        assert server.statistics().accepted == 1
        await failure(client.fetch(local(port), Call("GET", path("refused", size=1 << 20))))
        assert (await client.fetch(local(port), Call("GET", "/who"))).status == 200
        assert server.statistics().accepted == 2


@pytest.mark.parametrize(
    ("answer", "is_kept"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", True),
        (b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}{}", False),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlies", False),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}", False),
        (b"HTTP/1.0 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", False),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300_000, False),
        (b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 9\r\n\r\n{}", False),
    ],
)
async def test_what_follows_a_refusal_is_no_answer_to_the_next_request(
    tmp_path: Path, answer: bytes, is_kept: bool, autojump_clock: MockClock
) -> None:
    """threats D-46: a connection is kept where the refusal is over, and nothing lies behind it."""
    opened: list[trio.abc.Stream] = []

    async def one(stream: trio.SocketStream) -> None:
        opened.append(stream)
        said = [answer, b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntrue"][len(opened) - 1 :]
        with suppress(trio.BrokenResourceError):
            while b"\r\n\r\n" in await stream.receive_some(65536):
                await stream.send_all(said.pop(0))

    raw = trio.socket.socket(trio.socket.AF_UNIX)
    await raw.bind(str(tmp_path / "scripted"))
    raw.listen()
    client = HttpClient(UnixConnector())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, one, [trio.SocketListener(raw)])
        assert (await failure(client.fetch(tmp_path / "scripted", GET))).status == 404
        assert (await client.fetch(tmp_path / "scripted", GET)).body == b"true"
        assert len(opened) == (1 if is_kept else 2)
        await client.aclose()
        nursery.cancel_scope.cancel()


async def test_a_large_body_comes_in_large_pieces(tmp_path: Path) -> None:
    """Each costs a turn of the event loop: of many records that have come at once is made one."""
    body = bytes(range(256)) * 8192

    async def large(_: Request) -> Response:
        return Response(200, body=body)

    async with coordinator(tmp_path, HttpRoute("GET", "/large", large)) as (_, port, client):
        call = Call("GET", "/large", limit=len(body))
        async with client.stream(local(port), call) as answer:
            pieces = [piece async for piece in answer.chunks()]
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) > 4 * RECORD_BYTES


async def test_nothing_is_sent_to_a_server_of_another_authority(tmp_path: Path) -> None:
    """rules K15, threats J14, D-30: on a bad chain no byte of the token leaves."""
    _, identity = authority_and_server(tmp_path)
    other = authority("holdfast")
    (tmp_path / "other.crt").write_bytes(other.certificate_pem)
    received = b""

    async def listen(raw: trio.SocketStream) -> None:
        nonlocal received
        stream = trio.SSLStream(raw, server_context(identity.read()), server_side=True)
        with pytest.raises(trio.BrokenResourceError):
            received += await stream.receive_some(4096)
        await trio.aclose_forcefully(stream)

    async with trio.open_nursery() as nursery:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        nursery.start_soon(trio.serve_listeners, listen, [listener])
        client = HttpClient(HttpsConnector.to_authority(tmp_path / "other.crt"))
        call = Call("POST", "/v1/join", [("authorization", "Bearer secret")], b"{}")
        error = await failure(client.fetch(local(listener.socket.getsockname()[1]), call))
        assert error.reason is ClientFault.UNKNOWN_CA
        assert "issuer" in error.detail or "self" in error.detail
        nursery.cancel_scope.cancel()
    assert received == b""


async def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    """rules K15."""
    ca, identity = authority_and_server(tmp_path, hosts=("coordinator.example",))
    server = Server("join", Routes(), ServerAuthTransport(identity.read(), REMOTE), REMOTE)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        client = HttpClient(HttpsConnector.to_authority(ca))
        error = await failure(client.fetch(local(listener.socket.getsockname()[1]), GET))
        assert error.reason is ClientFault.TLS_FAILED
        assert "mismatch" in error.detail.lower()
        nursery.cancel_scope.cancel()


async def test_a_refused_client_certificate_means_not_sent(tmp_path: Path) -> None:
    """threats M06, fact 14, D-50: under TLS 1.3 the refusal comes after our first write, and its alert is told."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    async with pinned_server(tmp_path, table, HttpRoute("POST", "/e", echo)) as (server, port, der):
        client = HttpClient(HttpsConnector.to_node([der], alice))
        error = await failure(client.fetch(local(port), Call("POST", "/e", body=b"x")))
        assert error.reason is ClientFault.TLS_FAILED
        assert "unknown ca" in error.detail
        assert server.statistics().answered == 0
        table.add(alice_der, "alice")
        assert (await client.fetch(local(port), Call("POST", "/e", body=b"x"))).body == b"x"
        await client.aclose()


async def test_another_nodes_pin_is_a_mismatch(tmp_path: Path) -> None:
    """rules P20, threats D-31: a pin is good for its own node only."""
    alice, alice_der = node(tmp_path, "alice")
    _, bob_der = node(tmp_path, "bob")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (server, port, _):
        client = HttpClient(HttpsConnector.to_node([bob_der], alice))
        error = await failure(client.fetch(local(port), GET))
        assert error.reason is ClientFault.PEER_PIN_MISMATCH
        assert server.statistics().answered == 0


async def test_a_server_with_our_own_certificate_is_refused(tmp_path: Path) -> None:
    """threats M04."""
    identity, der = node(tmp_path, "alice")
    server = Server("node", Routes(get("/", text("root"))), ServerAuthTransport(identity.read(), REMOTE), REMOTE)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        client = HttpClient(HttpsConnector.to_node([der], identity))
        error = await failure(client.fetch(local(listener.socket.getsockname()[1]), GET))
        assert error.reason is ClientFault.PEER_PIN_MISMATCH
        assert server.statistics().answered == 0
        nursery.cancel_scope.cancel()


def test_without_a_pin_there_is_no_context(tmp_path: Path) -> None:
    """threats M12, D-49: the host check is off only where there is a pin."""
    identity, _ = node(tmp_path, "alice")
    with pytest.raises(EmptyTrustError):
        pinned_context([], identity)


async def test_the_environment_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """threats N06: proxies, netrc and certificate files of the environment are ignored."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nothing"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))

    async def headers(request: Request) -> Response:
        return Response.json({"authorization": request.header("authorization")})

    async with coordinator(tmp_path, get("/h", headers)) as (_, port, client):
        answer = await client.fetch(local(port), Call("GET", "/h"))
        assert json.loads(answer.body) == {"authorization": None}


async def test_the_systems_authorities_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules K15: the configured CA file alone, whatever SSL_CERT_FILE names."""
    authority_and_server(tmp_path)
    other = authority("other")
    (tmp_path / "other.crt").write_bytes(other.certificate_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    identity = TlsIdentity(tmp_path / "server.crt", tmp_path / "server.key")
    server = Server("join", Routes(), ServerAuthTransport(identity.read(), REMOTE), REMOTE)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listener)
        client = HttpClient(HttpsConnector.to_authority(tmp_path / "other.crt"))
        error = await failure(client.fetch(local(listener.socket.getsockname()[1]), GET))
        assert error.reason is ClientFault.UNKNOWN_CA
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 304, 300])
async def test_redirects_are_failures(tmp_path: Path, status: int) -> None:
    """threats D-32."""
    answer = b"HTTP/1.1 %d Moved\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n" % status
    async with scripted(tmp_path, says(answer)) as (client, place):
        error = await failure(client.fetch(place, GET))
        assert (error.reason, error.status) == (ClientFault.REDIRECTED, status)


async def test_not_modified_is_an_answer_where_it_was_asked_for(tmp_path: Path) -> None:
    async with scripted(tmp_path, says(b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n")) as (client, place):
        answer = await client.fetch(place, Call("GET", "/", [("if-none-match", "x")]))
        assert (answer.status, answer.body) == (304, b"")


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"zstd", b"identity, gzip"])
async def test_compressed_answers_are_failures(tmp_path: Path, encoding: bytes) -> None:
    """threats D-32, E02: nothing is ever inflated."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: " + encoding + b"\r\ncontent-length: 3\r\n\r\nabc"
    async with scripted(tmp_path, says(answer)) as (client, place):
        assert (await failure(client.fetch(place, GET))).reason is ClientFault.ENCODED


async def test_who_is_cancelled_while_it_closes_has_closed_all(tmp_path: Path) -> None:
    """Each kept connection, not the first of them alone."""
    async with scripted(tmp_path, says(b"HTTP/1.1 204 No Content\r\n\r\n")) as (client, place):
        async with client.stream(place, GET) as one, client.stream(place, GET) as another:
            assert [piece for answer in (one, another) async for piece in answer.chunks()] == []
        kept = [line.stream for lines in client._kept.values() for line in lines]
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.aclose()
        assert [stream.socket.fileno() for stream in kept] == [-1, -1]


async def test_no_compression_is_asked_for(tmp_path: Path) -> None:
    async def header(request: Request) -> Response:
        return Response.json({"accepts": request.header("accept-encoding")})

    async with unix_server(tmp_path, get("/accepts", header)) as (_, place):
        client = HttpClient(UnixConnector())
        assert json.loads((await client.fetch(place, Call("GET", "/accepts"))).body) == {"accepts": "identity"}
        await client.aclose()


async def test_sizes(tmp_path: Path) -> None:
    """threats D-46, E01, rules S8: too much is not read, whether announced or met; too little is a failure."""
    announced = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n"
    async with scripted(tmp_path, says_and_stays(announced)) as (client, place):
        assert (await failure(client.fetch(place, GET))).reason is ClientFault.TOO_LARGE


async def test_an_endless_body(tmp_path: Path) -> None:
    """threats E01: `too_large` while reading, and the connection is closed."""
    closed = trio.Event()

    async def endless(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        try:
            while True:
                await stream.send_all(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        except trio.BrokenResourceError:
            closed.set()

    async with scripted(tmp_path, endless) as (client, place):
        received = 0
        with pytest.raises(ClientError) as caught:
            async with client.stream(place, Call("GET", "/", limit=100_000)) as answer:
                async for piece in answer.chunks():
                    received += len(piece)
        assert caught.value.reason is ClientFault.TOO_LARGE
        assert received <= 100_000
        with trio.fail_after(30):
            await closed.wait()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\nx",
    ],
)
async def test_fewer_bytes_than_announced(tmp_path: Path, answer: bytes) -> None:
    """threats D-46; rules P6."""
    async with scripted(tmp_path, says(answer)) as (client, place):
        assert (await failure(client.fetch(place, GET))).reason is ClientFault.TRUNCATED


async def test_more_bytes_than_announced_are_not_read(tmp_path: Path) -> None:
    """threats D-46: the connection is closed, and nothing of it is taken for another answer."""
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil"
    async with scripted(tmp_path, says(answer)) as (client, place):
        assert (await client.fetch(place, GET)).body == b"abc"
        assert (await client.fetch(place, GET)).body == b"abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 100,
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;" + b"x" * 100_000 + b"\r\nabc\r\n0\r\n\r\n",
    ],
)
async def test_answers_that_are_none(tmp_path: Path, answer: bytes) -> None:
    """rules P6, threats N07: huge headers, a flood of 1xx, chunk extensions without end."""
    async with scripted(tmp_path, says_and_stays(answer)) as (client, place):
        assert (await failure(client.fetch(place, GET))).reason is ClientFault.BAD_ANSWER


async def test_a_refusal_has_its_code(tmp_path: Path) -> None:
    """threats N10: status, code and Retry-After for who decides when to come again."""

    async def busy(request: Request) -> Response:
        raise HttpError(503, "not_ready", "later", retry_after=7)

    async with unix_server(tmp_path, get("/busy", busy)) as (_, place):
        client = HttpClient(UnixConnector())
        error = await failure(client.fetch(place, Call("GET", "/busy")))
        assert (error.reason, error.status, error.code) == (ClientFault.REFUSED, 503, "not_ready")
        assert error.retry_after_s == 7
        assert (await client.fetch(place, GET)).body == b"root"
        await client.aclose()


async def test_a_refusal_says_step_and_remedy(tmp_path: Path) -> None:
    """rules P10: what the server's form carries, the client's gives; of others it takes what it knows."""

    async def judged(request: Request) -> Response:
        raise HttpError(422, "wrong_cluster", "elsewhere", step=2, remedy="correct the cluster id")

    async def listed(request: Request) -> Response:
        problems = [{"file": f"{number}.yaml"} for number in range(9_000)]
        return Response.json({"code": "invalid_resources", "message": "many", "problems": problems, "new": 1}, 422)

    async with unix_server(tmp_path, get("/judged", judged), get("/listed", listed)) as (_, place):
        client = HttpClient(UnixConnector())
        error = await failure(client.fetch(place, Call("GET", "/judged")))
        assert (error.status, error.code, error.step, error.remedy) == (
            422, "wrong_cluster", 2, "correct the cluster id",
        )  # fmt: skip
        error = await failure(client.fetch(place, Call("GET", "/listed")))
        assert (error.code, error.step, error.remedy) == ("invalid_resources", None, "")
        await client.aclose()


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[" * 3000, b'{"code":1}', b"x" * 100_000, b'{"code":"a\\u0000b","message":""}']
)
async def test_a_refusal_without_a_code(tmp_path: Path, body: bytes) -> None:
    """rules P6: whatever an error's body is, the status is told."""
    answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    async with scripted(tmp_path, says(answer)) as (client, place):
        error = await failure(client.fetch(place, GET))
        assert (error.reason, error.status, error.code) == (ClientFault.REFUSED, 404, "")


async def test_no_answer_in_time(tmp_path: Path, autojump_clock: MockClock) -> None:
    """threats D-46, rules P13: first byte within 10 s, and the wait of a long poll on top."""
    async with scripted(tmp_path, says_and_stays(b"")) as (client, place):
        for wait_s, expected in ((0.0, 10.0), (55.0, 65.0)):
            begun = trio.current_time()
            error = await failure(client.fetch(place, Call("GET", "/", wait_s=wait_s)))
            assert error.reason is ClientFault.TIMED_OUT
            assert elapsed.since(begun) == pytest.approx(expected, abs=0.5)


def drips(size: int, every_s: float) -> Script:
    async def script(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n")
        while True:
            await stream.send_all(b"x" * size)
            await trio.sleep(every_s)

    return script


@pytest.mark.parametrize(
    ("size", "every_s", "ends_after_s"),
    [
        (1, 0.5, 10),  # a byte each half second: below the least rate once 10 s are over
        (50_000, 40, 30),  # a rate that would do, but a silence of more than 30 s
        (200_000, 10, 286),  # 20 KB/s: more than the least rate, but 10 MB must be here in proportion
    ],
)
async def test_drips_end(
    tmp_path: Path, autojump_clock: MockClock, size: int, every_s: float, ends_after_s: float
) -> None:
    """threats N01, D-46, fact 18."""
    async with scripted(tmp_path, drips(size, every_s)) as (client, place):
        begun = trio.current_time()
        error = await failure(client.fetch(place, Call("GET", "/", limit=20_000_000)))
        assert error.reason is ClientFault.TOO_SLOW
        assert elapsed.since(begun) == pytest.approx(ends_after_s, abs=2)


async def test_a_cancelled_long_poll_leaves_nothing_behind(tmp_path: Path) -> None:
    """rules P14: what is cancelled is closed at once, and the next request has a connection of its own."""
    poll = LongPoll()
    async with coordinator(tmp_path, get("/poll", poll), get("/", text("root"))) as (server, port, client):
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(client.fetch, local(port), Call("GET", "/poll", wait_s=55))
            await poll.until(waiting=5)
            nursery.cancel_scope.cancel()
        await poll.until(waiting=0)
        with trio.fail_after(30):
            await server.wait_empty()
        assert (await client.fetch(local(port), GET)).body == b"root"


async def test_a_kept_connection_that_was_closed_is_replaced(tmp_path: Path) -> None:
    """threats D-50: closed before the first byte of an answer means not sent."""
    count = 0

    async def once_each(stream: trio.abc.Stream) -> None:
        nonlocal count
        count += 1
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % count)

    async with scripted(tmp_path, once_each) as (client, place):
        assert [(await client.fetch(place, GET)).body for _ in range(3)] == [b"1", b"2", b"3"]


class _Busy(trio.abc.Stream):
    """While it is closed, something else is done."""

    def __init__(self, inner: trio.abc.Stream, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self.inner, self.meanwhile = inner, meanwhile

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self.inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):
            await self.meanwhile()
        await self.inner.aclose()


async def test_a_connection_that_is_put_back_while_others_end_ends_with_them(tmp_path: Path) -> None:
    """As where CAs are exchanged while a document comes."""
    async with coordinator(tmp_path, get("/", text("root"))) as (server, port, client):
        plain, first, second = client._connector, local(port), Endpoint("localhost", port, configured=True)

        class Connector:
            async def connect(self, place: Endpoint, seconds: float) -> Connected:
                connected = await plain.connect(place, seconds)
                if place != first:
                    return connected
                return replace(connected, stream=_Busy(connected.stream, lambda: client.fetch(second, GET)))

        client._connector = Connector()
        await client.fetch(first, GET)
        await client.aclose()
        with trio.fail_after(30):
            await server.wait_empty()


async def test_a_dead_end_is_connect_failed(tmp_path: Path) -> None:
    ca, _ = authority_and_server(tmp_path)
    with socket.socket() as taken:  # so that nobody else comes to listen there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        error = await failure(HttpClient(HttpsConnector.to_authority(ca)).fetch(local(port), GET))
    assert error.reason is ClientFault.CONNECT_FAILED
    assert error.detail.endswith(f"127.0.0.1:{port} at 127.0.0.1: connection refused")
    error = await failure(HttpClient(UnixConnector()).fetch(tmp_path / "missing", GET))
    assert error.reason is ClientFault.CONNECT_FAILED
    assert "No such file" in error.detail


async def test_connecting_has_a_deadline(tmp_path: Path, autojump_clock: MockClock) -> None:
    """threats D-46: 5 s, TLS included."""
    ca, _ = authority_and_server(tmp_path)
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    client = HttpClient(HttpsConnector.to_authority(ca))
    begun = trio.current_time()
    error = await failure(client.fetch(local(listener.socket.getsockname()[1]), GET))
    assert error.reason is ClientFault.TIMED_OUT
    assert elapsed.since(begun) == pytest.approx(5, abs=0.5)
    await listener.aclose()


class Names:
    """DNS as the test says."""

    def __init__(self) -> None:
        self.addresses: list[str] | None = []
        self.asked = 0
        self.hangs = False

    async def __call__(self, host: object, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        self.asked += 1
        if self.hangs:
            await trio.sleep_forever()
        if self.addresses is None:
            raise OSError("no DNS")
        return [(2, 1, 6, "", (address, port)) for address in self.addresses]


async def test_names_are_asked_each_time_and_the_last_working_address_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules K50, P16: DNS at each attempt; without DNS the last working address; a new address is found."""
    names = Names()
    async with coordinator(tmp_path, get("/", text("root"))) as (server, port, client):
        monkeypatch.setattr("wire.endpoint.getaddrinfo", names)
        endpoint = Endpoint("localhost", port, configured=True)
        closing = Call("GET", "/", [("connection", "close")])
        names.addresses = ["127.0.0.1"]
        assert (await client.fetch(endpoint, closing)).status == 200
        names.addresses = None
        assert (await client.fetch(endpoint, closing)).status == 200
        names.addresses = ["127.0.0.2", "127.0.0.1"]
        assert (await client.fetch(endpoint, closing)).status == 200
        assert names.asked == 3
        assert server.statistics().accepted == 3


async def test_names_that_are_not_answered_leave_the_last_working_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules K50: DNS that hangs cuts nobody off who was reached before"""
    names = Names()
    async with coordinator(tmp_path, get("/", text("root"))) as (_, port, client):
        monkeypatch.setattr("wire.endpoint.getaddrinfo", names)
        monkeypatch.setattr("wire.client.NAMES_S", 0.2)
        closing = Call("GET", "/", [("connection", "close")])
        endpoint = Endpoint("localhost", port, configured=True)
        names.addresses = ["127.0.0.1"]
        assert (await client.fetch(endpoint, closing)).status == 200
        names.hangs = True
        assert (await client.fetch(endpoint, closing)).status == 200
        assert names.asked == 2


async def test_a_name_is_resolved_once_and_the_checked_address_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threats N05, D-47: a signed endpoint that leads to loopback, by whatever form, is not connected to."""
    names = Names()
    monkeypatch.setattr("wire.endpoint.getaddrinfo", names)
    async with coordinator(tmp_path, get("/", text("root"))) as (server, port, client):
        for address in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.1.1", "fe80::1", "::", "224.0.0.1"):
            names.addresses = [address]
            error = await failure(client.fetch(Endpoint("storage.example", port), GET))
            assert error.reason is ClientFault.BAD_ENDPOINT
        assert names.asked == 7
        assert server.statistics().accepted == 0


async def test_a_stream_of_a_request_and_an_early_refusal(tmp_path: Path) -> None:
    """An import that is refused half-way is told why, not that the connection broke."""

    async def some(request: Request) -> Response:
        return Response(200, (), str(len(await request.body())).encode())

    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 65536

    async with unix_server(tmp_path, HttpRoute("POST", "/import", some, body_bytes=1 << 20)) as (_, place):
        client = HttpClient(UnixConnector())
        assert (await client.fetch(place, Call("POST", "/import", body=pieces(10)))).body == b"655360"
        error = await failure(client.fetch(place, Call("POST", "/import", body=pieces(1000))))
        assert (error.reason, error.code) == (ClientFault.REFUSED, "too_large")
        await client.aclose()


async def test_a_body_that_is_too_large_is_told_so_over_tls(tmp_path: Path) -> None:
    """The server answers and closes while most of the body is on its way: that is no lost connection."""

    async def taken(request: Request) -> Response:
        return Response(200, (), str(len(await request.body())).encode())

    route = HttpRoute("POST", "/v1/apply", taken, body_bytes=1 << 20)
    async with coordinator(tmp_path, route) as (_, port, client):
        whole = Call("POST", "/v1/apply", body=b"x" * (1 << 20))
        assert (await client.fetch(local(port), whole)).body == b"1048576"
        for size in ((1 << 20) + 1, 32 << 20):  # over the connection that was kept, and over a new one
            error = await failure(client.fetch(local(port), Call("POST", "/v1/apply", body=b"x" * size)))
            assert (error.reason, error.status, error.code) == (ClientFault.REFUSED, 413, "too_large")


async def test_a_body_that_is_too_large_is_told_so_over_a_socket(tmp_path: Path) -> None:
    async def taken(request: Request) -> Response:
        return Response(200, (), str(len(await request.body())).encode())

    async with unix_server(tmp_path, HttpRoute("POST", "/v1/apply", taken, body_bytes=1 << 20)) as (_, place):
        client = HttpClient(UnixConnector())
        assert (await client.fetch(place, Call("POST", "/v1/apply", body=b"x" * 1000))).body == b"1000"
        for size in ((1 << 20) + 1, 32 << 20):
            error = await failure(client.fetch(place, Call("POST", "/v1/apply", body=b"x" * size)))
            assert (error.reason, error.status, error.code) == (ClientFault.REFUSED, 413, "too_large")
        await client.aclose()


async def test_a_document_streams(tmp_path: Path) -> None:
    async def document(request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(64):
                yield b"x" * 65536

        return Response(200, [("content-length", str(64 * 65536))], pieces())

    async with coordinator(tmp_path, get("/v1/documents/{id}", document)) as (_, port, client):
        call = Call("GET", path("v1", "documents", "a/../b"), limit=8 << 20)
        async with client.stream(local(port), call) as answer:
            assert answer.announced == 64 * 65536
            assert sum([len(piece) async for piece in answer.chunks()]) == 64 * 65536

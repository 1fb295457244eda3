"""Each end of TLS, against trio's own as the other, over real sockets."""

import os
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.wire.lab import node, tcp_listener
from wire.tls_contexts import (
    SYSTEM_ROOTS,
    authority_context,
    is_tls,
    pinned_context,
    pinned_server_context,
    public_context,
    server_context,
    unchecked_context,
)
from wire.tls_stream import TURN_BYTES, TURN_READS, TlsStream

Client = trio.SSLStream


@asynccontextmanager
async def pair(folder: Path) -> AsyncIterator[tuple[TlsStream, Client]]:
    """Both ends, after their handshake."""
    identity, _ = node(folder, "server")
    listener, port = await tcp_listener()
    async with listener:
        there = await trio.open_tcp_stream("127.0.0.1", port)
        server = TlsStream(await listener.accept(), server_context(identity.read()))
    client = trio.SSLStream(there, unchecked_context(), server_hostname="localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.do_handshake)
        nursery.start_soon(client.do_handshake)
    try:
        yield server, client
    finally:
        await trio.aclose_forcefully(server)
        await trio.aclose_forcefully(client)


@asynccontextmanager
async def client_pair(folder: Path) -> AsyncIterator[tuple[TlsStream, Client]]:
    """Our client, and trio's server, after their handshake."""
    identity, _ = node(folder, "server")
    listener, port = await tcp_listener()
    async with listener:
        there = await trio.open_tcp_stream("127.0.0.1", port)
        server = trio.SSLStream(await listener.accept(), server_context(identity.read()), server_side=True)
    client = TlsStream(there, unchecked_context(), "localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.do_handshake)
        nursery.start_soon(client.do_handshake)
    try:
        yield client, server
    finally:
        await trio.aclose_forcefully(client)
        await trio.aclose_forcefully(server)


async def received(take: Callable[[], object], size: int) -> bytes:
    found = b""
    while len(found) < size and (piece := await take()):
        found += piece
    return found


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 100_000), max_size=6), st.integers(1, 70_000))
def test_what_is_sent_arrives_whole_and_in_order(tmp_path: Path, sizes: list[int], most: int) -> None:
    async def main() -> None:
        said = [bytes([number]) * size for number, size in enumerate(sizes)]
        async with pair(tmp_path) as (server, client), trio.open_nursery() as nursery:
            nursery.start_soon(_send_all, client, said)
            assert await received(lambda: server.receive_some(most), sum(sizes)) == b"".join(said)
            nursery.start_soon(_send_all, server, said)
            assert await received(client.receive_some, sum(sizes)) == b"".join(said)

    trio.run(main)


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 100_000), max_size=6), st.integers(1, 300_000))
def test_a_client_reads_and_writes_at_once(tmp_path: Path, sizes: list[int], most: int) -> None:
    """One task each, as a large request and the answer that comes before its end."""

    async def main() -> None:
        said = [bytes([number]) * size for number, size in enumerate(sizes)]
        async with client_pair(tmp_path) as (client, server), trio.open_nursery() as nursery:
            for stream in (client, server):
                nursery.start_soon(_send_all, stream, said)
            found: list[bytes] = []

            async def listen() -> None:
                found.append(await received(server.receive_some, sum(sizes)))

            nursery.start_soon(listen)
            assert await received(lambda: client.receive_some(most), sum(sizes)) == b"".join(said)
        assert found == [b"".join(said)]

    trio.run(main)


async def test_what_is_wrong_behind_good_records_is_told_after_them(tmp_path: Path) -> None:
    """threats D-46: what came whole is handed out, and then why no more comes."""
    async with client_pair(tmp_path) as (client, server):
        await server.send_all(b"x" * 40_000)
        await server.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        await trio.testing.wait_all_tasks_blocked()
        read = b""
        with pytest.raises(trio.BrokenResourceError) as broken:
            while True:
                read += await client.receive_some(1 << 20)
        assert read == b"x" * 40_000
        assert isinstance(broken.value.__cause__, ssl.SSLError)
        with pytest.raises(trio.ClosedResourceError):
            await client.receive_some(1 << 20)


async def test_a_server_that_ends_is_told_from_one_that_is_cut_off(tmp_path: Path) -> None:
    """threats D-46"""
    async with client_pair(tmp_path) as (client, server):
        await server.send_all(b"last")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.aclose)
            assert await received(lambda: client.receive_some(1 << 20), 5) == b"last"
            await client.aclose()
    async with client_pair(tmp_path) as (client, server):
        await server.send_all(b"first")
        await trio.aclose_forcefully(server.transport_stream)
        assert await client.receive_some(1 << 20) == b"first"
        with pytest.raises(trio.BrokenResourceError) as cut:
            await client.receive_some(1 << 20)
        assert not is_tls(cut.value)  # nobody was refused: the network broke


async def _send_all(stream: trio.abc.SendStream, pieces: list[bytes]) -> None:
    for piece in pieces:
        await stream.send_all(piece)


async def test_the_end_is_said_and_heard(tmp_path: Path) -> None:
    """threats D-46: who reads to the end knows that nothing was cut off."""
    async with pair(tmp_path) as (server, client):
        await server.send_all(b"last")
        await server.aclose()
        assert await client.receive_some() == b"last"
        assert await client.receive_some() == b""
        with pytest.raises(trio.ClosedResourceError):
            await server.send_all(b"more")
        with pytest.raises(trio.ClosedResourceError):
            await server.receive_some()
    async with pair(tmp_path) as (server, client):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.aclose)
            assert await server.receive_some() == b""
            await server.aclose()


def test_no_version_of_python_lets_a_cut_pass_for_an_end(tmp_path: Path) -> None:
    """threats D-46: before 3.11.4 its contexts did, beside OpenSSL 3."""
    identity, der = node(tmp_path, "server")
    shown = identity.read()
    of_servers = (server_context(shown), pinned_server_context(shown, [der]))
    of_clients = (unchecked_context(), authority_context(identity.certificate), pinned_context([der]))
    for context in (*of_servers, *of_clients, public_context(SYSTEM_ROOTS)):
        assert not context.options & ssl.OP_IGNORE_UNEXPECTED_EOF


async def test_an_end_that_is_not_said_is_a_cut(tmp_path: Path) -> None:
    """threats D-46: whoever stands between cannot end a message early."""
    async with pair(tmp_path) as (server, client):
        await client.send_all(b"first")
        assert await server.receive_some() == b"first"
        await trio.aclose_forcefully(client.transport_stream)
        with pytest.raises(trio.BrokenResourceError):
            await server.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await server.receive_some()


async def test_what_is_no_record_breaks_the_stream(tmp_path: Path) -> None:
    async with pair(tmp_path) as (server, client):
        await client.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        with pytest.raises(trio.BrokenResourceError) as broken:
            await server.receive_some()
        assert isinstance(broken.value.__cause__, ssl.SSLError)


async def test_a_record_that_was_cut_by_a_cancellation_ends_the_stream(tmp_path: Path) -> None:
    """rules P7: nothing goes out behind half of a record."""
    async with pair(tmp_path) as (server, _):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(server.send_all, b"x" * (64 << 20))  # more than the kernel takes
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        with pytest.raises(trio.ClosedResourceError):
            await server.send_all(b"more")


async def test_who_waits_is_told_that_the_stream_was_closed(tmp_path: Path) -> None:
    async with pair(tmp_path) as (server, _), trio.open_nursery() as nursery:
        nursery.start_soon(_expect_closed, server)
        await trio.testing.wait_all_tasks_blocked()
        await trio.aclose_forcefully(server)


async def _expect_closed(server: TlsStream) -> None:
    with pytest.raises(trio.ClosedResourceError):
        await server.receive_some()


class Others:
    """What else the loop has to do, counted."""

    def __init__(self) -> None:
        self.turns = 0

    async def take_turns(self) -> None:
        while True:
            self.turns += 1
            await trio.lowlevel.checkpoint()


async def test_an_answer_that_is_out_takes_no_memory(tmp_path: Path) -> None:
    """A fleet's connections hold their next requests for minutes: the last answer of each is not to stay with them."""
    async with pair(tmp_path) as (server, client):
        size = 12_000
        tracemalloc.start()
        try:
            await server.send_all(bytes(size))
            kept = [trace.size for trace in tracemalloc.take_snapshot().traces if trace.size >= size]
        finally:
            tracemalloc.stop()
        assert kept == []
        assert await received(client.receive_some, size) == bytes(size)


async def test_a_long_answer_that_is_taken_at_once_gives_others_their_turn(tmp_path: Path) -> None:
    """rules P10: nothing keeps the loop for itself."""
    others = Others()
    async with pair(tmp_path) as (server, client), trio.open_nursery() as nursery:
        nursery.start_soon(others.take_turns)
        for _ in range(3 * TURN_BYTES // 16_384):
            await server.send_all(b"x" * 16_384)
            _take(client.transport_stream.socket.fileno())
        assert others.turns
        nursery.cancel_scope.cancel()


async def test_records_that_came_together_give_others_their_turn(tmp_path: Path) -> None:
    """rules P10: whoever reads them one by one waits for nothing, since all of them are here."""
    others = Others()
    async with pair(tmp_path) as (server, client), trio.open_nursery() as nursery:
        for _ in range(200):
            await client.send_all(b"x")
        nursery.start_soon(others.take_turns)
        for _ in range(200):
            assert await server.receive_some() == b"x"
        assert others.turns > 150 // TURN_READS
        nursery.cancel_scope.cancel()


async def test_a_read_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    read = 0
    async with pair(tmp_path) as (server, client):
        for _ in range(3 * TURN_READS):
            await client.send_all(b"x")
        with trio.CancelScope() as scope:
            while read < 3 * TURN_READS:
                read += len(await server.receive_some())
                scope.cancel()
        assert scope.cancelled_caught
        while read < 3 * TURN_READS:
            read += len(await server.receive_some())


def _take(descriptor: int) -> None:
    """From the socket alone, at once: the server never waits for it, nor does anybody else."""
    try:
        while os.read(descriptor, 65536):
            pass
    except BlockingIOError:
        return


# ---- what is answered behind the reader's back


@asynccontextmanager
async def asked_again(folder: Path) -> AsyncIterator[tuple[TlsStream, Client]]:
    """Our client, of whom a server asks for a certificate after the handshake, between "first" and "second": to answer
    is up to whoever reads. The client has read "first", and all of it lies here.
    """
    identity, own = node(folder, "server")
    listener, port = await tcp_listener()
    asking, asked = server_context(identity.read()), unchecked_context()
    asking.load_verify_locations(cadata=own)
    asking.verify_mode = ssl.CERT_OPTIONAL
    asking.post_handshake_auth = asked.post_handshake_auth = True
    async with listener:
        there = await trio.open_tcp_stream("127.0.0.1", port)
        server = trio.SSLStream(await listener.accept(), asking, server_side=True)
    client = TlsStream(there, asked, "localhost")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.do_handshake)
        nursery.start_soon(client.do_handshake)
    try:
        await server.send_all(b"first")
        server._ssl_object.verify_client_post_handshake()
        await server.send_all(b"second")
        await server.send_all(b"third")
        await trio.testing.wait_all_tasks_blocked()
        assert await client.receive_some() == b"first"
        yield client, server
    finally:
        await trio.aclose_forcefully(client)
        await trio.aclose_forcefully(server)


class Kernel:
    """It takes `room` more bytes, and then nothing, as where the other end reads nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr("wire.tls_stream.os.write", self._take)

    def _take(self, descriptor: int, data: memoryview) -> int:
        if not self.room:
            raise BlockingIOError
        taken = self._write(descriptor, data[: self.room])
        self.room -= taken
        return taken


async def check_all_is_there(client: TlsStream, server: Client, read: bytes = b"") -> None:
    """What the client reads from here to "third"; then what it says is heard, behind its whole answer."""
    with trio.fail_after(10):
        whole = b"secondthird"
        assert read + await received(client.receive_some, len(whole) - len(read)) == whole
        await client.send_all(b"said")
        assert await server.receive_some() == b"said"


async def test_who_is_cancelled_before_an_answer_loses_nothing(tmp_path: Path) -> None:
    """rules P7: what was read with the question is handed out, at once or to the next who reads."""
    async with asked_again(tmp_path) as (client, server):
        read = b""
        with trio.CancelScope() as scope:
            scope.cancel()
            read = await client.receive_some()
        await check_all_is_there(client, server, read)


@pytest.mark.parametrize("room", [0, 1, 40])
async def test_who_is_cancelled_within_an_answer_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """rules P7: the kernel takes so much of the answer; the rest goes out before anything else does."""
    async with asked_again(tmp_path) as (client, server):
        kernel = Kernel(monkeypatch, room)
        with trio.move_on_after(0.01) as scope:
            await client.receive_some(3)
        assert scope.cancelled_caught and kernel.room == 0
        kernel.room = 1 << 20
        await check_all_is_there(client, server)


async def test_who_is_cancelled_after_an_answer_loses_nothing(tmp_path: Path) -> None:
    """Where so much was sent by then that others are to have their turn."""
    async with asked_again(tmp_path) as (client, server):
        client._sent, read = TURN_BYTES, b""
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel, scope)
                read = await client.receive_some()
        await check_all_is_there(client, server, read)


async def _cancel(scope: trio.CancelScope) -> None:
    scope.cancel()


async def test_what_was_read_before_an_answer_that_breaks_is_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """threats D-46: first what came whole, then why no more comes."""

    def broken(*_: object) -> int:
        raise BrokenPipeError

    async with asked_again(tmp_path) as (client, _):
        monkeypatch.setattr("wire.tls_stream.os.write", broken)
        assert await client.receive_some() == b"second"
        with pytest.raises(trio.BrokenResourceError):
            await client.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await client.receive_some()


async def test_what_is_sent_beside_an_answer_goes_out_though_that_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked_again(tmp_path) as (client, server), trio.open_nursery() as nursery:
        kernel = Kernel(monkeypatch, 7)
        scope, read = trio.CancelScope(), list[bytes]()

        async def listen() -> None:
            with scope:
                read.append(await client.receive_some())

        nursery.start_soon(listen)
        await trio.lowlevel.checkpoint()  # it does not rest: the socket says that it may be written
        nursery.start_soon(client.send_all, b"beside")
        await trio.lowlevel.checkpoint()
        scope.cancel()
        with trio.fail_after(10):
            await trio.lowlevel.checkpoint()
            kernel.room = 1 << 20
            assert await server.receive_some() == b"beside"
            assert not read
            assert await received(client.receive_some, len(b"secondthird")) == b"secondthird"

"""Listeners over TLS 1.3, with clients that are not ours: Python's blocking ssl."""

import contextlib
import json
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.wire.lab import (
    ALWAYS,
    EVERYONE,
    LongPoll,
    authority,
    get,
    head,
    issued,
    node,
    pinned_server,
    plain_client,
    running,
    tcp_listener,
    text,
    whoami,
    write,
)
from tests.world import elapsed
from wire.certificate import KeyPair, fingerprint, make_identity
from wire.limits import REMOTE
from wire.peer import PinState
from wire.pins import PinTable
from wire.request import Request, Response
from wire.routes import Routes
from wire.server import Server
from wire.tls import PinnedTransport, PlainTransport, ServerAuthTransport
from wire.tls_contexts import TlsIdentity, trust


def context(server: bytes, identity: TlsIdentity | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cadata=server)
    made.check_hostname = False
    if identity is not None:
        made.load_cert_chain(identity.certificate, identity.key)
    return made


def ask(port: int, made: ssl.SSLContext, path: str = "/whoami") -> tuple[int, bytes]:
    """Status and body of one request; a failed handshake raises what ssl raises."""
    with plain_client(port, made) as caller:
        caller.sendall(head(path, connection="close"))
        answer = b""
        while piece := caller.recv(65536):
            answer += piece
    if not answer:
        raise ConnectionResetError("closed without an answer")
    start, _, body = answer.partition(b"\r\n\r\n")
    return int(start.split(b" ")[1]), body


async def asked(port: int, made: ssl.SSLContext, path: str = "/whoami") -> tuple[int, bytes]:
    return await trio.to_thread.run_sync(ask, port, made, path)


async def alert(port: int, made: ssl.SSLContext) -> str:
    with pytest.raises(ssl.SSLError) as caught:
        await asked(port, made)
    return str(caught.value.reason)


async def test_requests_that_come_together_give_others_their_turn(tmp_path: Path) -> None:
    """rules P10: who sends many at once, of which each is answered at once, does not keep the loop for itself."""
    identity, alice = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice, "alice")
    answered = longest = 0

    async def count(request: Request) -> Response:
        nonlocal answered
        answered += 1
        return Response(200, (), b"")

    async def others() -> None:
        nonlocal answered, longest
        while True:
            longest, answered = max(longest, answered), 0
            await trio.lowlevel.checkpoint()

    async with pinned_server(tmp_path, table, get("/count", count)) as (_, port, der), trio.open_nursery() as nursery:
        nursery.start_soon(others)
        with await trio.to_thread.run_sync(plain_client, port, context(der, identity)) as caller:
            many = head("/count") * 300
            await trio.to_thread.run_sync(caller.sendall, many + head("/count", connection="close"))
            await trio.to_thread.run_sync(_read_to_the_end, caller)
        nursery.cancel_scope.cancel()
    assert 0 < longest <= 2


def _read_to_the_end(caller: ssl.SSLSocket) -> None:
    while caller.recv(65536):
        pass


async def test_a_pinned_certificate_is_its_node(tmp_path: Path) -> None:
    """rules J3, H-000-3; threats D-31: the certificate alone says who it is, and its pin may come at any time."""
    identity, alice = node(tmp_path, "alice")
    table = PinTable()
    async with pinned_server(tmp_path, table) as (_, port, server):
        made = context(server, identity)
        assert "UNKNOWN_CA" in await alert(port, made)
        table.add(alice, "alice-as-admitted")
        status, body = await asked(port, made)
        assert (status, json.loads(body)["peer"]) == (200, "node:alice-as-admitted")


async def test_nobody_comes_in_without_a_pin(tmp_path: Path) -> None:
    """threats M01, M06; rules J46: an unknown certificate or none, told by an alert; the next good one is served."""
    alice, alice_der = node(tmp_path, "alice")
    mallory, _ = node(tmp_path, "mallory")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (server, port, der):
        assert "UNKNOWN_CA" in await alert(port, context(der, mallory))
        assert "CERTIFICATE_REQUIRED" in await alert(port, context(der))
        with trio.fail_after(30):
            await server.wait_empty()
        assert server.statistics().accepted == 0
        assert server.statistics().handshakes_failed == 2
        assert (await asked(port, context(der, alice)))[0] == 200


async def test_tls_1_2_is_refused(tmp_path: Path) -> None:
    """threats D-30."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (_, port, der):
        old = context(der, alice)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert "PROTOCOL_VERSION" in await alert(port, old)


async def test_a_certificate_that_a_pinned_node_issued_is_refused(tmp_path: Path) -> None:
    """threats M02."""
    alice_pair = make_identity("alice", ALWAYS[0], lifetime_s=ALWAYS[1])
    bob = issued(alice_pair, "bob")
    chain = KeyPair(bob.certificate_pem + alice_pair.certificate_pem, bob.key_pem)
    table = PinTable()
    table.add(alice_pair.der, "alice")
    async with pinned_server(tmp_path, table) as (server, port, der):
        await alert(port, context(der, write(tmp_path, "bob", chain)))
        assert server.statistics().accepted == 0


async def test_the_table_decides_also_where_tls_trusts_more(tmp_path: Path) -> None:
    """threats M02, D-30: what TLS took is compared with the table before the first byte."""
    alice, alice_der = node(tmp_path, "alice")
    identity, der = node(tmp_path, "server")
    transport = PinnedTransport(PinTable(), identity.read(), REMOTE)
    trust(transport._context, [alice_der])
    server = Server("test", Routes(get("/whoami", whoami)), transport, REMOTE)
    listener, port = await tcp_listener()
    async with running(server, listener):
        with contextlib.suppress(OSError):
            status, _ = await asked(port, context(der, alice))
            raise AssertionError(f"served with {status}")
        assert server.statistics().accepted == 0
        assert server.statistics().answered == 0


async def test_dates_do_not_matter_to_a_pin(tmp_path: Path) -> None:
    """threats M05: a node whose certificate has run out, or whose clock is wrong, is not cut off."""
    old = write(tmp_path, "old", pair := make_identity("old", 1_000_000_000.0, lifetime_s=86400))
    table = PinTable()
    table.add(pair.der, "old")
    async with pinned_server(tmp_path, table) as (_, port, der):
        assert (await asked(port, context(der, old)))[0] == 200


async def test_two_certificates_with_one_subject_both_work(tmp_path: Path) -> None:
    """threats M11; rules P13: both pins of a renewal hold."""
    first, first_der = node(tmp_path, "alice")
    second = write(tmp_path, "alice-2", pair := make_identity("alice", ALWAYS[0], lifetime_s=ALWAYS[1]))
    table = PinTable()
    table.add(first_der, "alice")
    table.add(pair.der, "alice")
    async with pinned_server(tmp_path, table) as (_, port, der):
        assert (await asked(port, context(der, first)))[0] == 200
        assert (await asked(port, context(der, second)))[0] == 200


async def test_a_removed_pin_loses_its_connections_and_its_trust(tmp_path: Path) -> None:
    """threats M07, D-49: closed at once, in the middle of a long poll, and no new handshake; others are undisturbed."""
    alice, alice_der = node(tmp_path, "alice")
    bob, bob_der = node(tmp_path, "bob")
    table, poll = PinTable(), LongPoll()
    table.add(alice_der, "alice")
    table.add(bob_der, "bob")
    async with pinned_server(tmp_path, table, get("/poll", poll)) as (server, port, der):
        callers = [
            await trio.to_thread.run_sync(plain_client, port, context(der, identity)) for identity in (alice, bob)
        ]
        for caller in callers:
            caller.sendall(head("/poll"))
        await poll.until(waiting=2)
        table.remove(fingerprint(alice_der))
        await poll.until(waiting=1)
        assert await trio.to_thread.run_sync(read_end, callers[0]) == b""
        poll.news.set()
        assert b"news" in await trio.to_thread.run_sync(callers[1].recv, 4096)
        await transport_of(server).wait_settled()
        assert "UNKNOWN_CA" in await alert(port, context(der, alice))
        for caller in callers:
            caller.close()


def read_end(caller: ssl.SSLSocket) -> bytes:
    try:
        return caller.recv(4096)
    except OSError:
        return b""


def transport_of(server: Server) -> PinnedTransport:
    transport = server._transport
    assert isinstance(transport, PinnedTransport)
    return transport


async def test_pins_that_come_while_trust_is_rebuilt_are_not_lost(tmp_path: Path) -> None:
    """Removals are coalesced into one new context; what was pinned meanwhile is in it."""
    nodes = [node(tmp_path, f"n{index}") for index in range(6)]
    table = PinTable()
    for index, (_, der) in enumerate(nodes[:4]):
        table.add(der, f"n{index}")
    async with pinned_server(tmp_path, table) as (server, port, server_der):
        for _, der in nodes[:3]:
            table.remove(fingerprint(der))
            await trio.lowlevel.checkpoint()
        for index in (4, 5):
            table.add(nodes[index][1], f"n{index}")
        await transport_of(server).wait_settled()
        for index in (3, 4, 5):
            assert (await asked(port, context(server_der, nodes[index][0])))[0] == 200
        for index in (0, 1, 2):
            await alert(port, context(server_der, nodes[index][0]))


@pytest.mark.parametrize("state", [PinState.REVOKED, PinState.REMOVED])
async def test_revoked_and_removed_nodes_are_told_so(tmp_path: Path, state: PinState) -> None:
    """rules K22, K33, J40: their connections end within a second, and what they then ask is answered with the code."""
    alice, alice_der = node(tmp_path, "alice")
    table, poll = PinTable(), LongPoll()
    table.add(alice_der, "alice")
    routes = (get("/poll", poll), get("/trust", text("bundles"), states=EVERYONE - {PinState.REMOVED}))
    async with pinned_server(tmp_path, table, *routes) as (_, port, der):
        made = context(der, alice)
        caller = await trio.to_thread.run_sync(plain_client, port, made)
        caller.sendall(head("/poll"))
        await poll.until(waiting=1)
        table.set_state("alice", state)
        await poll.until(waiting=0)
        caller.close()
        status, body = await asked(port, made)
        assert (status, json.loads(body)["code"]) == (403, state.value)
        expected = 200 if state is PinState.REVOKED else 403
        assert (await asked(port, made, "/trust"))[0] == expected
        table.set_state("alice", PinState.ACTIVE)
        assert (await asked(port, made))[0] == 200


def resumed(port: int, made: ssl.SSLContext) -> bool:
    session, reused = None, False
    for _ in range(2):
        raw = socket.create_connection(("127.0.0.1", port), timeout=60)
        with made.wrap_socket(raw, session=session) as caller:
            caller.sendall(head())
            caller.recv(4096)
            session, reused = caller.session, bool(caller.session_reused)
    return reused


async def test_no_session_is_resumed(tmp_path: Path) -> None:
    """threats M08: resumption would skip the judgement of the certificate."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (_, port, der):
        assert not await trio.to_thread.run_sync(resumed, port, context(der, alice))


async def test_a_handshake_has_a_deadline(tmp_path: Path, autojump_clock: MockClock) -> None:
    """threats M13: who says nothing is gone after 5 s."""
    async with pinned_server(tmp_path, PinTable()) as (server, port, _):
        begun = trio.current_time()
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            with contextlib.suppress(trio.BrokenResourceError):
                assert await stream.receive_some(100) == b""
        assert elapsed.since(begun) == pytest.approx(REMOTE.handshake_s, abs=1)
        assert server.statistics().handshakes_failed == 1


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0.05)


async def test_connections_are_capped_for_each_address(tmp_path: Path) -> None:
    """threats M13, D-49: what is too much is closed before its handshake; a place that is free again is given away."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    limits = replace(REMOTE, connections_each=3, handshake_s=60)
    async with pinned_server(tmp_path, table, limits=limits) as (server, port, der):
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3)]
        await wait_all_tasks_blocked(0.05)
        with contextlib.suppress(OSError):
            await asked(port, context(der, alice))
            raise AssertionError("served over the cap")
        assert server.statistics().turned_away == 1
        for stream in silent:
            await stream.aclose()
        with trio.fail_after(30):
            await server.wait_empty()
        assert (await asked(port, context(der, alice)))[0] == 200


async def test_connections_are_capped_for_each_node(tmp_path: Path) -> None:
    """threats D-49: one node cannot take the places of all."""
    alice, alice_der = node(tmp_path, "alice")
    bob, bob_der = node(tmp_path, "bob")
    table, poll = PinTable(), LongPoll()
    table.add(alice_der, "alice")
    table.add(bob_der, "bob")
    async with pinned_server(tmp_path, table, get("/poll", poll), connections_each_node=1) as (server, port, der):
        first = await trio.to_thread.run_sync(plain_client, port, context(der, alice))
        first.sendall(head("/poll"))
        await poll.until(waiting=1)
        with contextlib.suppress(OSError):
            await asked(port, context(der, alice))
            raise AssertionError("served over the cap")
        assert (await asked(port, context(der, bob)))[0] == 200
        first.close()
        with trio.fail_after(30):
            await server.wait_empty()
        assert (await asked(port, context(der, alice)))[0] == 200


async def test_tls_garbage_ends_its_connection_alone(tmp_path: Path) -> None:
    """threats M13, N07: no bytes instead of a handshake end the listener."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (server, port, der):
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 500, b"\0" * 3, b""):
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                with contextlib.suppress(trio.BrokenResourceError):
                    await stream.send_all(garbage)
                    await stream.send_eof()
                    while await stream.receive_some(4096):
                        pass
        with trio.fail_after(30):
            await server.wait_empty()
        assert server.statistics().faults == 0
        assert (await asked(port, context(der, alice)))[0] == 200


async def test_a_join_listener_asks_for_no_certificate(tmp_path: Path) -> None:
    """rules J46, platform.md 9: callers without a certificate come in, as nobody; strict verifiers accept our chain."""
    ours = authority("holdfast")
    identity = write(tmp_path, "server", issued(ours, "localhost", "127.0.0.1"))
    transport = ServerAuthTransport(identity.read(), REMOTE)
    server = Server("join", Routes(get("/whoami", whoami)), transport, REMOTE)
    listener, port = await tcp_listener()
    made = ssl.create_default_context(cadata=ours.certificate_pem.decode())
    made.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    async with running(server, listener):
        status, body = await trio.to_thread.run_sync(ask_localhost, port, made)
        assert (status, json.loads(body)["peer"]) == (200, "address:127.0.0.1")


def ask_localhost(port: int, made: ssl.SSLContext) -> tuple[int, bytes]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as raw:
        with made.wrap_socket(raw, server_hostname="localhost") as caller:
            caller.sendall(head("/whoami", connection="close"))
            answer = b""
            while piece := caller.recv(65536):
                answer += piece
    return int(answer.split(b" ")[1]), answer.partition(b"\r\n\r\n")[2]


async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    """rules P13."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (server, port, old):
        identity, new = node(tmp_path, "server")
        transport_of(server).show(identity.read())
        await transport_of(server).wait_settled()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asked(port, context(old, alice))
        assert (await asked(port, context(new, alice)))[0] == 200


async def test_files_in_the_middle_of_an_exchange_are_not_looked_at(tmp_path: Path) -> None:
    """rules P13, threats M07: a pin is taken away meanwhile, and who stays is served as before"""
    alice, alice_der = node(tmp_path, "alice")
    bob, bob_der = node(tmp_path, "bob")
    table = PinTable()
    table.add(alice_der, "alice")
    gone = table.add(bob_der, "bob")
    async with pinned_server(tmp_path, table) as (server, port, der):
        (tmp_path / "server.key").write_bytes(b"half a k")
        (tmp_path / "server.crt").unlink()
        table.remove(gone.fingerprint)
        await transport_of(server).wait_settled()
        await alert(port, context(der, bob))
        assert (await asked(port, context(der, alice)))[0] == 200


async def test_the_end_of_a_connection_is_announced(tmp_path: Path) -> None:
    """platform.md 9: close_notify, so that OpenSSL 3 clients see a proper end."""
    alice, alice_der = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice_der, "alice")
    async with pinned_server(tmp_path, table) as (_, port, der):
        made = context(der, alice)

        def to_the_end() -> bytes:
            raw = socket.create_connection(("127.0.0.1", port), timeout=60)
            with made.wrap_socket(raw, suppress_ragged_eofs=False) as caller:
                caller.sendall(head(connection="close"))
                answer = b""
                while piece := caller.recv(4096):
                    answer += piece
                return answer

        assert b"root" in await trio.to_thread.run_sync(to_the_end)


async def test_probes_have_a_plain_listener(tmp_path: Path) -> None:
    """rules J46: probes on a listener of their own."""
    server = Server("probe", Routes(get("/probe/liveness", text("alive"))), PlainTransport(), REMOTE)
    listener, port = await tcp_listener()
    async with running(server, listener):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(head("/probe/liveness", connection="close"))
            assert b"alive" in await stream.receive_some(4096)

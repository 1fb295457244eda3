"""Room for strangers: they keep out neither those who are known nor each other (threats M13, D-49, D-51)."""

import gc
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.logs import capture_logs
from tests.wire.lab import ROUTES, head, node, pinned_server, running, tcp_listener
from tests.wire.test_tls import asked, context
from wire.limits import ADMIN, JOIN
from wire.pins import PinTable
from wire.room import ConnectionRoom, principal_of
from wire.routes import Routes
from wire.server import Server
from wire.tls import ServerAuthTransport


async def held(room: ConnectionRoom, caller: str, ended: list[str], name: str) -> None:
    with room.one(caller) as scope:
        await trio.sleep_forever()
    assert scope.cancelled_caught
    ended.append(name)


async def test_the_oldest_of_the_address_with_the_most_makes_room(autojump_clock: MockClock) -> None:
    room, ended = ConnectionRoom(3), []
    async with trio.open_nursery() as nursery:
        for number, caller in enumerate(("known", "a", "a")):
            nursery.start_soon(held, room, caller, ended, f"{caller}-{number}")
            await wait_all_tasks_blocked()
        for number, caller in enumerate(("b", "b", "b"), 3):
            nursery.start_soon(held, room, caller, ended, f"{caller}-{number}")
            await wait_all_tasks_blocked()
            assert len(room) == 3
        assert ended == ["a-1", "b-3", "b-4"], "whoever comes again makes room itself"
        nursery.cancel_scope.cancel()
    assert len(room) == 0


async def test_what_is_over_has_left_its_room() -> None:
    room = ConnectionRoom(1)
    for _ in range(3):
        with room.one("a") as scope:
            assert len(room) == 1
        assert (len(room), scope.cancelled_caught) == (0, False)


async def test_strangers_who_hold_on_to_their_handshakes_keep_nobody_out(tmp_path: Path) -> None:
    """threats M13, D-51: from four addresses, more than there is room for, and an operator behind one of them"""
    identity, alice = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice, "alice")
    limits = replace(ADMIN, handshakes=8, connections=16, connections_each=12, handshake_s=60)
    strangers = []
    async with pinned_server(tmp_path, table, limits=limits) as (server, port, shown):
        try:
            for number in range(40):
                source = (f"127.0.0.{number % 4 + 1}", 0)
                strangers.append(socket.create_connection(("127.0.0.1", port), 60, source))
                await wait_all_tasks_blocked(0.001)
            with trio.fail_after(30):
                while server.statistics().handshakes_failed < 32:
                    await wait_all_tasks_blocked(0.001)
            assert server.connections == 8
            assert server.statistics().handshakes_failed == 32
            for _ in range(3):
                status, _body = await asked(port, context(shown, identity))
                assert status == 200
            assert server.statistics().turned_away == 0
        finally:
            for each in strangers:
                each.close()


async def test_who_has_come_in_is_not_asked_to_make_room(tmp_path: Path) -> None:
    """A connection counts as a handshake until it is let in, and no longer."""
    identity, alice = node(tmp_path, "alice")
    table = PinTable()
    table.add(alice, "alice")
    limits = replace(ADMIN, handshakes=1, handshake_s=60)
    async with pinned_server(tmp_path, table, limits=limits) as (server, port, shown):
        made = context(shown, identity)

        def three() -> list[ssl.SSLSocket]:
            """Each is answered before the next one comes, and all stay."""
            came: list[ssl.SSLSocket] = []
            for _ in range(3):
                came.append(made.wrap_socket(socket.create_connection(("127.0.0.1", port), 60)))
                came[-1].sendall(head("/"))
                assert came[-1].recv(4096).startswith(b"HTTP/1.1 200")
            return came

        kept = await trio.to_thread.run_sync(three)
        assert (server.statistics().accepted, server.connections) == (3, 3)
        for each in kept:
            each.close()


@pytest.mark.parametrize(
    ("address", "principal"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("unknown", "unknown"),
    ],
)
def test_whom_an_address_stands_for(address: str, principal: str) -> None:
    """threats D-49: nobody is as many as the addresses of one network of IPv6"""
    assert principal_of(address) == principal


async def test_strangers_cannot_keep_a_stranger_out(tmp_path: Path) -> None:
    """threats M13: 300 that stay, in all their phases; the next one is answered, and a few lines tell of it"""
    identity, shown = node(tmp_path, "server")
    limits = replace(JOIN, strangers=12, connections=24)
    server = Server("join", Routes(*ROUTES), ServerAuthTransport(identity.read(), limits), limits)
    listener, port = await tcp_listener()
    held = []
    gc.collect()
    gc.disable()
    try:
        with capture_logs() as lines:
            async with running(server, listener):
                for number in range(300):
                    source = (f"127.0.0.{number % 6 + 2}", 0)
                    held.append(socket.create_connection(("127.0.0.1", port), 60, source))
                    await trio.to_thread.run_sync(_as_far_as, held[-1], number % 3)
                await settled(server, 12)
                assert len(tls_objects()) <= 12 + 1, "what has ended leaves nothing behind, also before it is collected"
                status, _ = await asked(port, context(shown, None))
                assert status == 200
        turned_away = server.statistics().handshakes_failed
        assert turned_away >= 288
        assert len(lines) <= 2 * len({line["reason"] for line in lines}) <= 8
        assert sum(line.get("count", 1) for line in lines) == turned_away
    finally:
        gc.enable()
        for each in held:
            each.close()


def _as_far_as(held: socket.socket, phase: int) -> None:
    """Silent, with a part of a greeting, or with something that is none."""
    if phase:
        held.sendall(b"\x16\x03\x01\x02\x00\x01" if phase == 1 else b"GET / HTTP/1.1\r\n\r\n")


async def settled(server: Server, most: int) -> None:
    with trio.fail_after(60):
        while server.connections > most:
            await wait_all_tasks_blocked(0.001)


def tls_objects() -> list[ssl.SSLObject]:
    return [each for each in gc.get_objects() if isinstance(each, ssl.SSLObject)]

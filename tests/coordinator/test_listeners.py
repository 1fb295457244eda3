"""Strangers at the door for joins: members are served all the while, and so is one who is meant."""

import os
import socket
from pathlib import Path

from trio.testing import wait_all_tasks_blocked

from tests.coordinator.daemon import Follower, running
from tests.coordinator.founding import Founded
from tests.logs import capture_logs
from wire.limits import JOIN

STRANGERS = 600


async def test_a_flood_at_the_joins_is_the_joins_alone(founded: Founded) -> None:
    """threats M13: 600 connections from 30 addresses that stay, half of them silent, half with a broken handshake"""
    assert JOIN.strangers is not None
    async with running(founded) as at:
        node = await at.admit("node-a")
        await at.apply("{kind: Node, id: node-a, spec: {roles: [core_mesh]}}")
        before, held = descriptors(), list[socket.socket]()
        try:
            with capture_logs() as lines:
                for number in range(STRANGERS):
                    held.append(come(at.ports.join, number))
                    await wait_all_tasks_blocked()
                    if number % 100 == 99:
                        assert (await node.head()).status == 200
                assert await Follower(node).sync()
                server = at.daemon.servers["join"]
                assert server.connections <= JOIN.strangers
                assert descriptors() - len(held) - before <= JOIN.connections
                assert (await at.admit("node-b")).grant.outcome == "admitted"
            turned_away = [line for line in lines if line.get("listener") == "join"]
            assert 1 <= len(turned_away) <= 6, "a line for each reason, and one with its count"
            assert at.daemon.servers["fleet"].statistics().turned_away == 0
        finally:
            for each in held:
                each.close()


def come(port: int, number: int) -> socket.socket:
    stranger = socket.create_connection(("127.0.0.1", port), 60, (f"127.0.0.{number % 30 + 2}", 0))
    if number % 2:
        stranger.sendall(b"\x16\x03\x01\x02\x00\x01")
    return stranger


def descriptors() -> int:
    return len(list(Path(f"/proc/{os.getpid()}/fd").iterdir()))

"""Forty nodes and three coordinators, while somebody changes something and somebody joins all the time: what journeys
share that take something away from the coordinators.
"""

import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import trio

from coordinator.replicas.generations import BLOCK
from tests.coordinator.daemon import TlsNode
from tests.holdfast.operator_lab import UNGUARDED
from tests.journeys.gateway import Gateway
from tests.journeys.many_nodes import FIRST_PAUSE_S, Door, Ledger, News, WatchedNode, Writer
from tests.journeys.three_coordinators import Three
from tests.world.pauses import pauses
from wire.client import ClientError

NODES = int(os.environ.get("HOLDFAST_NODES", "40"))
LIFETIME_S = 120
# A head that nobody signs again ends within the journey, as it does at last in the days of a real one.
SETTINGS = f"{UNGUARDED}\njoins_per_minute = 1000\nshort_lifetimes = true\nhead_lifetime_s = {LIFETIME_S}"
BETWEEN_JOINS_S = 10.0
off_loop = trio.to_thread.run_sync


def gateway_of(labs: Three, folder: Path) -> Gateway:
    """A node with the shipped agent, which may ask all three; not started."""
    made = Gateway(folder, labs[1])
    urls = ", ".join(f'"https://localhost:{lab.ports["fleet"]}"' for lab in labs)
    file = made.folder / "agent.toml"
    file.write_text(re.sub(r"(?m)^urls = .*$", f"urls = [{urls}]", file.read_text()))
    return made


@dataclass
class Fleet:
    """All nodes, and the operator who writes."""

    doors: Sequence[Door]
    news: News = field(default_factory=News)
    ledger: Ledger = field(default_factory=Ledger)
    nodes: list[WatchedNode] = field(default_factory=list)
    view_left_s: float = float("inf")
    states: set[str] = field(default_factory=set)  # of the agent
    joined: int = 0
    longest_join_s: float = 0.0

    def __post_init__(self) -> None:
        names = [f"n{number}" for number in range(NODES)]
        self.writer = Writer(self.doors, [*names, "gateway"], self.news)

    async def join(self) -> None:
        """A third of them at each, with a token of its own."""
        for number, name in enumerate(self.writer.node_ids[:NODES]):
            self.writer.at = number % len(self.doors)
            await self.writer.ask("POST", f"/v1/allowlist/{name}", {"kind": "data"})
            token = (await self.writer.ask("POST", "/v1/tokens", {"node_id": name}))["token"]
            node = TlsNode(self.doors[self.writer.at], name)
            assert (await node.join(token)).outcome == "admitted"
            self.nodes.append(WatchedNode(node, self.doors, self.ledger, self.news))

    async def join_on(self) -> None:
        """One newcomer after the other, all the time, as who installs machines would: at the next coordinator where one
        does not answer, until it is in.
        """
        for number in count():
            began = time.monotonic()
            await self._join_somewhere(f"late{number}", number)
            self.longest_join_s = max(self.longest_join_s, time.monotonic() - began)
            self.joined += 1
            await trio.sleep(BETWEEN_JOINS_S)

    async def _join_somewhere(self, name: str, first: int) -> None:
        node, pause = TlsNode(self.doors[0], name), pauses(FIRST_PAUSE_S, 1.0)
        for at in count(first):
            node.at = self.doors[at % len(self.doors)]
            try:
                await self.writer.ask("POST", f"/v1/allowlist/{name}", {"kind": "data"}, at=node.at)
                token = (await self.writer.ask("POST", "/v1/tokens", {"node_id": name}, at=node.at))["token"]
                assert (await node.join(token)).outcome == "admitted"
            except ClientError:
                await trio.sleep(next(pause))
            else:
                return

    async def watch_views(self) -> None:
        """Of each node, all the time: what it goes by does not end."""
        while True:
            self.view_left_s = min(self.view_left_s, *(each.view_left_s for each in self.nodes))
            assert self.view_left_s > 0, [
                (each.node.node_id, each.view_left_s, each.version, each.unanswered, each.node.at.lab.folder.name)
                for each in self.nodes
            ]
            await trio.sleep(1)

    async def watch_agent(self, gateway: Gateway) -> None:
        """The shipped program on a node, all the time once it has its roles: services may go by what it has."""
        await off_loop(gateway.until, lambda: _runs_its_roles(gateway.status))
        while True:
            self.states.add((await off_loop(lambda: gateway.status))["state"])
            assert self.states == {"active"}, await off_loop(lambda: gateway.status)
            await trio.sleep(1)

    async def all_run(self, least: int, *, epoch: int = 1) -> None:
        await self.news.until(
            lambda: all(each.round >= least and each.epoch >= epoch for each in self.nodes),
            lambda: [(each.node.node_id, each.version, each.round, each.unanswered) for each in self.nodes],
        )

    async def all_are_signed_again(self) -> None:
        """Without a database, a head is out with later dates, under a number of its block."""
        await self.news.until(
            lambda: all(each.generation % BLOCK > 0 for each in self.nodes),
            lambda: [(each.node.node_id, each.version, each.unanswered) for each in self.nodes],
        )

    async def all_are_refused(self) -> None:
        """Each asks on, more than once, and hears that there is nothing for it."""
        before = [each.unanswered for each in self.nodes]
        await self.news.until(
            lambda: all(each.unanswered > count + 1 for each, count in zip(self.nodes, before, strict=True)),
            lambda: [each.unanswered for each in self.nodes],
        )

    async def all_are_given_the_same(self) -> None:
        """The last write has come to every node, and each coordinator says of it what the others have said."""
        await self.all_run(self.writer.last)
        for each in self.nodes:
            await each.compare()
        assert (await self.writer.ask("GET", "/v1/audit/verify"))["faults"] == []
        assert {number for number, _ in self.writer.acknowledged} <= await self.writer.kept()


def _runs_its_roles(status: dict) -> bool:
    return bool(status["roles"]) and status["state"] == "active"


@asynccontextmanager
async def running(labs: Three, gateway: Gateway, folder: Path) -> AsyncIterator[Fleet]:
    (folder / "nodes").mkdir()
    (folder / "nodes" / "ca.pem").write_bytes((labs[0].folder / "state" / "tls" / "ca.pem").read_bytes())
    doors = [Door(lab, folder / "nodes", []) for lab in labs]
    fleet = Fleet(doors)
    try:
        await fleet.join()
        await off_loop(gateway.enrol)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fleet.writer.run)
            for each in fleet.nodes:
                await each.follow_once(20)
                nursery.start_soon(each.run)
            nursery.start_soon(fleet.join_on)
            nursery.start_soon(fleet.watch_views)
            nursery.start_soon(fleet.watch_agent, gateway)
            yield fleet
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            for client in (fleet.writer.client, *(client for door in doors for client in door.clients)):
                await client.aclose()

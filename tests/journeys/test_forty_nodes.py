"""Forty nodes, three coordinators and two PostgreSQL servers, while somebody changes something all the time: each
coordinator is killed in turn, the primary is, and at last a standby takes over that was behind (rules H1, H37, P30).
"""

import re
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio

from coordinator.replicas.generations import BLOCK
from tests.coordinator import failing_over
from tests.coordinator.daemon import TlsNode
from tests.coordinator.failing_over import Pair
from tests.coordinator.postgresql import Unavailable
from tests.coordinator.test_servers_failover import heads
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import Gateway
from tests.journeys.many_nodes import Door, Ledger, News, WatchedNode, Writer
from tests.journeys.three_coordinators import Three, come_back, kill, three

pytestmark = pytest.mark.slow

NODES = 40
LIFETIME_S = 120
# A head that nobody signs again ends within the journey, as it does at last in the days of a real one.
SETTINGS = f"{UNGUARDED}\njoins_per_minute = 1000\nshort_lifetimes = true\nhead_lifetime_s = {LIFETIME_S}"
off_loop = trio.to_thread.run_sync


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        with failing_over.pair(tmp_path) as made:
            yield made
    except Unavailable as error:
        warnings.warn(f"NO POSTGRESQL, FORTY NODES ARE NOT TRIED: {error}", stacklevel=1)
        pytest.skip(f"NO POSTGRESQL: {error}")


@pytest.fixture
def url(pair: Pair) -> str:
    return pair.new_database()


@pytest.fixture
def labs(tmp_path: Path, url: str) -> Iterator[Three]:
    with three(tmp_path, url, SETTINGS) as found:
        yield found


@pytest.fixture
def gateway(labs: Three, tmp_path: Path) -> Iterator[Gateway]:
    """A node with the shipped agent, which may ask all three."""
    made = Gateway(tmp_path / "gateway", labs[1])
    urls = ", ".join(f'"https://localhost:{lab.ports["fleet"]}"' for lab in labs)
    file = made.folder / "agent.toml"
    file.write_text(re.sub(r"(?m)^urls = .*$", f"urls = [{urls}]", file.read_text()))
    yield made
    made.kill()


@dataclass
class Fleet:
    """All nodes, and the operator who writes."""

    doors: Sequence[Door]
    news: News = field(default_factory=News)
    ledger: Ledger = field(default_factory=Ledger)
    nodes: list[WatchedNode] = field(default_factory=list)
    view_left_s: float = float("inf")
    states: set[str] = field(default_factory=set)  # of the agent

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

    async def watch_views(self) -> None:
        """Of each node, all the time: what it goes by does not end."""
        while True:
            self.view_left_s = min(self.view_left_s, *(each.view_left_s for each in self.nodes))
            assert self.view_left_s > 0, "a node's head has ended"
            await trio.sleep(1)

    async def watch_agent(self, gateway: Gateway) -> None:
        """The shipped program on a node, all the time: services may go by what it has."""
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
            nursery.start_soon(fleet.watch_views)
            nursery.start_soon(fleet.watch_agent, gateway)
            yield fleet
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            for client in (fleet.writer.client, *(client for door in doors for client in door.clients)):
                await client.aclose()


def until_all_stand(labs: Sequence[Lab]) -> None:
    for lab in labs:
        end = time.monotonic() + 120
        while "epoch raise" not in (said := lab.readiness())[1]:
            assert time.monotonic() < end, (said, lab.log())
            time.sleep(0.2)


async def test_forty_nodes_go_on_whatever_is_killed(
    labs: Three, gateway: Gateway, pair: Pair, url: str, tmp_path: Path, shown: Callable[[str], None]
) -> None:
    """rules H1, H2, H37, H41, K41, P1, P30, X16: no node ever has two contents under one number, goes a step back, or
    sees its head end; what was acknowledged is there, but for what a standby that was behind never had
    """
    async with running(labs, gateway, tmp_path) as fleet:
        writer = fleet.writer
        await fleet.all_are_given_the_same()

        for number, lab in enumerate(labs):
            writer.at = number
            await writer.written_after(time.monotonic())
            began = time.monotonic()
            await off_loop(kill, lab)
            shown(f"writes {await writer.written_after(began):.2f} s after coordinator {number + 1} was killed")
            await fleet.all_run(writer.last)
            await off_loop(come_back, lab)
            await fleet.all_are_given_the_same()

        processes = [lab.process.pid for lab in labs]
        await off_loop(pair.keep_in_step)
        await writer.written_after(time.monotonic())
        await off_loop(pair.primary.stop)
        await fleet.all_are_signed_again()
        heard = [await each.compare(all_know_it=False) for each in fleet.nodes]
        assert min(heard) >= 1
        began = time.monotonic()
        await off_loop(pair.fail_over)
        shown(f"writes {await writer.written_after(began):.2f} s after a standby in step was promoted, late")
        for lab in labs:
            await off_loop(lab.until_ready)
        await fleet.all_are_given_the_same()

        await off_loop(pair.repair)
        await off_loop(pair.keep_in_step)
        await writer.written_after(time.monotonic())
        kept = writer.last
        await off_loop(pair.fall_behind)
        await writer.written_after(time.monotonic())
        await writer.written_after(time.monotonic())
        await fleet.all_run(writer.last)
        began = time.monotonic()
        await off_loop(pair.fail_over)
        promoted = time.monotonic()
        before = await off_loop(heads, url)
        await off_loop(until_all_stand, labs)
        shown(f"all stand {time.monotonic() - began:.2f} s after a standby took over that was behind")
        await fleet.all_are_refused()
        held = [each.version for each in fleet.nodes]
        await fleet.all_are_refused()
        assert [each.version for each in fleet.nodes] == held
        assert await off_loop(heads, url) == before
        await off_loop(partial(labs[0].good, "epoch", "raise", "--root-key", labs[0].roots, "--yes"))
        shown(f"writes {await writer.written_after(began):.2f} s after it, the epoch raised by root keys meanwhile")
        for lab in labs:
            await off_loop(lab.until_ready)
        await fleet.all_run(writer.last, epoch=2)
        await off_loop(gateway.until, lambda: gateway.status["head"]["authority_epoch"] == 2)
        writer.acknowledged = [each for each in writer.acknowledged if each[0] <= kept or each[1] > promoted]
        await fleet.all_are_given_the_same()
        assert [lab.process.pid for lab in labs] == processes

        shown(
            f"{writer.last} writes, {len(fleet.ledger.said)} contents at {NODES} nodes, each under a number of its own"
        )
        shown(f"the head of no node was nearer to its end than {fleet.view_left_s:.0f} s of {LIFETIME_S}")

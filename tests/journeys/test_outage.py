"""Half an hour without a coordinator, and 36 nodes that come back: not all of them at once.

What speaks upstream is the agent's own (sources, head requests, heartbeats), each with an identity, a back-off and
chances of its own, over real TLS; all of them share one disk, since what they hold is not what is looked at.
"""

import random
import time
from dataclasses import replace

import trio

from agent import upstream
from agent.base.threads import Threads
from agent.enrolment.hold import hold_store
from agent.enrolment.start import OpenedStore, open_store
from agent.local import local
from agent.state.node import RunningNode
from agent.upstream import Upstream
from tests.fakes.clock import threads
from tests.fakes.cluster import HOUR
from wire.certificate import make_identity
from wire.limits import REMOTE
from wire.peer import PinState
from wire.tls_contexts import TlsIdentity

NODES = 36
OUTAGE_S = 1800.0
HEARTBEAT_S = 100
BIN_S = 30.0
"""Connects are counted over a tenth of the longest back-off: less would hold too few to compare."""


def node_of(one, server, opened: OpenedStore, work: Threads, number: int, uniform) -> Upstream:
    """A node as far as it speaks to coordinators, with a certificate of its own that the server knows."""
    pair = make_identity(f"node-{number}", time.time())
    file = one.folder / f"node-{number}.pem"
    file.write_bytes(pair.key_pem + pair.certificate_pem)
    server.pins.add(pair.der, f"node-{number}", PinState.ACTIVE)
    coordinator = replace(one.settings.coordinator, urls=(f"https://127.0.0.1:{server.fleet_port}",))
    intervals = replace(one.settings.intervals, heartbeat_interval_s=HEARTBEAT_S)
    settings = replace(one.settings, coordinator=coordinator, intervals=intervals)
    node = RunningNode(settings, one.clock, work, opened.store, opened.reader)
    outside = upstream.build(node, opened, local.build(settings, node, opened.views, one.folder), uniform)
    outside.sources.identity = TlsIdentity(file, file)
    return outside


def heard_at(outside: Upstream) -> float:
    return max(source.worked_at for source in outside.sources.coordinators())


async def all_heard(nodes: list[Upstream], since: float) -> None:
    """Until every one has had an answer to a head request that it made after that moment."""
    with trio.fail_after(HOUR):
        while min(map(heard_at, nodes)) < since:  # noqa: ASYNC110 - many things, and no event for all
            await trio.sleep(5)


def peak_over_mean(times: list[float], begin: float, span_s: float) -> float:
    bins = [0] * round(span_s / BIN_S)
    for at in times:
        if at < begin + span_s:
            bins[int((at - begin) / BIN_S)] += 1
    return max(bins) * len(bins) / sum(bins)


async def return_of_the_fleet(one, count: int, chance) -> float:
    """How unevenly it connects once the coordinator is back, over the time within which each node tries again."""
    async with one.agent():
        await one.settled()
    (folder := one.folder / "coordinator").mkdir()
    server = one.server.another(folder)
    server.limits = replace(REMOTE, connections_each=4 * count)  # all come from one address here
    server.say(one.cluster.published["head"])
    held = hold_store(one.settings, one.clock.read().wall)
    try:
        opened = open_store(one.settings, held, one.clock.read())
        return await _gone_and_back(one, server, opened, [chance(number) for number in range(count)])
    finally:
        held.close()


async def _gone_and_back(one, server, opened: OpenedStore, chances) -> float:
    work = threads(one.mock)
    async with trio.open_nursery() as nursery:
        async with server.running():
            nodes = [node_of(one, server, opened, work, *each) for each in enumerate(chances)]
            for each in nodes:
                nursery.start_soon(each.refresh.run)
                nursery.start_soon(each.reporting.run)
            await all_heard(nodes, trio.current_time())
        await trio.sleep(OUTAGE_S)
        begin, before = trio.current_time(), len(server.connects)
        async with server.running():
            await all_heard(nodes, begin)
        nursery.cancel_scope.cancel()
    for each in nodes:
        await each.aclose()
    return peak_over_mean(server.connects[before:], begin, float(one.settings.intervals.backoff_cap_s))


async def test_many_nodes_come_back_one_after_the_other(one, mock_clock):
    """rules X27, P1, J38; Numbers: back-off cap 300 s, full jitter"""
    assert await return_of_the_fleet(one, NODES, lambda number: random.Random(number).uniform) < 3


async def test_without_chance_they_would_all_come_at_once(one, mock_clock):
    """The measure tells: fewer nodes, each of which waits as long as it may"""
    assert await return_of_the_fleet(one, NODES // 2, lambda number: lambda low, high: high) > 5

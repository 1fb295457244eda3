"""Peers when nobody else gives what is missing: in their order, over restarts, and what a bad one costs."""

import base64
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest
import trio

from agent.config.configuration import BootstrapPeer, PeersTable
from agent.sources.source import MOST_LACKS
from agent.state.health_rows import PEERS_ROW
from store.base.tables import Name
from tests.fakes.storage import StorageServer
from tests.journeys.lab import POLICY, ROUTES
from tests.world import elapsed
from wire.certificate import fingerprint, make_identity
from wire.request import HttpError, Response

PEERS, POLICY_SCOPE = "peer_directory", "degraded_mode_policy"
ALLOWED = POLICY | {"allow": ["reconnect_peers", "validate_peers"], "allow_unconfirmed_start": True}


class Neighbour:
    """A peer that has what the coordinator has."""

    def __init__(self, one, name):
        self.name, self.pair = name, make_identity(name, time.time())
        self.storage = StorageServer(one.server, one.folder / name, self.pair)

    def entry(self, site="elsewhere"):
        pins = [base64.b64encode(self.pair.der).decode()]
        return {"url": self.storage.url, "certificates": pins, "site_id": site}

    def as_bootstrap(self):
        return BootstrapPeer(node_id=self.name, url=self.storage.url, certificate=self.pair.der)

    @property
    def documents(self):
        return [request for request in self.storage.server.requests if "documents" in request]


@asynccontextmanager
async def neighbours(one, *names):
    async with AsyncExitStack() as stack:
        found = [Neighbour(one, name) for name in names]
        for each in found:
            await stack.enter_async_context(each.storage.running())
        yield found


def nothing(path, data):
    return b"" if path.startswith("/v1/documents") else data


async def told(one, entries):
    """The node holds a directory, stands at site `here`, and may ask its peers without a head."""
    one.server.snapshot({"node": {"node_id": "node-a", "site_id": "here"}}, "node_bootstrap")
    one.server.snapshot({"policy": ALLOWED}, POLICY_SCOPE)
    made = one.server.snapshot({"peers": entries}, PEERS)
    one.server.announce()
    await one.until_active(PEERS, made.envelope.config_version)
    await one.until_active(POLICY_SCOPE, 2)
    one.server.spoil = nothing


async def changed(one, version):
    one.server.snapshot({"routes": {f"way-{version}": {}}}, ROUTES)
    one.server.announce()
    await one.until_active(ROUTES, version)


def row_of(one, name):
    return one.node.store.table(Name.PEERS).get(PEERS_ROW)[name]


async def peer_rows(one):
    return {row["node_id"]: row for row in (await one.status())["sources"] if row["kind"] == "peer"}


async def test_near_before_far_and_who_lies_rests_and_is_cold(one, mock_clock):
    """rules L21, X27, S28, S53: one attempt, a clear reason, the next source; and its next good document counts"""
    async with neighbours(one, "node-b", "node-c") as (near, far), one.agent():
        await one.settled()
        await told(one, {"node-b": near.entry("here"), "node-c": far.entry()})
        await changed(one, 2)
        assert (len(near.documents), len(far.documents)) == (1, 0)
        near.storage.server.spoil = lambda path, data: data[:-1] + b"?"
        await changed(one, 3)
        assert (len(near.documents), len(far.documents)) == (2, 1)
        assert one.rejected(ROUTES) == "content_mismatch"
        rows = await peer_rows(one)
        assert (rows["node-b"]["peer_set"], rows["node-b"]["near"]) == ("cold", True)
        assert "content_mismatch" in rows["node-b"]["error"]
        assert rows["node-b"]["again_in_s"] >= 1
        assert (rows["node-c"]["peer_set"], rows["node-c"]["near"]) == ("active", False)
        await one.until(lambda: row_of(one, "node-b")["failed_at"] > row_of(one, "node-b")["worked_at"])
        near.storage.server.spoil = lambda _, data: data
        far.storage.server.spoil = nothing
        await changed(one, 4)
        assert (await peer_rows(one))["node-b"]["peer_set"] == "active"


async def test_a_peer_that_stalls_costs_a_bounded_time(one, mock_clock):
    """rules X27: no answer at all, and one that drips; the next peer is asked within the deadlines of a transfer"""

    async def forever(request):
        await trio.sleep_forever()

    async with neighbours(one, "node-b", "node-c") as (near, far), one.agent():
        await one.settled()
        await told(one, {"node-b": near.entry("here"), "node-c": far.entry()})

        async def drops():
            for _ in range(10_000):
                yield b"x"
                await trio.sleep(5)

        near.storage.server.instead = lambda path, data: Response(200, [("content-length", "90000")], drops())
        began = trio.current_time()
        await changed(one, 2)
        assert elapsed.since(began) <= 60
        assert len(far.documents) == 1
        assert (await peer_rows(one))["node-b"]["peer_set"] == "cold"


async def test_a_peer_that_is_behind_is_asked_less(one, mock_clock):
    """rules L21: after a few documents in a row that it has not got"""
    async with neighbours(one, "node-b", "node-c") as (behind, other), one.agent():
        await one.settled()
        await told(one, {"node-b": behind.entry("here"), "node-c": other.entry()})
        behind.storage.server.instead = lambda path, data: Response(404, [], b"")
        for version in range(2, 2 + 3 * MOST_LACKS):
            await changed(one, version)
        assert len(other.documents) == 3 * MOST_LACKS
        assert len(behind.documents) < 2 * MOST_LACKS
        assert "is behind" in (await peer_rows(one))["node-b"]["error"]


async def test_over_a_restart_who_worked_comes_first_without_coordinator_and_dns(one, mock_clock):
    """rules L14, L21, S64, S84; seed 001 sections 12 and 16"""
    async with neighbours(one, "node-b", "node-c", "node-d") as (first, second, third):
        async with one.agent():
            await one.settled()
            await told(one, {each.name: each.entry() for each in (first, second, third)})
            for each in (first, second, third):
                each.storage.server.down = each is not second
            await changed(one, 2)
            await one.until(lambda: "node-c" in (one.node.store.table(Name.PEERS).get(PEERS_ROW) or {}))
        for each in (first, second, third):
            each.storage.server.down = False
        asked = {each.name: len(each.documents) for each in (first, second, third)}
        one.server.snapshot({"routes": {"way-3": {}}}, ROUTES)
        one.server.announce()
        async with one.agent():
            await one.until_active(ROUTES, 3)
        grown = {each.name for each in (first, second, third) if len(each.documents) > asked[each.name]}
        assert grown == {"node-c"}


async def test_a_bootstrap_peer_needs_no_directory(one, mock_clock):
    """rules L14, S64, S55c: of agent.toml, pinned; revoked it is nobody"""
    async with neighbours(one, "seed-1") as (seed,):
        one.settings = replace(one.settings, peers=PeersTable(bootstrap=(seed.as_bootstrap(),)))
        async with one.agent():
            await one.settled()
            one.server.spoil = nothing
            await changed(one, 2)
            assert len(seed.documents) == 1
            rows = await peer_rows(one)
            assert rows["seed-1"]["named_by"] == "agent.toml"


async def test_the_recovery_order(one, mock_clock):
    """rules S64, L21; seed 001 section 12: coordinator, storage, active, warm, bootstrap peers"""
    async with neighbours(one, "node-b", "seed-1") as (listed, seed):
        one.settings = replace(one.settings, peers=PeersTable(bootstrap=(seed.as_bootstrap(),)))
        async with StorageServer(one.server, one.folder / "storage").running() as storage, one.agent():
            await one.settled()
            one.server.snapshot({"endpoints": {"s1": {"url": storage.url}}}, "storage_directory")
            await told(one, {"node-b": listed.entry()})
            storage.server.spoil = nothing
            listed.storage.server.spoil = nothing
            await changed(one, 2)
            asked = [one.server.requests, storage.server.requests, listed.storage.server.requests]
            asked = [[request for request in each if "documents" in request] for each in asked]
            wanted = seed.documents[-1]
            assert [each[-1] for each in asked] == [wanted] * 3
            found = (await one.status())["origins"][ROUTES]["source"]
            assert found == seed.storage.url


@pytest.mark.parametrize("is_head_fresh", [True, False])
async def test_a_peer_is_validated_for_a_service_by_the_pins_of_the_directory(one, mock_clock, is_head_fresh):
    """rules S55d, K49, S61: with a fresh head, and without one by the policy; bootstrap peers by agent.toml"""
    other, seed_pair = (make_identity(name, time.time()) for name in ("node-b", "seed-1"))
    seed = BootstrapPeer(node_id="seed-1", url="https://192.0.2.7:7445", certificate=seed_pair.der)
    async with neighbours(one, "node-b") as (peer,):
        one.settings = replace(one.settings, peers=PeersTable(bootstrap=(seed,)))
        async with one.agent():
            await one.settled()
            await told(one, {"node-b": peer.entry()})
            if not is_head_fresh:
                one.server.down = True
                await one.until(lambda: one.state == "degraded")
            said = {
                (name, shown.der): (await one.may("validate_peers", resource=name, certificate=fingerprint(shown.der)))[
                    "reason"
                ]
                for name, shown in [
                    ("node-b", peer.pair),
                    ("node-b", other),
                    ("node-z", peer.pair),
                    ("seed-1", seed_pair),
                    ("seed-1", other),
                ]
            }
            assert list(said.values()) == ["ok", "not_pinned", "not_pinned", "ok", "not_pinned"]
            assert (await one.may("validate_peers", resource="node-b"))["allowed"], "it is not revoked"
            if is_head_fresh:
                answer = await one.may("preserve_routes", resource="way", certificate=fingerprint(other.der))
                assert not answer["allowed"]


def say_coming(times):
    """A relay that fetches for so many questions, and then has it."""
    left = [times]

    def answer(path, data):
        left[0] -= 1
        if left[0] >= 0:
            raise HttpError(503, "coming", "refused", retry_after=2)
        return Response(200, [("content-length", str(len(data)))], data)

    return answer


def asked_for_documents(server):
    return [request for request in server.requests if "documents" in request or "route_policy" in request]


@asynccontextmanager
async def beside_a_relay(one, **settings):
    async with neighbours(one, "relay-1") as (relay,):
        named = replace(relay.as_bootstrap(), relay=True)
        one.settings = replace(one.settings, peers=PeersTable(bootstrap=(named,), **settings))
        async with one.agent():
            await one.settled()
            yield relay


async def test_the_relay_of_the_site_is_asked_before_the_coordinator_and_waited_for(one, mock_clock):
    """rules X27, L19: what others are given too travels over the site's link once; what is this node's own does not"""
    async with beside_a_relay(one) as relay:
        relay.storage.server.instead = say_coming(20)
        begun, before = trio.current_time(), len(asked_for_documents(one.server))
        await changed(one, 2)
        assert len(asked_for_documents(one.server)) == before
        assert elapsed.since(begun) <= 60
        assert (await one.status())["origins"][ROUTES]["source"] == relay.storage.url
        rows = await peer_rows(one)
        assert (rows["relay-1"]["relay"], rows["relay-1"]["error"]) == (True, "")
        asked = len(relay.documents)
        one.server.snapshot({"node": {"site": "other"}}, "node_bootstrap")
        one.server.announce()
        await one.until_active("node_bootstrap", 2)
        assert len(relay.documents) == asked
        assert len(asked_for_documents(one.server)) == before + 1


async def test_a_relay_that_is_never_done_is_waited_for_no_longer_than_that(one, mock_clock):
    """rules X27: a liar, or one whose own link is cut, costs a bounded time; and is asked again after its back-off"""
    async with beside_a_relay(one, relay_wait_s=60) as relay:
        relay.storage.server.instead = say_coming(10**6)
        begun = trio.current_time()
        await changed(one, 2)
        assert 60 <= elapsed.since(begun) <= 75
        assert "coming" in (await peer_rows(one))["relay-1"]["error"]
        relay.storage.server.instead = None
        await trio.sleep(10)
        await changed(one, 3)
        assert (await one.status())["origins"][ROUTES]["source"] == relay.storage.url


async def test_a_relay_that_is_gone_holds_up_nothing(one, mock_clock):
    """rules X27"""
    async with beside_a_relay(one) as relay:
        relay.storage.server.down = True
        begun = trio.current_time()
        await changed(one, 2)
        assert elapsed.since(begun) <= 12


async def test_a_relay_waits_for_no_other(one, mock_clock):
    """Two of them would wait for each other"""
    async with neighbours(one, "relay-1") as (relay,):
        named = replace(relay.as_bootstrap(), relay=True)
        one.settings = replace(one.settings, peers=PeersTable(bootstrap=(named,), relay=True))
        async with one.agent():
            await one.settled()
            await changed(one, 2)
            assert relay.documents == []

"""A peer that lies: refused for its reason, nothing activated, the next source asked, and the next valid update in."""

import socket
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import trio

from agent.sources.peer_sets import Peer
from snapshot import container
from store.relay import digest_of
from tests.agent.bench import bench
from tests.fakes.cluster import CLUSTER_ID, HOUR, Cluster
from tests.journeys.lab import ROUTES
from tests.journeys.test_agent_liars import ANSWERS, LIES, endless, read
from tests.logs import capture_logs
from tests.wire.lab import node, running, tcp_listener
from tests.world import elapsed
from wire.endpoint import Endpoint
from wire.limits import REMOTE
from wire.peers.peer_messages import HeldPair, PeerInventory
from wire.pins import PinTable
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import PinnedTransport

OWN = digest_of("node-a")


@dataclass
class LiarPeer:
    """What it answers, by the first words of a path; 404 for the rest."""

    answers: dict[str, Callable[[], Response]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request.path)
        await request.body()
        for begin, answer in self.answers.items():
            if request.path.startswith(begin):
                return answer()
        raise HttpError(404, "not_found", "nothing")

    def say(self, path: str, body: object, status: int = 200) -> None:
        self.answers[path] = lambda: Response(status, [], body)

    def offer(self, head) -> None:
        pair = HeldPair(*head.envelope.version)
        self.say("/v1/inventory", PeerInventory(CLUSTER_ID, 1, {OWN: pair}).to_bytes())
        self.say(f"/v1/heads/{OWN}", head.to_bytes())
        self.say("/v1/standing", b"", 204)


@asynccontextmanager
async def liar_beside(made):
    """A peer that the map of the node names."""
    peer = LiarPeer()
    identity, der = node(made.lab.folder, "node-l")
    table = PinTable()
    table.add(made.outside.joining.identity.present().der, "node-a")
    routes = [HttpRoute(method, "/v1/{rest...}", peer, body_bytes=8 << 20) for method in ("GET", "POST")]
    server = Server("liar", Routes(*routes), PinnedTransport(table, identity.read(), REMOTE), REMOTE)
    listener, port = await tcp_listener()
    endpoint = Endpoint.parse(f"https://127.0.0.1:{port}", configured=True)
    listed = Peer("node-l", endpoint, frozenset({der}), is_manual=True)
    peers = made.outside.sources.peers
    peers.listed_peers = lambda: (listed,)
    async with running(server, listener):
        yield peer


@pytest.fixture
async def made(one, mock_clock):
    """node-a runs version 2 of its routes; 3 is listed by a head that only the peer has; the coordinator is down."""
    async with bench(one) as found:
        await found.settle()
        server = found.server
        old = server.snapshot({"routes": {"south": {"via": "b"}}}, ROUTES)
        server.announce()
        await found.outside.refresh.ask(found.coordinator)
        await found.outside.update.bring_up()
        before = server.head
        good = server.snapshot({"routes": {"west": {"via": "c"}}}, ROUTES)
        times = server.times()
        found.case = SimpleNamespace(
            good=good,
            old=old,
            cluster=server.cluster,
            server=server,
            for_another_node=server.cluster.forge(good, subject_node_id="node-b", **times).to_bytes(),
            of_another_cluster=Cluster(cluster_id="elsewhere").snapshot(**times).to_bytes(),
            head=server.announce(),
        )
        server.head = before
        server.down = True
        async with liar_beside(found) as peer:
            found.peer = peer
            peer.offer(found.case.head)
            yield found


def held(made):
    kept = made.node.holdings.kept
    active = {name: document.envelope_hash for name, document in kept.active.items() if name != "head"}
    return active, {name: mark for name, mark in kept.marks.items() if name != "head"}


def source(made):
    (found,) = made.outside.sources.peer_sources()
    return found


async def ask(made):
    await made.outside.peer_rounds.ask(source(made))
    await made.outside.update.bring_up()


async def the_truth_arrives(made, mock_clock):
    """From the coordinator; and what the peer gives next, once it has come to its senses."""
    server = made.server
    server.down = False
    server.head = made.case.head.to_bytes()
    mock_clock.jump(400)
    made.outside.wake()
    if made.node.holdings.held_head < made.case.head.envelope.version:
        await made.outside.refresh.ask(made.coordinator)
    await made.outside.update.bring_up()
    assert made.node.holdings.kept.active[ROUTES].version == (1, 3)
    after = server.snapshot({"routes": {"next": {}}}, ROUTES)
    head = server.announce()
    server.down = True
    made.peer.offer(head)
    made.peer.say("/v1/documents/", after.to_bytes())
    made.peer.answers.pop("/v1/manifests/", None)
    mock_clock.jump(400)
    made.outside.wake()
    await ask(made)
    assert made.node.holdings.kept.active[ROUTES].version == (1, 4)


@pytest.mark.parametrize("lie", LIES)
async def test_a_document_that_is_a_lie(made, mock_clock, lie):
    """rules S53, S86, X27, K5; threats D-48: the corpus of the liars among coordinators, from a peer"""
    spoil, reason = LIES[lie]
    made.peer.say("/v1/documents/", spoil(made.case.good.to_bytes(), made.case))
    before = held(made)
    await ask(made)
    assert held(made) == before
    record = await made.node.threads.read(made.node.store.rejections.ring)
    assert [rejection.reason for rejection in record if rejection.scope == ROUTES][-1:] == [reason]
    await the_truth_arrives(made, mock_clock)


# Who is forbidden a document has none, as where files are served (sources/source.py): others are asked.
@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - {"it is forbidden"}))
async def test_an_answer_that_is_none(made, mock_clock, name):
    """rules S53, X27; threats D-32: compressed, dripping, short, elsewhere"""
    answer, error = ANSWERS[name]
    made.peer.answers["/v1/documents/"] = lambda: answer(made.case.good.to_bytes())
    before = held(made)
    mock_clock.autojump_threshold, usual = 0.01, mock_clock.autojump_threshold
    await ask(made)
    mock_clock.autojump_threshold = usual
    assert held(made) == before
    assert error in source(made).error
    assert not source(made).is_rested
    await the_truth_arrives(made, mock_clock)


def another_manifest(case):
    """Of an older version under the envelope of the good one."""
    envelope, signatures = case.good.envelope_bytes, case.good.signatures
    return b"".join(container.encode(envelope, signatures, case.old.manifest_bytes, ()))


def without_sections(document):
    opening, manifest = read(document.to_bytes())
    return b"".join(container.encode(opening.envelope, opening.signatures, manifest, ()))


PIECES = {
    "no container": (lambda case: b"<html>", b"", "bad_container"),
    "another manifest": (another_manifest, b"", "content_mismatch"),
    "an older version": (lambda case: without_sections(case.old), b"", "not_listed"),
    "another section": (lambda case: without_sections(case.good), b'{"west":{"via":"x"}}', "content_mismatch"),
    "a short section": (lambda case: without_sections(case.good), b"{}", "content_mismatch"),
}


@pytest.mark.parametrize("name", PIECES)
async def test_pieces_that_do_not_make_what_was_signed(made, mock_clock, name):
    """rules S8, S53, K5: a manifest and sections are believed for the envelope alone, as a whole document is"""
    manifest, section, reason = PIECES[name]
    found = source(made)
    found.unattended = False  # so that it is asked for pieces, however few lie here
    peers = made.outside.sources.peers
    listed = peers.listed_peers()
    peers.listed_peers = lambda: tuple(replace(peer, automatic_refresh=False) for peer in listed)
    made.peer.say("/v1/manifests/", manifest(made.case))
    made.peer.say("/v1/sections/", section)
    before = held(made)
    await ask(made)
    assert held(made) == before
    record = await made.node.threads.read(made.node.store.rejections.ring)
    said = [rejection.reason for rejection in record if rejection.scope == ROUTES]
    assert reason in [*said[-1:], found.error.partition(":")[0]]
    peers.listed_peers = lambda: listed
    await the_truth_arrives(made, mock_clock)


def of_another_node(case):
    return case.server.cluster.head(subject_node_id="node-b", **case.server.times())


def of_a_stranger(case):
    return case.server.cluster.forge(case.head, keys=[Cluster(cluster_id="elsewhere").trusted["config-1"].key])


HEADS = {
    "garbage": lambda case: b"<html>",
    "cut": lambda case: case.head.to_bytes()[:-3],
    "another node's": lambda case: of_another_node(case).to_bytes(),
    "a document": lambda case: case.good.to_bytes(),
    "an older one": lambda case: case.server.head,
    "another cluster's": lambda case: case.of_another_cluster,
}


@pytest.mark.parametrize("name", HEADS)
async def test_a_head_that_is_none(made, mock_clock, name):
    """rules S53, K32, S41: what the inventory promised is not what came"""
    made.peer.say(f"/v1/heads/{OWN}", HEADS[name](made.case))
    before, head = held(made), made.node.holdings.held_head
    await ask(made)
    assert (held(made), made.node.holdings.held_head) == (before, head)
    assert source(made).error or name == "an older one"
    await the_truth_arrives(made, mock_clock)


INVENTORIES = {
    "no JSON": b"<html>",
    "too long": b" " * (PeerInventory.MOST_BYTES + 1),
    "another cluster's": PeerInventory("elsewhere", 1, {OWN: HeldPair(9, 9)}).to_bytes(),
    "a negative version": PeerInventory(CLUSTER_ID, 1, {}).to_bytes().replace(b":1}", b":-1}"),
    "bundles that are not there": PeerInventory(CLUSTER_ID, 99, {}).to_bytes(),
    "names for hashes": PeerInventory(CLUSTER_ID, 1, {OWN: HeldPair(1, 9)}).to_bytes().replace(OWN.encode(), b"node-a"),
}


@pytest.mark.parametrize("name", INVENTORIES)
async def test_an_inventory_that_is_none(made, mock_clock, name):
    """rules K5, J45: out of form, of another cluster, promising what nobody has"""
    made.peer.say("/v1/inventory", INVENTORIES[name])
    before, head = held(made), made.node.holdings.held_head
    await ask(made)
    assert (held(made), made.node.holdings.held_head) == (before, head)
    assert source(made).error or name == "bundles that are not there"
    await the_truth_arrives(made, mock_clock)


@pytest.mark.parametrize("path", ["/v1/inventory", f"/v1/heads/{OWN}", "/v1/documents/"])
async def test_what_never_ends_is_left(made, mock_clock, path):
    """threats E01, E02: a limit for each message"""
    made.peer.answers[path] = lambda: Response(200, [], endless(b"x" * 65536))
    before = held(made)
    await ask(made)
    assert held(made) == before
    assert source(made).error
    await the_truth_arrives(made, mock_clock)


async def test_who_says_nothing_costs_a_bounded_time(made, mock_clock):
    """rules X27, P13: and rests afterwards, as any source that fails"""

    async def silence():
        await trio.sleep_forever()
        yield b""

    made.peer.answers["/v1/inventory"] = lambda: Response(200, [], silence())
    mock_clock.autojump_threshold, usual = 0.01, mock_clock.autojump_threshold
    begun = trio.current_time()
    await made.outside.peer_rounds.ask(source(made))
    assert elapsed.since(begun) <= 31
    mock_clock.autojump_threshold = usual
    assert source(made).error
    assert not source(made).is_rested
    await the_truth_arrives(made, mock_clock)


async def test_peers_that_do_not_listen_are_said_once_and_asked_less_and_less(one, mock_clock):
    """rules X27, P14: a direct_url is no promise that somebody answers there"""
    async with bench(one) as found:
        await found.settle()
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # and does not listen
            endpoint = Endpoint.parse(f"https://127.0.0.1:{nobody.getsockname()[1]}", configured=True)
            pins = [frozenset({node(found.lab.folder, f"node-{number}")[1]}) for number in range(8)]
            listed = tuple(Peer(f"node-{n}", endpoint, pin, is_manual=True) for n, pin in enumerate(pins))
            found.outside.sources.peers.listed_peers = lambda: listed
            with capture_logs() as logs:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(found.outside.peer_rounds.run)
                    await trio.sleep(HOUR)
                    nursery.cancel_scope.cancel()
        said = [entry for entry in logs if entry["event"] == "nothing from a peer"]
        assert len(said) == len(listed)
        failures = [source.back_off.failures for source in found.outside.sources.peer_sources()]
        assert min(failures) >= 2
        assert max(failures) <= HOUR / 60, "with its back-off, and not each round"

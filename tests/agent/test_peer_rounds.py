"""What a node gets from its peers: heads, bundles and documents, from another agent over real TLS."""

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from agent.sources.peers import SCOPE
from agent.update.patience import LOOK_AGAIN_S, STRANGER_S
from agent.update.peer_rounds import OFTEN_S, QUIET_S
from tests.agent.bench import bench
from tests.agent.peer_lab import peer_lab
from tests.journeys.lab import ROUTES, lab
from tests.world import elapsed
from wire.backoff import LEAST_S
from wire.client import ClientError, ClientFault

pytestmark = pytest.mark.usefixtures("mock_clock")
B = "node-b"


@asynccontextmanager
async def asking_node(made, mock_clock, tmp_path):
    """And its directory: node-b, a member whose coordinator is down, and which knows node-a."""
    folder = tmp_path / "b"
    folder.mkdir()
    async with lab(folder, mock_clock, cluster=made.bench.server.cluster) as other:
        other.settings = replace(other.settings, node=replace(other.settings.node, node_id=B))
        other.clock = made.bench.lab.clock
        async with bench(other) as found:
            await found.enrol()
            pair = found.outside.joining.identity.present()
            made.asker(B, pair)
            await made.list(node_b={})
            boot = made.document("node_bootstrap", B, {"node": {"site_id": "ulm"}})
            certificate = base64.b64encode(made.own_der).decode()
            entry = {"url": "https://localhost.invalid:7447", "certificates": [certificate], "site_id": "ulm"}
            directory = made.document(SCOPE, B, {"peers": {"node-a": entry}})
            for document in (boot, directory, made.head(B, boot, directory)):
                await found.take(document)
            # Directories lead to no loopback; here it is where the other agent listens.
            own = found.outside.sources.peers
            listed = own.listed_peers()
            own.listed_peers = lambda: tuple(replace(peer, endpoint=made.to) for peer in listed)
            other.server.down = True
            yield found, directory


@pytest.fixture
async def made(one, mock_clock):
    async with peer_lab(one) as found:
        yield found


async def keep(made, *documents):
    for document in documents:
        await made.bench.inside.front.take(_once(document.to_bytes()))


async def _once(data):
    yield data


def peer_of(found):
    (source,) = found.outside.sources.peer_sources()
    return source


async def bring(found):
    await found.outside.peer_rounds.ask(peer_of(found))
    await found.outside.update.bring_up()


async def test_a_file_that_was_handed_to_a_neighbour_is_fetched_from_it(made, mock_clock, tmp_path):
    """rules K5, X28, S86: head first, then what it lists; verified as from anybody"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        boot = made.document("node_bootstrap", B, {"node": {"site_id": "ulm", "x": 1}})
        shared = made.document("qos_policy", sections={"classes": {"gold": {}}}, organization_ids=[])
        head = made.head(B, directory, boot, shared)
        await keep(made, boot, shared, head)
        await bring(found)
        active = found.node.holdings.kept.active
        assert found.node.holdings.held_head == head.envelope.version
        assert active["node_bootstrap"].envelope.snapshot_id == boot.envelope.snapshot_id
        assert found.outside.sources.peer_sources()[0].error == ""
        assert found.node.counters.of("heads_taken") == 1
        # A second round brings nothing, and asks for nothing but the inventory.
        asked = made.bench.node.counters.of("peer_requests")
        await bring(found)
        assert made.bench.node.counters.of("peer_requests") == asked + 1


async def test_a_link_that_is_cut_is_soon_noticed(made, mock_clock, tmp_path):
    """rules K5, X28: rounds are seldom while a coordinator answers; not for as long as one that was begun then lasts"""
    async with asking_node(made, mock_clock, tmp_path) as (found, _directory):
        await found.outside.sources.note_answer(found.coordinator)
        mock_clock.autojump_threshold = 0
        begun = trio.current_time()
        await found.outside.peer_rounds.pause(LEAST_S, found.outside.sources.wakes)
        assert QUIET_S <= elapsed.since(begun) <= QUIET_S + OFTEN_S
        begun = trio.current_time()
        await found.outside.peer_rounds.pause(LEAST_S, found.outside.sources.wakes)
        assert elapsed.since(begun) <= OFTEN_S * 1.2
        mock_clock.autojump_threshold = float("inf")


async def test_only_sections_that_are_lacking_are_asked_for(made, mock_clock, tmp_path):
    """rules K5, K37: the others lie here; the whole is judged as ever"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        sections = {f"part-{number}": {"n": number, "text": "x" * 2000} for number in range(20)}
        first = made.document("node_bootstrap", B, {"node": {"site_id": "ulm"}, **sections})
        await found.take(first)
        second = made.document("node_bootstrap", B, {"node": {"site_id": "ulm"}, **sections, "part-3": {"n": "new"}})
        await keep(made, second, made.head(B, directory, second))
        await bring(found)
        assert found.node.holdings.kept.active["node_bootstrap"].content_hash == second.envelope.content_hash
        assert found.node.counters.of("sections_fetched") == 1
        assert made.bench.node.counters.of("peer_sections_served") == 1


async def test_trust_bundles_are_followed_from_a_peer(made, mock_clock, tmp_path):
    """rules K5; format.md 8: from one that the peer follows, in order"""
    async with asking_node(made, mock_clock, tmp_path) as (found, _directory):
        server = made.bench.server
        for _ in range(2):
            server.publish(server.cluster.trust_bundle())
        assert await made.bench.outside.update.trust.refresh(made.bench.coordinator, urgent=True)
        await found.outside.peer_rounds.ask(peer_of(found))
        assert found.node.holdings.bundle.version == 3


async def test_a_resync_that_nobody_has_allowed_waits_for_the_operator(made, mock_clock, tmp_path):
    """rules K7, K38: without automatic_refresh what is not held is `refresh_required`, and a change comes"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        peers = found.outside.sources.peers
        listed = peers.listed_peers()
        peers.listed_peers = lambda: tuple(replace(peer, automatic_refresh=False) for peer in listed)
        boot = made.document("node_bootstrap", B, {"node": {"site_id": "ulm", "x": 1}})
        policy = made.document("degraded_mode_policy", B, {"policy": {}}, roles=[])
        head = made.head(B, directory, boot, policy)
        await keep(made, boot, policy, head)
        await bring(found)
        active = found.node.holdings.kept.active
        assert active["node_bootstrap"].envelope.snapshot_id == boot.envelope.snapshot_id
        assert "degraded_mode_policy" not in active
        assert found.node.gaps.refresh_required == {"degraded_mode_policy"}
        mock_clock.jump(2)  # the floor of whatever is tried again
        found.outside.wake()
        await found.outside.update.bring_up()
        brought = found.node.holdings.kept.active["degraded_mode_policy"]
        assert brought.envelope.snapshot_id == policy.envelope.snapshot_id
        assert not found.node.gaps.refresh_required


async def test_a_peer_that_has_restarted_is_shown_the_head_again(made, mock_clock, tmp_path):
    """rules K5, X28: what it was shown it kept in memory; it is asked no document without, and gives none"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        boot = made.document("node_bootstrap", B, {"node": {"site_id": "ulm", "x": 1}})
        head = made.head(B, directory, boot)
        await found.take(head)
        await bring(found)
        made.listener.api._standings.shown.clear()  # it has restarted
        await keep(made, boot)
        mock_clock.jump(400)
        await found.outside.update.bring_up()
        active = found.node.holdings.kept.active
        assert active["node_bootstrap"].envelope.snapshot_id == boot.envelope.snapshot_id


async def test_a_peer_is_shown_the_head_that_waits_for_what_it_gives(made, mock_clock, tmp_path):
    """rules K5, L19, X17: it gives what the head lists that it was shown; a copy more would go over the site's link"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory), trio.open_nursery() as nursery:
        update = found.outside.update
        nursery.start_soon(update.run)
        boot = made.document("node_bootstrap", B, {"node": {"site_id": "ulm", "x": 1}})
        await keep(made, boot)
        await trio.testing.wait_all_tasks_blocked(0.01)
        before = found.node.holdings.kept.generation
        head = made.head(B, directory, boot)
        assert await update.accept_head(head.to_bytes(), found.coordinator)
        active = found.node.holdings.kept.active
        assert active["node_bootstrap"].envelope.snapshot_id == boot.envelope.snapshot_id
        assert (found.node.holdings.held_head, found.node.holdings.kept.generation) == (
            head.envelope.version, before + 1,
        )  # fmt: skip
        nursery.cancel_scope.cancel()


async def test_a_newcomer_waits_a_moment_for_a_relay_that_does_not_know_it_yet(made, mock_clock, tmp_path):
    """rules X27, L19: nobody else is asked meanwhile, so no copy more goes over the link of the site"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        shared = await strangers(made, found, directory)
        await bring(found)
        assert ROUTES not in found.node.holdings.kept.active
        assert (peer_of(found).is_rested, peer_of(found).back_off.failures) == (True, 0)
        await made.list(node_b={})
        await trio.sleep(LOOK_AGAIN_S)
        await found.outside.update.bring_up()
        assert found.node.holdings.kept.active[ROUTES].envelope.snapshot_id == shared.envelope.snapshot_id
        assert found.outside.update.activating.origins[ROUTES].way == "relay"


async def test_a_relay_that_never_learns_of_it_is_not_waited_for_again_and_again(made, mock_clock, tmp_path):
    """rules P14: a moment once, until it has worked; then it rests as whoever fails"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        await strangers(made, found, directory)
        await bring(found)
        await trio.sleep(STRANGER_S)
        await bring(found)
        assert peer_of(found).back_off.failures > 0
        assert not peer_of(found).is_rested
        patience, error = found.outside.update.fetching.patience, ClientError(ClientFault.TLS_FAILED, "unknown ca")
        assert not patience.is_stranger_yet(peer_of(found), error)
        peer_of(found).note_success()
        await trio.sleep(1)
        assert patience.is_stranger_yet(peer_of(found), error), "it has worked meanwhile: it may forget and learn again"
        down = ClientError(ClientFault.CONNECT_FAILED, "refused")
        assert not patience.is_stranger_yet(peer_of(found), down), "one that does not answer is left out at once"


async def test_a_relay_that_lets_it_in_between_holds_up_no_change_for_longer(made, mock_clock, tmp_path):
    """rules X27: of one that works and refuses by turns each change waits `[peers] relay_wait_s` at most, all in all"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        shared = await strangers(made, found, directory)
        patience, error = found.outside.update.fetching.patience, ClientError(ClientFault.TLS_FAILED, "unknown ca")
        wanted = SimpleNamespace(listed=SimpleNamespace(snapshot_id=shared.envelope.snapshot_id))
        begun = trio.current_time()
        while patience.is_to_wait(peer_of(found), wanted, error) and elapsed.since(begun) < 3 * patience.most_s:
            await trio.sleep(STRANGER_S / 2)
            peer_of(found).note_success()  # it answers a round of peers
            await trio.sleep(1)
        assert elapsed.since(begun) < patience.most_s + STRANGER_S
        later = SimpleNamespace(listed=SimpleNamespace(snapshot_id="another"))
        assert patience.is_to_wait(peer_of(found), later, error), "the next change has its own wait"


async def strangers(made, found, directory):
    """node-a is the relay of the site, has what is to come, and its own directory does not name node-b."""
    own = found.outside.sources.peers
    listed = own.listed_peers()
    own.listed_peers = lambda: tuple(replace(peer, is_relay=True) for peer in listed)
    del made.entries[B]
    await made.list()
    await made.listener._transport.wait_settled()
    shared = made.document(ROUTES, sections={"routes": {"a": {}}})
    await made.bench.take(shared)
    boot = found.node.holdings.kept.active["node_bootstrap"]
    await found.take(made.head(B, SimpleNamespace(envelope=boot.envelope), directory, shared, config_version=90))
    return shared


@pytest.mark.parametrize("kind", ["snapshot", "increment"])
async def test_a_relay_shows_which_organizations_it_serves(made, mock_clock, tmp_path, kind):
    """rules K5, J45: by its signed runtime, whole or as an increment; who is no relay shows none"""
    async with asking_node(made, mock_clock, tmp_path) as (found, directory):
        standings = made.listener.api._standings
        boot = SimpleNamespace(envelope=found.node.holdings.kept.active["node_bootstrap"].envelope)
        runtime = made.document("node_runtime", B, {"node": {"a": 1}})
        await found.take(runtime)
        listed = runtime
        if kind == "increment":
            given = {"roles": ["core_mesh"], "subject_node_id": B, "organization_ids": ["acme"]}
            given |= made.bench.server.times()
            patches = {"node": [{"op": "add", "path": "/b", "value": 2}]}
            await found.take(made.bench.server.cluster.increment("node_runtime", patches=patches, **given))
            listed = SimpleNamespace(envelope=found.node.holdings.kept.active["node_runtime"].envelope)
            assert found.node.holdings.kept.active["node_runtime"].kind == "increment"
        await found.take(made.head(B, boot, directory, listed, config_version=90))
        await bring(found)
        assert standings.shown[B].organizations == frozenset(), "it is no relay"
        found.node.settings = replace(found.node.settings, peers=replace(found.node.settings.peers, relay=True))
        await found.take(made.head(B, boot, directory, listed, config_version=91))
        await bring(found)
        assert standings.shown[B].organizations == {"acme"}
        assert peer_of(found).back_off.failures == 0

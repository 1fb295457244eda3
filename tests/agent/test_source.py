"""Documents come from storage, from peers and from files as well as from a coordinator, over the wire."""

import base64
import os
import signal
import time

import pytest
import trio

from agent.config.configuration import MapEntry, TrustTable
from agent.sources.source import document_place
from agent.state.origins import ROW, from_row
from snapshot.manifest import Revocations
from store.base.tables import Name
from tests.fakes.cluster import HOUR, NODE_ID, listing
from tests.fakes.storage import StorageServer, own_address, serving_files, write_tree
from tests.journeys.lab import POLICY, ROUTES
from tests.logs import capture_logs
from tests.world import elapsed
from wire.certificate import make_identity
from wire.request import Response

STORAGE, PEERS, POLICY_SCOPE = "storage_directory", "peer_directory", "degraded_mode_policy"


def allow_storage(one):
    one.server.snapshot({"policy": POLICY | {"allow": ["use_storage_endpoints", "reconnect_peers"]}}, POLICY_SCOPE)


async def told(one, scope, sections):
    """The node holds this directory."""
    allow_storage(one)
    made = one.server.snapshot(sections, scope)
    one.server.announce()
    await one.until_active(scope, made.envelope.config_version)
    await one.until_active(POLICY_SCOPE, 2)


def no_documents(path, data):
    return b"" if path.startswith("/v1/documents") else data


async def test_storage_gives_what_the_coordinator_does_not(one, mock_clock):
    """rules S64, S2, L19: the next source in the order of protocol.md 1, over its own TLS chain, verified the same"""
    async with StorageServer(one.server, one.folder / "storage").running() as storage, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": storage.url}}})
        one.server.spoil = no_documents
        new = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        assert f"GET /v1/documents/{new.envelope.snapshot_id}" in storage.server.requests
        assert one.rejected(ROUTES) == "bad_container"
        origins = (await one.status())["origins"]
        brought = {"source": storage.url, "way": "storage", "kind": "snapshot"}
        assert origins[ROUTES] == {"snapshot_id": new.envelope.snapshot_id, **brought}
        assert origins[STORAGE]["source"].startswith("https://127.0.0.1:")
        health = one.node.store.table(Name.HEALTH)
        named = {*one.node.holdings.scopes, "trust_bundle"}
        await one.until(lambda: from_row(health.get(ROW)).keys() == named)
    async with one.agent():
        assert (await one.status())["origins"] == origins, "it outlives the process"


async def test_storage_confirms_while_the_coordinator_is_gone(for_hours, mock_clock):
    """rules S55e, S64, L14, P16: its head is as fresh as the coordinator's own, and a lie of it is none"""
    one = for_hours
    async with StorageServer(one.server, one.folder / "storage").running() as storage, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": storage.url}}})
        one.server.down = True
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        storage.server.spoil = lambda path, data: data[:-1] + b"?" if path.startswith("/v1/documents") else data
        storage.server.say(one.server.announce())
        await one.until(lambda: one.rejected(ROUTES) == "content_mismatch")
        assert one.version(ROUTES) == 1
        storage.server.spoil = lambda _, data: data
        await one.until_active(ROUTES, 2)
        for _ in range(3):
            await trio.sleep(HOUR / 4)
            storage.server.say(one.server.announce())
        await one.until(lambda: one.state == "active")
        rows = {row["kind"]: row for row in (await one.status())["sources"]}
        assert rows["coordinator"]["error"] != ""
        assert rows["storage"]["error"] == ""


async def test_a_peer_is_asked_over_its_pinned_certificate(one, mock_clock):
    """rules S64, X11, P20, threats D-31: another certificate than the pinned one is nobody, and status and report say
    so; documents only
    """
    pair = make_identity("node-b", time.time())
    async with StorageServer(one.server, one.folder / "peer", pair).running() as peer, one.agent():
        await one.settled()
        other = base64.b64encode(make_identity("node-b", time.time()).der).decode()
        await told(one, PEERS, {"peers": {"node-b": {"url": peer.url, "certificates": [other]}}})
        one.server.spoil = no_documents
        new = one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await until_error(one, "peer", "peer_pin_mismatch")
        await until_reported(one, "peer_pin_mismatch", 1)
        assert peer.server.requests == []
        pinned = base64.b64encode(pair.der).decode()
        one.server.spoil = lambda _, data: data
        one.server.snapshot({"peers": {"node-b": {"url": peer.url, "certificates": [pinned]}}}, PEERS)
        await one.until_active(ROUTES, 2)
        one.server.announce()
        await one.until_active(PEERS, 2)
        one.server.spoil = no_documents
        new = one.server.snapshot({"routes": {"west": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 3)
        assert f"GET /v1/documents/{new.envelope.snapshot_id}" in peer.server.requests
        assert not any("head" in request for request in peer.server.requests)
        await until_reported(one, "peer_pin_mismatch", 0)


async def test_what_is_coming_comes_from_storage_and_the_vote_goes_to_the_coordinator(one, mock_clock):
    """A candidate is a document as any other: whoever has it may give it"""
    async with StorageServer(one.server, one.folder / "storage").running() as storage, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": storage.url}}})
        one.server.spoil = no_documents
        coming = one.server.propose({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        (vote,) = (await one.server.wait_heartbeat(lambda report: report.votes)).votes
        assert (vote.snapshot_id, vote.verdict) == (coming.envelope.snapshot_id, "accepted")
        assert f"GET /v1/documents/{coming.envelope.snapshot_id}" in storage.server.requests
        assert one.version(ROUTES) == 1
        asked = len(storage.server.requests)
        one.server.release(ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)
        assert not any("documents" in request for request in storage.server.requests[asked:])


async def test_what_is_coming_by_files_alone_is_judged_and_voted_on_once_there_is_whom_to_tell(one, mock_clock):
    """The tree has candidates, too; while no coordinator hears the node it is one that is away, and its status says
    what it has made of it. What is done meanwhile it runs out of its slot.
    """
    tree = one.folder / "tree"
    async with serving_files(tree, one.server.authority, own_address()) as url, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": url}}})
        one.server.down = True
        coming = one.server.propose({"routes": {"south": {}}}, ROUTES)
        other = one.server.propose({"qos": {}}, "qos_policy", listed={"change": "c-2"})
        one.server.announce()
        write_tree(one.server, tree, NODE_ID)
        said = await judged(one)
        assert {scope: (each["change"], each["verdict"]) for scope, each in said.items()} == {
            ROUTES: ("c-1", "accepted"),
            "qos_policy": ("c-2", "accepted"),
        }
        assert one.version(ROUTES) == 1
        one.server.release(ROUTES)
        one.server.announce()
        write_tree(one.server, tree, NODE_ID)
        await one.until_active(ROUTES, 2)
        assert one.node.holdings.kept.active[ROUTES].envelope.snapshot_id == coming.envelope.snapshot_id
        one.server.down = False
        (vote,) = (await one.server.wait_heartbeat(lambda report: report.votes)).votes
        assert (vote.snapshot_id, vote.verdict) == (other.envelope.snapshot_id, "accepted")


async def test_an_increment_and_a_recovery_come_by_files_alone(one, mock_clock):
    """rules S27, S86, S64: the whole document is not fetched where an increment lies there, and what root keys allow
    needs no coordinator
    """
    tree = one.folder / "tree"
    async with serving_files(tree, one.server.authority, own_address()) as url, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": url}}})
        first = one.server.cluster.published[ROUTES]
        one.server.down = True
        one.server.publish_increment(ROUTES, sets={"routes": {"south": {}}})
        one.server.announce()
        write_tree(one.server, tree, NODE_ID)
        listed = one.server.cluster.published[ROUTES].envelope.snapshot_id
        (tree / document_place(listed).file.removeprefix("/")).unlink()
        await one.until_active(ROUTES, 2)
        one.server.cluster.published[ROUTES] = first
        one.server.publish(one.server.cluster.recovery(first))
        one.server.announce()
        write_tree(one.server, tree, NODE_ID)
        await one.until_active(ROUTES, 1)


async def judged(one) -> dict[str, dict[str, object]]:
    """What the status says of what is coming, once something is, and all of it was judged."""
    with trio.fail_after(HOUR):
        while True:
            said = (await one.status())["candidates"]
            if said and all(each["verdict"] != "awaited" for each in said.values()):
                return said
            await trio.sleep(1)


class Transfer:
    """A document that takes half a minute to come."""

    def __init__(self):
        self.begun, self.ended = trio.Event(), trio.Event()
        self.was_whole = False

    def slowly(self, path, data):
        async def pieces():
            try:
                self.begun.set()
                for start in range(0, len(data), 512):
                    yield data[start : start + 512]
                    await trio.sleep(0.25)
                self.was_whole = True
            finally:
                self.ended.set()

        return Response(200, [("content-length", str(len(data)))], pieces())


def listed_but(one, scope):
    listed = {name: listing(made) for name, made in one.cluster.published.items() if name not in ("head", scope)}
    return {"scopes": listed}


@pytest.mark.parametrize(
    ("change", "is_cut_off"),
    [
        (lambda one: {"revocations": Revocations(version=1, node_ids=frozenset({"node-b"}))}, True),
        (lambda one: listed_but(one, PEERS), True),
        (lambda one: {}, False),
    ],
    ids=["revoked", "withdrawn", "stays"],
)
async def test_a_transfer_from_a_peer_that_is_removed_is_cut_off(one, mock_clock, change, is_cut_off):
    """threats D-49, rules S61: within a second of the head that says so; the next source is asked"""
    pair = make_identity("node-b", time.time())
    async with StorageServer(one.server, one.folder / "peer", pair).running() as peer, one.agent():
        await one.settled()
        pins = [base64.b64encode(pair.der).decode()]
        await told(one, PEERS, {"peers": {"node-b": {"url": peer.url, "certificates": pins}}})
        transfer = Transfer()
        peer.server.instead = transfer.slowly
        one.server.spoil = no_documents
        one.server.snapshot({"routes": {"way": {"padding": "x" * 60_000}}}, ROUTES)
        one.server.announce()
        await transfer.begun.wait()
        await trio.sleep(5)
        one.server.spoil, removed_at = lambda _, data: data, trio.current_time()
        one.server.announce(**change(one))
        await transfer.ended.wait()
        assert (elapsed.since(removed_at) <= 1) is is_cut_off
        assert transfer.was_whole is not is_cut_off
        await one.until_active(ROUTES, 2)
        rows = [row["kind"] for row in (await one.status())["sources"]]
        assert ("peer" in rows) is not is_cut_off


async def until_reported(one, counter, number):
    with trio.fail_after(HOUR):
        await one.server.wait_heartbeat(lambda report: report.counters.get(counter, 0) == number)


async def until_error(one, kind, words):
    """The status says so; what a source is like wakes nobody, so it is looked at as time goes by."""
    with trio.fail_after(HOUR):
        while True:
            sources = (await one.status())["sources"]
            if any(row["kind"] == kind and words in row["error"] for row in sources):
                return
            await trio.sleep(1)


async def test_a_tree_of_files_feeds_a_node_whose_coordinator_is_gone(for_hours, mock_clock):
    """rules S2, S64, L14, S36: head, documents and trust bundles from a plain file server; nothing to a coordinator"""
    one = for_hours
    tree = one.folder / "tree"
    async with serving_files(tree, one.server.authority, own_address()) as url, one.agent():
        await one.settled()
        await told(one, STORAGE, {"endpoints": {"s1": {"url": url}}})
        one.server.down = True
        one.cluster.trust("config-more")
        one.server.publish(one.cluster.trust_bundle(**one.server.times()))
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        write_tree(one.server, tree, NODE_ID)
        await one.until_active(ROUTES, 2)
        assert one.node.holdings.bundle.version == 2
        for _ in range(3):
            await trio.sleep(HOUR / 4)
            last = one.server.announce().envelope.version
            write_tree(one.server, tree, NODE_ID)
        await one.until(lambda: one.node.holdings.held_head == last)
        assert one.state == "active"
        await one.until(lambda: one.state == "degraded")  # nobody writes the tree any more: it is a frozen source
        assert one.node.holdings.held_head == last


# ---- a manual map


def by_hand(one, *entries):
    """The same node without a coordinator."""
    bundle = one.folder / "trust.hfs"
    bundle.write_bytes(one.server.bundles[0])
    return {"coordinator": None, "manual": entries, "trust": TrustTable(bundle_file=bundle)}


async def test_a_manual_map_works_without_a_coordinator(one, mock_clock):
    """rules P22, K2, K3: the first bundle is a file, the rest a tree; no join, no report"""
    tree = one.folder / "tree"
    write_tree(one.server, tree, NODE_ID)
    async with serving_files(tree, one.server.authority, "127.0.0.1") as url:
        entry = MapEntry(url=url, ca_file=one.server.ca_file, automatic_refresh=True)
        with capture_logs() as logs:
            async with one.agent(**by_hand(one, entry)):
                await one.settled()
                assert one.node.store.enrolment.trusted_by == "installed bundle"
                status = await one.status()
                assert [row["kind"] for row in status["sources"]] == ["manual"]
                assert status["rollback_check"] == "unconfirmed"
                one.server.snapshot({"routes": {"south": {}}}, ROUTES)
                one.server.announce()
                write_tree(one.server, tree, NODE_ID)
                await one.until_active(ROUTES, 2)
                assert one.server.requests == []
                assert one.server.heartbeats == []
        (taken,) = [line for line in logs if line["event"] == "trust bundle taken"]
        assert taken["source"] == "installed bundle"


async def test_without_automatic_refresh_an_operator_asks(one, mock_clock):
    """rules K7, K38: what is needed whole is said, and fetched once the operator says so"""
    tree = one.folder / "tree"
    write_tree(one.server, tree, NODE_ID)
    async with serving_files(tree, one.server.authority, "127.0.0.1") as url:
        async with one.agent(**by_hand(one, MapEntry(url=url, ca_file=one.server.ca_file))):
            await one.until(lambda: ROUTES in one.node.gaps.refresh_required)
            assert one.version(ROUTES) is None
            assert ROUTES in (await one.status())["refresh_required"]
            os.kill(os.getpid(), signal.SIGHUP)
            await one.settled()
            assert (await one.status())["refresh_required"] == []


async def test_a_missing_first_bundle_is_said(one, mock_clock):
    """rules K2, K3"""
    settings = by_hand(one, MapEntry(url="https://127.0.0.1:1", ca_file=one.server.ca_file))
    settings["trust"].bundle_file.unlink()
    async with one.agent(**settings):
        await one.until(lambda: one.node.counters.of("joins_failed") > 0)
        assert (one.state, one.cause) == ("unenrolled", "unusable_file")
        settings["trust"].bundle_file.write_bytes(one.server.bundles[0])
        await one.until(lambda: one.node.membership.is_member)

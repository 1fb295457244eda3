"""A relay of its site: what it fetches for itself it keeps for its neighbours, as it came."""

import errno
import hashlib
from dataclasses import replace

import pytest
import trio

from agent.peers.coming import HEADS_APART_S
from agent.relay.fetch_budget import HOUR_S, ROW, STEPS, FetchBudget
from agent.relay.handing_out import HandingOut
from agent.relay.neighbour_heads import HEAD_REST_S
from agent.sources.source import document_place, head_place
from store.base.tables import Name
from store.relay import RelayBounds, RelayStore, digest_of
from tests.agent.peer_lab import peer_lab
from tests.fakes.storage import own_address, serving_files
from tests.journeys.lab import ROUTES
from tests.world import elapsed
from wire.client import ClientError

pytestmark = pytest.mark.usefixtures("mock_clock")
SHARED = {"subject_node_id": "*", "roles": ["core_mesh"], "organization_ids": ["acme"]}
COMING, GONE = (503, "coming"), (404, "not_found")


@pytest.fixture
async def made(one, mock_clock):
    async with peer_lab(one) as found:
        become_relay(found, relay=True)
        yield found


def become_relay(made, *, relay):
    node = made.bench.node
    node.settings = replace(node.settings, peers=replace(node.settings.peers, relay=relay))


async def follow(made):
    """The next head, and what it lists."""
    made.bench.server.announce()
    await made.bench.outside.refresh.ask(made.bench.coordinator)
    await made.bench.outside.update.bring_up()


async def test_a_relay_hands_on_what_it_fetched_whole_and_as_an_increment(made, mock_clock):
    """rules K5, S25, L19: byte for byte, to whom a signed head lists it; what is this node's alone goes to nobody"""
    b, stranger = made.asker("node-b"), made.asker("node-c")
    await made.list(node_b={}, node_c={"site_id": "bonn"})
    server = made.bench.server
    first = server.snapshot({"routes": {"a": {"via": "x"}}}, ROUTES, **SHARED)
    own = server.snapshot({"node": {"site": "ulm"}}, "node_bootstrap")
    await follow(made)
    await b.show(made.head("node-b", first))
    assert (await b.ask("documents", first.envelope.snapshot_id)).body == first.to_bytes()
    step = server.publish_increment(ROUTES, patches={"routes": [{"op": "add", "path": "/b", "value": {}}]}, **SHARED)
    whole = server.cluster.published[ROUTES]
    await follow(made)
    held = made.bench.node.holdings.kept.active[ROUTES]
    assert (held.kind, held.envelope.config_version) == ("increment", 3)
    await b.show(made.head("node-b", whole, config_version=50))
    base = first.envelope.config_version
    assert (await b.ask("increments", ROUTES, base=base)).body == step.to_bytes()
    assert await b.refusal("increments", ROUTES, base=base + 1) == GONE
    assert await b.refusal("increments", ROUTES) == GONE
    assert await stranger.refusal("increments", ROUTES, base=base) == GONE, "no head of its own lists it"
    assert made.bench.outside.relay.store.document(own.envelope.snapshot_id) is None


async def test_while_it_fetches_a_relay_says_so(made, mock_clock):
    """What its own head lists is coming; what only the asker's does is for a moment; who is no relay says nothing"""
    b = made.asker("node-b")
    await made.list(node_b={})
    server, bench = made.bench.server, made.bench
    ahead = made.document(ROUTES, sections={"routes": {"a": {}}})
    name = ahead.envelope.snapshot_id
    assert await b.refusal("documents", name) == GONE, "nobody has shown a head that lists it"
    await b.show(made.head("node-b", ahead, config_version=50))
    assert await b.refusal("documents", name) == COMING
    await trio.sleep(HEADS_APART_S)
    assert await b.refusal("documents", name) == GONE, "it is not this node's, or its head is late"
    listed = server.snapshot({"routes": {"b": {}}}, ROUTES, **SHARED)
    server.announce()
    await bench.outside.refresh.ask(bench.coordinator)
    await b.show(made.head("node-b", listed, config_version=60))
    await trio.sleep(2 * HEADS_APART_S)
    assert await b.refusal("documents", listed.envelope.snapshot_id) == COMING
    assert await b.refusal("increments", ROUTES, base=1) == COMING
    assert await b.refusal("increments", ROUTES, base=9) == GONE, "its base is another one"
    become_relay(made, relay=False)
    assert await b.refusal("documents", listed.envelope.snapshot_id) == GONE
    become_relay(made, relay=True)
    await bench.outside.update.bring_up()
    assert (await b.ask("documents", listed.envelope.snapshot_id)).body == listed.to_bytes()


async def test_a_full_relay_follows_all_the_same(made, mock_clock):
    """rules L35: no room for neighbours is a line in the log; and the oldest documents go first"""
    store = made.bench.outside.relay.store
    made.asker("node-b")
    await made.list(node_b={})
    await follow(made)
    store.bounds = RelayBounds(10, 10)
    document = made.bench.server.snapshot({"routes": {"a": {}}}, ROUTES, **SHARED)
    await follow(made)
    assert made.bench.node.holdings.kept.active[ROUTES].envelope.snapshot_id == document.envelope.snapshot_id
    assert (store.used_bytes(), store.used_files()) == (0, 0)
    store.bounds = RelayBounds(1 << 20, 1)
    for number in range(3):
        document = made.bench.server.snapshot({"routes": {f"a{number}": {}}}, ROUTES, **SHARED)
        await follow(made)
    assert store.used_files() == 1
    said = made.bench.inside.front.report().relay
    assert (said.heads, said.documents, said.most_bytes) == (0, 1, 1 << 20)
    assert said.bytes == store.used_bytes() > 0
    assert store.document(document.envelope.snapshot_id) is not None


async def test_what_is_kept_outlives_a_restart(made, mock_clock):
    """What is no container, or lies under another's name, goes"""
    server, relay = made.bench.server, made.bench.outside.relay
    first = server.snapshot({"routes": {"a": {}}}, ROUTES, **SHARED)
    await follow(made)
    server.publish_increment(ROUTES, patches={"routes": [{"op": "add", "path": "/b", "value": {}}]}, **SHARED)
    await follow(made)
    before, paths = relay.store, made.bench.node.store.paths
    (paths.relay / "increments" / "junk.hfs").write_bytes(b"x")
    again = RelayStore(paths.relay, made.bench.disk, paths.temporary, before.bounds, made.bench.node.holder().limits)
    again.load()
    assert again.used_files() == before.used_files() >= 2
    kept = again.increment(ROUTES, first.envelope.config_version)
    assert kept is not None
    assert again.read(kept) == before.read(kept)
    assert not (paths.relay / "increments" / "junk.hfs").exists()


async def test_heads_of_neighbours_come_from_storage_and_go_to_those_without_a_link(made, mock_clock):
    """rules L14, K5: with what they list; a head in its time is not asked for again, a damaged one is not kept"""
    b = made.asker("node-b")
    made.asker("node-c")
    await made.list(node_b={}, node_c={"site_id": "bonn"})
    server, bench = made.bench.server, made.bench
    server.snapshot({"node": {"site_id": "ulm"}}, "node_bootstrap")
    tree = made.folder / "tree"
    async with serving_files(tree, server.authority, own_address()) as url:
        server.snapshot({"endpoints": {"s1": {"url": url}}}, "storage_directory")
        await follow(made)
        become_relay(made, relay=True)
        document = made.document("qos_policy", sections={"classes": {"gold": {}}})
        head = made.head("node-b", document, config_version=70)
        head_file, document_file = (
            head_place("node-b", (0, 0), 0).file,
            document_place(document.envelope.snapshot_id).file,
        )
        elsewhere = tree / head_place("node-c", (0, 0), 0).file[1:]
        elsewhere.parent.mkdir(parents=True)
        elsewhere.write_bytes(made.head("node-c").to_bytes())
        for file, data in ((head_file, head.to_bytes()[:-1] + b"?"), (document_file, document.to_bytes())):
            (tree / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            (tree / file[1:]).write_bytes(data)
        await bench.outside.neighbour_heads.round()
        assert not (await b.inventory()).heads
        (tree / head_file[1:]).write_bytes(head.to_bytes())
        await bench.outside.neighbour_heads.round()
        assert not (await b.inventory()).heads, "it is not asked for each minute"
        await trio.sleep(HEAD_REST_S)
        await bench.outside.neighbour_heads.round()
        assert bench.outside.relay.head_for("node-c") is None, "it stands elsewhere"
        assert {pair.pair for pair in (await b.inventory()).heads.values()} == {head.envelope.version}
        assert (await b.head("node-b")).body == head.to_bytes()
        await b.show(head)
        assert (await b.ask("documents", document.envelope.snapshot_id)).body == document.to_bytes()
        (tree / head_file[1:]).unlink()
        await bench.outside.neighbour_heads.round()
        assert (await b.head("node-b")).body == head.to_bytes(), "it is in its time, and nobody is asked"


async def test_what_lies_here_already_and_cannot_be_given_is_not_coming(made, mock_clock):
    """rules X27: active by an increment a relay has no whole copy, and fetches none: nobody waits for it"""
    b = made.asker("node-b")
    await made.list(node_b={})
    server = made.bench.server
    first = server.snapshot({"routes": {"a": {"via": "x"}}}, ROUTES, **SHARED)
    await follow(made)
    server.publish_increment(ROUTES, patches={"routes": [{"op": "add", "path": "/b", "value": {}}]}, **SHARED)
    whole = server.cluster.published[ROUTES]
    await follow(made)
    await b.show(made.head("node-b", whole, config_version=50))
    name = whole.envelope.snapshot_id
    assert await b.refusal("documents", name) == GONE, "who has no base asks the coordinator at once"
    assert await b.refusal("manifests", name) == GONE
    assert await b.refusal("increments", ROUTES, base=first.envelope.config_version + 7) == GONE


async def test_a_damaged_head_that_is_kept_for_one_keeps_nobody_from_asking(made, mock_clock):
    """rules L35: it is as if it were not there; its node is known by what it shows"""
    b, c = made.asker("node-b"), made.asker("node-c")
    await made.list(node_b={}, node_c={})
    relay = made.bench.outside.relay
    head = made.head("node-c", made.document("qos_policy"), config_version=7)
    assert await relay.take(_once(head.to_bytes()), head.envelope)
    kept = relay.store.head_of(digest_of("node-c"))
    kept.file.write_bytes(head.to_bytes()[: head.to_bytes().index(head.manifest_bytes)])
    assert (await b.inventory()).cluster_id
    assert await c.show(made.head("node-c", config_version=6))
    assert (await c.inventory()).cluster_id
    assert (await c.head("node-c")).status == 204, "it was dropped"


async def test_a_damaged_document_keeps_nobody_from_the_sections_of_others(made, mock_clock):
    """rules L35, K5: nor is it looked into for who may not have it"""
    b = made.asker("node-b")
    await made.list(node_b={})
    relay = made.bench.outside.relay
    bad = made.document("qos_policy", sections={"classes": {"gold": {}}})
    good = made.document(ROUTES, sections={"routes": {"a": {}}})
    for document in (bad, good):
        assert await relay.take(_once(document.to_bytes()), document.envelope)
    relay.store.document(bad.envelope.snapshot_id).file.write_bytes(bad.to_bytes()[:-40])
    kept = relay.store.document(bad.envelope.snapshot_id).file
    kept.write_bytes(bad.to_bytes()[: bad.to_bytes().index(bad.manifest_bytes)])
    await b.show(made.head("node-b", good, bad))
    section = hashlib.sha256(good.sections[0]).hexdigest()
    assert (await b.ask("sections", section)).body == good.sections[0]
    assert await b.refusal("sections", hashlib.sha256(bad.sections[0]).hexdigest()) == GONE


async def test_what_has_no_room_travels_over_the_link_once(made, mock_clock):
    """rules P14: where neighbours are to have more than fits, one does not push out the other each minute"""
    made.asker("node-b")
    await made.list(node_b={})
    server, bench = made.bench.server, made.bench
    server.snapshot({"node": {"site_id": "ulm"}}, "node_bootstrap")
    tree = made.folder / "tree"
    async with serving_files(tree, server.authority, own_address()) as url:
        server.snapshot({"endpoints": {"s1": {"url": url}}}, "storage_directory")
        await follow(made)
        bench.outside.relay.store.bounds = RelayBounds(1 << 20, 2)
        documents = [made.document(f"service_assignment/web{number}", "node-b") for number in range(3)]
        head = made.head("node-b", *documents, config_version=70)
        files = {document_place(each.envelope.snapshot_id).file: each for each in documents}
        for file, container in (files | {head_place("node-b", (0, 0), 0).file: head}).items():
            (tree / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            (tree / file[1:]).write_bytes(container.to_bytes())
        for _ in range(4):
            await bench.outside.neighbour_heads.round()
            await trio.sleep(60)
        assert bench.node.counters.of("relay_files_fetched") <= 4
        assert bench.outside.relay.store.used_files() == 2


async def test_a_file_that_is_handed_in_slowly_holds_up_no_update(made, mock_clock):
    """rules X28, L35: what this node fetches for itself is kept and run meanwhile"""
    made.asker("node-b")
    await made.list(node_b={})
    document, has_begun = made.document("qos_policy"), trio.Event()

    async def slowly():
        yield document.to_bytes()[:10]
        has_begun.set()
        await trio.sleep_forever()

    listed = made.bench.server.snapshot({"routes": {"a": {}}}, ROUTES, **SHARED)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.bench.outside.relay.take, slowly(), document.envelope)
        await has_begun.wait()
        with trio.move_on_after(60):
            await follow(made)
        assert made.bench.node.holdings.kept.active[ROUTES].envelope.snapshot_id == listed.envelope.snapshot_id
        assert made.bench.outside.relay.store.document(listed.envelope.snapshot_id) is not None
        nursery.cancel_scope.cancel()


async def _once(data):
    yield data


async def test_what_is_fetched_for_neighbours_alone_is_bounded_in_an_hour(made, mock_clock):
    """A link may be paid by the byte: the budget is spent, and no head and no document is asked for until it is paid.
    What the relay is to hold itself it fetches all the same, and the others have it from here
    """
    b = made.asker("node-b")
    await made.list(node_b={})
    server, bench = made.bench.server, made.bench
    server.snapshot({"node": {"site_id": "ulm"}}, "node_bootstrap")
    tree = made.folder / "tree"
    async with serving_files(tree, server.authority, own_address()) as url:
        server.snapshot({"endpoints": {"s1": {"url": url}}}, "storage_directory")
        await follow(made)
        documents = [made.document(f"service_assignment/web{number}", "node-b") for number in range(3)]
        until = int(server.now()) + 3 * int(HOUR_S)
        head = made.head("node-b", *documents, config_version=70, refresh_after=until - 60, expires_at=until)
        files = {document_place(each.envelope.snapshot_id).file: each for each in documents}
        for file, container in (files | {head_place("node-b", (0, 0), 0).file: head}).items():
            (tree / file[1:]).parent.mkdir(parents=True, exist_ok=True)
            (tree / file[1:]).write_bytes(container.to_bytes())
        relay = bench.outside.relay
        an_hour = len(head.to_bytes()) + len(documents[0].to_bytes()) + 10
        relay.fetching = FetchBudget(bench.node, an_hour)
        await bench.outside.neighbour_heads.round()
        fetched = bench.node.counters.of("relay_bytes_fetched")
        assert an_hour < fetched <= an_hour + len(documents[1].to_bytes()), "what was begun is finished"
        assert (len(relay.store.heads), len(relay.store.documents)) == (1, 2)
        said = relay.report()
        assert (said.fetched_bytes, said.fetch_most_bytes) == (fetched, an_hour)
        await bench.outside.neighbour_heads.round()
        assert bench.node.counters.of("relay_bytes_fetched") == fetched
        for _ in range(3):  # an agent that ends again and again has no other budget each time
            relay.fetching = FetchBudget(bench.node, an_hour)
            await relay.fetching.load()
            await bench.outside.neighbour_heads.round()
            assert bench.node.counters.of("relay_bytes_fetched") == fetched
        server.head_lifetime_s = int(HOUR_S / 2)
        own = server.snapshot({"routes": {"a": {}}}, ROUTES, **SHARED)
        await follow(made)
        await b.show(made.head("node-b", own, config_version=80))
        assert (await b.ask("documents", own.envelope.snapshot_id)).body == own.to_bytes()
        assert bench.node.counters.of("relay_bytes_fetched") == fetched
        bench.outside.sources.wake()
        await trio.sleep(1_500)  # within the time of this node's own head
        await bench.outside.neighbour_heads.round()
        assert bench.node.counters.of("relay_bytes_fetched") > fetched


async def test_what_was_spent_counts_after_a_restart(made, mock_clock):
    """Ahead of what is fetched, by a step: whatever ends the agent, no start gives anything back, and an hour does"""
    node, an_hour = made.bench.node, 640_000
    step, health = an_hour // STEPS, node.store.table(Name.HEALTH)
    budget, writes = FetchBudget(node, an_hour), 0
    await budget.load()
    for _ in range(100):
        before = health.get(ROW)
        await budget.take(1_000)
        writes += health.get(ROW) != before
        again = FetchBudget(node, an_hour)
        await again.load()
        assert budget.spent <= again.spent <= budget.spent + step + 1
    assert budget.spent == 100_000 and 8 <= writes <= 12
    await budget.take(an_hour)
    again = FetchBudget(node, an_hour)
    await again.load()
    assert again.is_spent() and budget.is_spent()
    for planted in ({"spent": -5, "at": 0}, {"spent": "all"}, 7, {"spent": 2**60, "at": 2**60}):
        health.put(ROW, planted)
        await again.load()
        assert 0 <= again.spent <= 2 * an_hour
    mock_clock.jump(3 * HOUR_S)
    assert not again.is_spent() and again.spent == 0


async def test_what_is_handed_out_has_its_pace_whatever_it_is_asked_as(made, mock_clock):
    """Whole documents, sections, manifests, heads and trust bundles are counted alike, and shown"""
    b = made.asker("node-b")
    await made.list(node_b={})
    document = made.document(ROUTES, sections={"routes": {"a": {"via": "x" * 2_000}}})
    await made.bench.take(document)
    head = made.head("node-b", document, config_version=7)
    relay = made.bench.outside.relay
    assert await relay.take(_once(head.to_bytes()), head.envelope)
    await b.show(head)
    name, sections = document.envelope.snapshot_id, hashlib.sha256(document.sections[0]).hexdigest()
    asked = [
        ("documents", name),
        ("sections", sections),
        ("manifests", name),
        ("heads", digest_of("node-b")),
        ("trust",),
    ]
    for segments in [*asked, ("trust",)]:
        before = relay.report().handed_bytes
        answer = await b.ask(*segments)
        assert relay.report().handed_bytes - before == len(answer.body) > 0, segments
    slow = relay.handing_out = made.listener.api._handing_out = HandingOut(1_000)
    await slow.take("node-c", 70_000)
    began = trio.current_time()
    assert (await b.ask("documents", name)).body == document.to_bytes()
    assert elapsed.since(began) > 2, "it had to wait for what another one was given"


def turn_a_byte(kept, at):
    data = bytearray(kept.file.read_bytes())
    data[at] ^= 1
    kept.file.write_bytes(data)


@pytest.mark.parametrize("asked", ["documents", "manifests", "sections"])
async def test_what_is_kept_and_damaged_is_dropped_and_taken_again(made, mock_clock, asked):
    """rules L34, L35: nobody is given all of it, whichever way it is asked for; nor does it stay until it expires"""
    b = made.asker("node-b")
    await made.list(node_b={})
    relay, counters = made.bench.outside.relay, made.bench.node.counters
    document = made.document("qos_policy", sections={"classes": {"gold": {"x": "y" * 500}}})
    assert await relay.take(_once(document.to_bytes()), document.envelope)
    await b.show(made.head("node-b", document))
    name = document.envelope.snapshot_id
    kept, data = relay.store.document(name), document.to_bytes()
    part = document.manifest_bytes if asked == "manifests" else document.sections[0]
    turn_a_byte(kept, data.index(part) + 20)
    wanted = {"sections": hashlib.sha256(document.sections[0]).hexdigest()}.get(asked, name)
    with pytest.raises(ClientError) as refused:
        await b.ask(asked, wanted)
    assert refused.value.status in (404, None)
    assert relay.store.document(name) is None
    assert not kept.file.exists()
    assert (counters.of("relay_files_damaged"), relay.damaged, relay.refetch) == (1, {}, {name})
    assert relay.missing(relay.node.holdings.head) == []
    assert await relay.take(_once(data), document.envelope)
    assert (await b.ask("documents", name)).body == data


async def test_a_disk_that_takes_no_change_is_not_asked_with_each_request(made, mock_clock, monkeypatch):
    """rules L35: a file that is damaged there, and cannot be dropped, is tried again after a back-off"""
    b = made.asker("node-b")
    await made.list(node_b={})
    relay, tried = made.bench.outside.relay, []
    document = made.document("qos_policy", sections={"classes": {}})
    assert await relay.take(_once(document.to_bytes()), document.envelope)
    await b.show(made.head("node-b", document))
    name = document.envelope.snapshot_id
    turn_a_byte(relay.store.document(name), document.to_bytes().index(document.sections[0]))
    drop = relay.store.drop_damaged

    def refuse(*found: object) -> list[object]:
        tried.append(found)
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(relay.store, "drop_damaged", refuse)
    for _ in range(20):
        with pytest.raises(ClientError):
            await b.ask("documents", name)
    assert len(tried) == 1 and relay.store.document(name) is not None
    monkeypatch.setattr(relay.store, "drop_damaged", drop)
    mock_clock.jump(600)
    await relay.drop_damaged()
    assert relay.store.document(name) is None


async def test_a_turned_signature_is_found_too(made, mock_clock):
    """A byte of what no hash in the document covers: the checksum behind it does"""
    b = made.asker("node-b")
    await made.list(node_b={})
    relay = made.bench.outside.relay
    document = made.document("qos_policy", sections={"classes": {}})
    assert await relay.take(_once(document.to_bytes()), document.envelope)
    await b.show(made.head("node-b", document))
    kept = relay.store.document(document.envelope.snapshot_id)
    (_, signature), *_ = document.signatures
    turn_a_byte(kept, document.to_bytes().index(signature) + 5)
    with pytest.raises(ClientError):
        await b.ask("documents", document.envelope.snapshot_id)
    assert relay.store.document(document.envelope.snapshot_id) is None


async def test_a_damaged_head_is_dropped_and_the_same_one_taken_again(made, mock_clock):
    """rules K32: no newer one has to come for it"""
    b = made.asker("node-b")
    await made.list(node_b={})
    relay = made.bench.outside.relay
    head = made.head("node-b", made.document("qos_policy"), config_version=7)
    assert await relay.take(_once(head.to_bytes()), head.envelope)
    turn_a_byte(relay.store.head_of(digest_of("node-b")), head.to_bytes().index(head.manifest_bytes) + 3)
    assert await b.refusal("heads", digest_of("node-b")) == GONE
    assert relay.store.head_of(digest_of("node-b")) is None
    assert await relay.take(_once(head.to_bytes()), head.envelope)
    assert (await b.head("node-b")).body == head.to_bytes()

"""What peers are answered, and who is let in at all: over real TLS, on a real store."""

import hashlib
import time
from dataclasses import replace

import pytest
import trio

from agent.peers.peer_api import REQUESTS_PER_MINUTE
from agent.relay.relaying import Relay
from snapshot import container
from snapshot.manifest import Revocations
from store.relay import digest_of
from tests.agent.peer_lab import CLUSTER_ID, GLOBEX, peer_lab
from tests.fakes.cluster import HOUR
from tests.logs import capture_logs
from wire.certificate import make_authority, make_identity
from wire.client import ClientError
from wire.messages import TrustList
from wire.tls_contexts import unchecked_context

pytestmark = pytest.mark.usefixtures("mock_clock")
GONE = (404, "not_found")


@pytest.fixture
async def made(one, mock_clock):
    async with peer_lab(one) as found:
        yield found


async def keep(made, document):
    """In the relay store, as a file that was handed in."""
    relay: Relay = made.bench.outside.relay
    assert relay.may_keep(document.envelope)
    return await relay.take(_once(document.to_bytes()), document.envelope)


async def _once(data):
    yield data


async def test_inventory_heads_and_trust_for_members_of_the_map(made, mock_clock):
    """rules J45, K5, K32: what is there for the asker, by the hash of a node id, and higher than what he holds"""
    b = made.asker("node-b")
    made.asker("node-c")
    made.asker("node-d")
    await made.list(node_b={}, node_c={}, node_d={"site_id": "bonn"})
    for name in ("node-b", "node-c", "node-d"):
        assert await keep(made, made.head(name, config_version=7))
    found = await b.inventory()
    assert (found.cluster_id, found.trust_bundle_version) == (CLUSTER_ID, 1)
    assert {digest: pair.pair for digest, pair in found.heads.items()} == {
        digest_of("node-b"): (1, 7),
        digest_of("node-c"): (1, 7),
    }
    answer = await b.head("node-b", epoch=1, generation=6)
    assert answer.status == 200
    assert container.ChunkParts([answer.body]).opening().envelope
    assert (await b.head("node-b", epoch=1, generation=7)).status == 204
    assert (await b.head("node-c")).status == 200
    assert await b.refusal("heads", digest_of("node-d")) == GONE
    assert await b.refusal("heads", digest_of("nobody")) == GONE
    assert TrustList.parse((await b.ask("trust", **{"from": 0})).body).documents == (
        made.bench.server.cluster.first_bundle.to_bytes(),
    )
    assert TrustList.parse((await b.ask("trust", **{"from": 1})).body).documents == ()


async def test_documents_manifests_and_sections_are_given_to_whom_a_signed_head_lists_them(made, mock_clock):
    """rules J45, S3, K5: own shared documents, and what is kept; nothing that the asker's head does not list"""
    bench = made.bench
    b, d = made.asker("node-b"), made.asker("node-d")
    await made.list(node_b={}, node_d={"site_id": "bonn"})
    shared = made.document("route_policy", sections={"routes": {"n": {"via": "shared"}}, "more": {"x": 1}})
    await bench.take(shared)  # our own active one
    kept = made.document("qos_policy", sections={"classes": {"gold": {}}})
    of_b = made.document("service_assignment/web", "node-b", {"services": {"web": {}}})
    assert await keep(made, kept)
    assert await keep(made, of_b)
    section = hashlib.sha256(shared.sections[0]).hexdigest()
    wanted = [shared, kept, of_b]
    for document in wanted:
        assert await b.refusal("documents", document.envelope.snapshot_id) == GONE
    assert await b.refusal("sections", section) == GONE
    assert (await b.show(made.head("node-b", *wanted))).status == 204
    for document in wanted:
        name = document.envelope.snapshot_id
        assert (await b.ask("documents", name)).body == document.to_bytes()
        parts = container.ChunkParts([(await b.ask("manifests", name)).body])
        assert parts.opening().envelope == document.envelope_bytes
        assert parts.manifest() == document.manifest_bytes
        assert list(parts.sections([])) == []
        for data in document.sections:
            assert (await b.ask("sections", hashlib.sha256(data).hexdigest())).body == data
        assert await d.refusal("documents", name) == GONE
    assert await d.refusal("sections", section) == GONE
    own = bench.node.holdings.kept.active["node_runtime"].envelope.snapshot_id
    assert await b.refusal("documents", own) == GONE
    assert bench.node.counters.of("peer_documents_served") == 6
    # The next head lists another one: what the former listed is given no more.
    other = made.document("route_policy", sections={"routes": {}})
    await b.show(made.head("node-b", other))
    assert await b.refusal("documents", shared.envelope.snapshot_id) == GONE


async def test_a_relay_is_given_what_its_neighbours_are_to_have_of_organizations_that_it_serves(made, mock_clock):
    """rules K5, X28: for a node of its site, within organizations that its own signed runtime names"""
    b, c = made.asker("node-b"), made.asker("node-c")
    d = made.asker("node-d")
    await made.list(node_b={}, node_c={}, node_d={"site_id": "bonn"})
    of_c = made.document("service_assignment/web", "node-c", {"services": {"web": {}}})
    assert await keep(made, of_c)
    await c.show(made.head("node-c", of_c))
    assert (await c.ask("documents", of_c.envelope.snapshot_id)).body == of_c.to_bytes()
    name = of_c.envelope.snapshot_id
    runtime = made.document("node_runtime", "node-b", {"node": {}})
    without = b"".join(container.encode(runtime.envelope_bytes, runtime.signatures, runtime.manifest_bytes, ()))
    head = made.head("node-b", runtime)
    await b.show(head)
    assert await b.refusal("documents", name) == GONE, "it has not shown which organizations it serves"
    await b.show(head, without)
    assert (await b.ask("documents", name)).body == of_c.to_bytes()
    assert await d.refusal("documents", name) == GONE
    other = made.document("node_runtime", "node-b", {"node": {}}, organization_ids=[GLOBEX])
    forged = b"".join(container.encode(other.envelope_bytes, other.signatures, other.manifest_bytes, ()))
    with pytest.raises(ClientError, match="wrong_node"):  # one that the head does not list
        await b.show(head, forged)


async def test_a_shown_head_is_judged_as_its_nodes_own(made, mock_clock):
    """rules J45, J3: another node's, another cluster's, a changed one; an old one shows no more than a newer one did"""
    b = made.asker("node-b")
    await made.list(node_b={})
    document = made.document("qos_policy", sections={"classes": {}})
    assert await keep(made, document)
    for bad, reason in (
        (made.head("node-c", document), "wrong_node"),
        (made.bench.server.cluster.forge(made.head("node-b", document), cluster_id="heron-1"), "wrong_cluster"),
        (made.document("qos_policy", "node-b", {"classes": {}}), "wrong_node"),
    ):
        with pytest.raises(ClientError) as refused:
            await b.show(bad)
        assert (refused.value.status, refused.value.code) == (422, reason)
    assert await b.refusal("standing", method="POST", body=b"{}") == (400, "bad_request")
    assert await b.refusal("standing", method="POST", body=b"x" * (9 << 20)) == (413, "too_large")
    assert await b.refusal("documents", document.envelope.snapshot_id) == GONE
    older, newer = made.head("node-b", document, config_version=3), made.head("node-b", config_version=4)
    await b.show(newer)
    await b.show(older)
    assert await b.refusal("documents", document.envelope.snapshot_id) == GONE
    await b.show(made.head("node-b", document, config_version=5))
    assert (await b.ask("documents", document.envelope.snapshot_id)).body == document.to_bytes()


async def test_an_expired_head_of_the_asker_still_says_what_was_his(made, mock_clock):
    """rules S63, L14: a node that is cut off comes back by a peer; what its head listed was its own to hold"""
    b = made.asker("node-b")
    await made.list(node_b={})
    document = made.document("qos_policy", sections={"classes": {}})
    assert await keep(made, document)
    head = made.head("node-b", document)
    made.bench.lab.clock.base += HOUR
    await b.show(head)
    assert (await b.ask("documents", document.envelope.snapshot_id)).body == document.to_bytes()
    assert not (await b.inventory()).heads, "nothing that has expired is offered"


async def refused_in_handshake(made, asker):
    """Of a client that looks at nothing itself: whether it gets no byte."""
    context = unchecked_context()
    context.load_cert_chain(asker.identity.certificate, asker.identity.key)
    raw = await trio.open_tcp_stream("127.0.0.1", made.to.port)
    stream = trio.SSLStream(raw, context)
    try:
        await stream.send_all(b"GET /v1/inventory HTTP/1.1\r\nhost: a\r\n\r\n")
        return not await stream.receive_some(1)
    except trio.BrokenResourceError:
        return True
    finally:
        await trio.aclose_forcefully(stream)


async def test_who_is_not_pinned_is_refused_at_the_handshake(made, mock_clock):
    """rules K34, K48, K49, J45; threats M02, M04, D-31: a stranger, our own certificate, a CA's, who is revoked"""
    b = made.asker("node-b")
    with capture_logs() as logs:
        own = made.bench.outside.joining.identity.present()
        thief = made.asker("node-o", own)
        authority = make_authority("node-ca", time.time())
        issuer = made.asker("node-ca", authority)
        stranger = made.asker("node-x", make_identity("node-b", time.time()))  # the name is no identity
        assert await refused_in_handshake(made, stranger), "with no trusted peer nobody comes in"
        await made.list(node_b={}, node_o={}, node_ca={})
        assert (await b.ask("inventory")).status == 200
        for other in (thief, issuer, stranger):
            assert await refused_in_handshake(made, other)
    said = " ".join(str(entry) for entry in logs)
    assert "the certificate of node-o is our own" in said
    assert "the certificate of node-ca is a CA's" in said
    bench = made.bench
    gone = Revocations(version=1, node_ids=frozenset({"node-b"}))
    await bench.take(bench.server.cluster.head(revocations=gone, **bench.server.times()))
    bench.node.tell()
    await made.listener._transport.wait_settled()
    assert await refused_in_handshake(made, b)


async def test_who_only_lets_us_fetch_is_not_let_in_himself(made, mock_clock):
    """rules K6: pull, allow-pull and mutual-pull, as this node's map has them"""
    b, c, d = (made.asker(f"node-{name}") for name in "bcd")
    await made.list(node_b={"type": "pull"}, node_c={"type": "allow-pull", "url": None}, node_d={"type": "mutual-pull"})
    await made.listener._transport.wait_settled()
    assert await refused_in_handshake(made, b)
    assert (await c.ask("inventory")).status == 200
    assert (await d.ask("inventory")).status == 200
    assert [peer.node_id for peer in made.bench.outside.sources.peers.usable()] == ["node-b", "node-d"]


async def test_the_set_of_messages_is_closed(made, mock_clock):
    """rules J45: no admission, roles, trust changes, votes, or configuration that is pushed"""
    b = made.asker("node-b")
    await made.list(node_b={})
    for method, *segments in (
        ("POST", "join"),
        ("GET", "join", "nonce"),
        ("POST", "heartbeat"),
        ("GET", "head"),
        ("POST", "head"),
        ("POST", "documents"),
        ("PUT", "documents", "x"),
        ("POST", "trust"),
        ("GET", "recoveries", "route_policy"),
        ("GET", "increments", "route_policy"),
        ("GET", "status"),
        ("POST", "may"),
        ("POST", "vote"),
    ):
        status, _ = await b.refusal(*segments, method=method)
        assert status in (404, 405), segments
    status, code = await b.refusal("standing", method="POST", body=b'{"head":"","roles":["core_mesh"]}')
    assert (status, code) == (400, "bad_request")


async def test_ten_thousand_requests_are_told_to_wait_and_others_are_answered(made, mock_clock):
    """threats D-51: a rate for each peer"""
    b, c = made.asker("node-b"), made.asker("node-c")
    await made.list(node_b={}, node_c={})
    api = made.listener.api
    for _ in range(REQUESTS_PER_MINUTE):
        api._rate.wait_s("node-b", 0.0)
    statuses = [await b.refusal("heads", digest_of("nobody")) for _ in range(3)]
    assert (429, "too_many_requests") in statuses
    assert (await c.ask("inventory")).status == 200


async def test_what_is_kept_for_others_is_in_no_scope_and_no_local_answer(made, mock_clock):
    """rules K5: opaque; only of organizations that this node serves, of neighbours, and whole"""
    bench = made.bench
    made.asker("node-b")
    await made.list(node_b={})
    before = dict(bench.node.holdings.kept.active)
    of_b = made.document("service_assignment/web", "node-b", {"services": {"web": {}}})
    take = bench.inside.front.take
    taken = await take(_once(of_b.to_bytes()))
    assert (taken.outcome, taken.scope) == ("kept_for_neighbour", "service_assignment/web")
    assert (await take(_once(of_b.to_bytes()))).outcome == "kept_for_neighbour"
    assert dict(bench.node.holdings.kept.active) == before
    relay = bench.outside.relay
    assert [kept.envelope.snapshot_id for kept in relay.store.documents.values()] == [of_b.envelope.snapshot_id]
    assert not relay.may_keep(made.document("qos_policy", "node-b", organization_ids=[GLOBEX]).envelope)
    assert not relay.may_keep(made.document("qos_policy", "node-z").envelope)
    assert not relay.may_keep(bench.server.cluster.first_bundle.envelope)


async def test_two_maps_by_hand_that_both_refresh_automatically_are_refused(made, mock_clock):
    """rules K7: true on one side of a pair only; a coordinator's map sees to that itself"""
    b = made.asker("node-b")
    await made.list(node_b={})
    assert (await b.ask("inventory", automatic_refresh=1)).status == 200
    peers = made.bench.outside.sources.peers
    listed = peers.listed_peers()
    peers.listed_peers = lambda: tuple(replace(peer, is_manual=True) for peer in listed)
    assert await b.refusal("inventory", automatic_refresh=1) == (409, "both_automatic")
    assert (await b.ask("inventory")).status == 200

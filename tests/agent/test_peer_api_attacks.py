"""What peers try: for each message of the closed set, what the asker may not hold, and whoever asks too much."""

import hashlib

import pytest

from snapshot.identifiers import HEAD
from store.relay import digest_of
from tests.agent.peer_lab import peer_lab
from wire.client import ClientError
from wire.messages import TrustList

pytestmark = pytest.mark.usefixtures("mock_clock")
GONE = (404, "not_found")
ROUTES = "route_policy"


@pytest.fixture
async def made(one, mock_clock):
    async with peer_lab(one) as found:
        yield found


async def _once(data):
    yield data


def ways(document):
    """Every message by which some of a document could be had."""
    name, scope = document.envelope.snapshot_id, document.envelope.scope
    return [
        ("documents", name),
        ("manifests", name),
        ("increments", scope),
        *(("sections", hashlib.sha256(data).hexdigest()) for data in document.sections),
    ]


async def test_no_message_gives_what_no_signed_head_lists_for_the_asker(made, mock_clock):
    """rules J45, S3, S18, K5: another node's, of a node at another site, shared with others, and this node's own: by no
    message, with whatever the asker guesses; nothing changes here, and what is his is given afterwards
    """
    bench = made.bench
    b, c, d = (made.asker(f"node-{name}") for name in "bcd")
    await made.list(node_b={}, node_c={}, node_d={"site_id": "bonn"})
    of_c = made.document("service_assignment/web", "node-c", {"services": {"web": {"secret_of": "c"}}})
    of_d = made.document("service_assignment/dns", "node-d", {"services": {"dns": {"secret_of": "d"}}})
    shared = made.document("qos_policy", sections={"classes": {"gold": {}}})
    mine = made.document(ROUTES, sections={"routes": {"b": {"via": "x"}}})
    relay = bench.outside.relay
    for document in (of_c, of_d, shared, mine, made.head("node-d", of_d, config_version=7)):
        assert await relay.take(_once(document.to_bytes()), document.envelope)
    own = bench.node.holdings.kept.active["node_runtime"]
    before = dict(bench.node.holdings.kept.active)
    await c.show(made.head("node-c", of_c, shared))
    await d.show(made.head("node-d", of_d))
    await b.show(made.head("node-b", mine))
    guesses = [way for document in (of_c, of_d, shared) for way in ways(document)]
    guesses += [("documents", own.envelope.snapshot_id), ("manifests", own.envelope.snapshot_id)]
    guesses += [("sections", entry.sha256) for entry in own.sections.values()]
    guesses += [("heads", digest_of("node-d")), ("heads", digest_of("node-a")), ("heads", "node-c")]
    head = bench.node.holdings.kept.active[HEAD].envelope.snapshot_id
    guesses += [("documents", head), ("manifests", head), ("documents", "../../identity"), ("sections", "0" * 64)]
    for way in guesses:
        assert await b.refusal(*way) == GONE, way
    for way in ways(of_c) + ways(mine):
        assert await d.refusal(*way) == GONE, way
    assert set((await b.inventory()).heads) <= {digest_of("node-b"), digest_of("node-c")}
    assert dict(bench.node.holdings.kept.active) == before
    assert (await b.ask("documents", mine.envelope.snapshot_id)).body == mine.to_bytes()
    assert (await c.ask("documents", of_c.envelope.snapshot_id)).body == of_c.to_bytes()


async def test_a_bundle_is_everybodys_and_goes_by_its_own_message_alone(made, mock_clock):
    """rules J45: not as a document, a manifest or sections of one, also for whom a head lists it"""
    b = made.asker("node-b")
    await made.list(node_b={})
    bundle = made.bench.server.cluster.first_bundle
    await b.show(made.head("node-b", bundle))
    for way in ways(bundle):
        assert await b.refusal(*way) == GONE, way
    assert TrustList.parse((await b.ask("trust", **{"from": 0})).body).documents == (bundle.to_bytes(),)


@pytest.mark.parametrize(
    "query",
    [{"epoch": -1}, {"epoch": "x"}, {"generation": 1 << 60}, {"generation": "1e3"}],
)
async def test_numbers_that_are_none_are_refused(made, mock_clock, query):
    """rules K53: of heads; and the next valid request is answered"""
    b = made.asker("node-b")
    await made.list(node_b={})
    assert (await b.refusal("heads", digest_of("node-b"), **query))[0] == 400
    assert (await b.head("node-b")).status == 204


@pytest.mark.parametrize("query", [{"from": -1}, {"from": "all"}, {"from": 1 << 60}])
async def test_versions_that_are_none_are_refused(made, mock_clock, query):
    """rules K53: of trust bundles, and likewise of increments"""
    b = made.asker("node-b")
    await made.list(node_b={})
    assert (await b.refusal("trust", **query))[0] == 400
    assert (await b.refusal("increments", ROUTES, base=query["from"]))[0] == 400
    assert (await b.ask("inventory")).status == 200


async def test_what_is_shown_compressed_endless_or_mixed_is_refused(made, mock_clock):
    """threats D-46, D-51: and what was shown before stands"""
    b = made.asker("node-b")
    await made.list(node_b={})
    mine = made.document(ROUTES, sections={"routes": {}})
    assert await made.bench.outside.relay.take(_once(mine.to_bytes()), mine.envelope)
    head = made.head("node-b", mine)
    await b.show(head)
    for body in (b"\x1f\x8b\x08\x00", b"{" * 100_000, b'{"head":"AA==","head":"AA=="}', b'{"head":null}'):
        with pytest.raises(ClientError) as refused:
            await b.ask("standing", method="POST", body=body)
        assert refused.value.status in (400, 422), body[:10]
    other = made.head("node-c", mine)
    with pytest.raises(ClientError, match="wrong_node"):
        await b.show(other)
    with pytest.raises(ClientError):
        await b.show(head, other.to_bytes())
    assert (await b.ask("documents", mine.envelope.snapshot_id)).body == mine.to_bytes()

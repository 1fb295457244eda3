"""Who is asked, in which order, and when again."""

import base64

import pytest
import trio

from agent.sources.source import Kind
from agent.sources.sources import MOST_STORAGE_ASKED, Sources
from snapshot.manifest import Revocations
from tests.agent.bench import bench
from tests.journeys.lab import POLICY, SELDOM, lab
from wire.backoff import LEAST_S
from wire.certificate import make_identity
from wire.client import ClientError, ClientFault
from wire.tls_contexts import TlsIdentity

STORAGE, PEERS = "storage_directory", "peer_directory"
ENDPOINTS = {"s1": {"url": "https://storage-1.example:8443"}, "s2": {"url": "https://storage-2.example:8443"}}


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as made:
        der = make_identity("node-b", 1_800_000_000.0).der
        peer = {"url": "https://node-b.example:8443", "certificates": [base64.b64encode(der).decode()]}
        made.server.snapshot({"endpoints": ENDPOINTS}, STORAGE)
        unpinned = {"url": "https://node-c.example:8443", "certificates": []}
        made.server.snapshot({"peers": {"node-b": peer, "node-c": unpinned, "node-d": "nonsense"}}, PEERS)
        made.server.announce()
        yield made


def sources(one):
    file = one.node.store.paths.identity / "node.pem"
    return Sources(one.node, TlsIdentity(file, file), lambda low, high: high)


def shown(found):
    return [(source.kind, source.endpoint.host) for source in found]


async def test_coordinators_then_storage_then_pinned_peers(one, mock_clock):
    """rules S64, X28, K50; protocol.md 1: what is malformed or without a pin is nobody"""
    async with one.agent():
        await one.until_active(PEERS, 1)
        await one.until_active(STORAGE, 1)
        assert shown(sources(one).all()) == [
            (Kind.COORDINATOR, "127.0.0.1"),
            (Kind.STORAGE, "storage-1.example"),
            (Kind.STORAGE, "storage-2.example"),
            (Kind.PEER, "node-b.example"),
        ]


async def test_what_is_revoked_is_not_asked(one, mock_clock):
    """rules K49, S61: endpoints and peers, by a head"""
    async with one.agent():
        await one.until_active(PEERS, 1)  # a newcomer takes its directory first
        await one.until_active(STORAGE, 1)
        gone = Revocations(
            version=1, endpoints=frozenset({"https://storage-1.example:8443"}), node_ids=frozenset({"node-b"})
        )
        one.server.announce(revocations=gone)
        await one.until(lambda: bool(one.node.holdings.revocations.endpoints))
        assert shown(sources(one).all()) == [(Kind.COORDINATOR, "127.0.0.1"), (Kind.STORAGE, "storage-2.example")]


async def test_a_directory_of_very_many_does_not_hold_a_round(one, mock_clock):
    """rules X27: whoever signs it could list a hundred thousand that do not answer"""
    async with one.agent():
        await one.until_active(STORAGE, 1)
        many = {f"s{number}": {"url": f"https://s{number:03}.example:8443"} for number in range(200)}
        one.server.snapshot({"endpoints": many}, STORAGE)
        one.server.announce()
        await one.until_active(STORAGE, 2)
        hosts = [source.endpoint.host for source in sources(one).all() if source.kind is Kind.STORAGE]
        assert hosts == [f"s{number:03}.example" for number in range(16)]


async def test_storage_is_asked_without_a_head_only_if_the_policy_allows(one, mock_clock):
    """rules S55e"""
    async with one.agent():
        await one.until_active(STORAGE, 1)
        one.server.down = True
        await one.until(lambda: one.state == "degraded")
        assert Kind.STORAGE not in [source.kind for source in sources(one).all()]
        one.server.down = False
        one.server.snapshot({"policy": POLICY | {"allow": ["use_storage_endpoints"]}}, "degraded_mode_policy")
        one.server.announce()
        await one.until(lambda: one.state == "active" and one.version("degraded_mode_policy") == 2)
        one.server.down = True
        await one.until(lambda: one.state == "degraded")
        assert Kind.STORAGE in [source.kind for source in sources(one).all()]


async def test_a_failing_source_rests_ever_longer_and_a_hint_wakes_it(one, mock_clock):
    """rules X27, P14"""
    async with one.agent():
        await one.until_active(STORAGE, 1)
        here = sources(one)
        (source,) = here.coordinators()
        for seconds in (2, 3, 5, 9):
            source.note_failure(ClientError(ClientFault.CONNECT_FAILED, "no"))
            assert source.not_before == pytest.approx(trio.current_time() + seconds)
        assert not source.is_rested
        assert source in here.coordinators()
        assert source not in list(here.rested_sources())
        for _ in range(100):
            here.wake()
            assert not source.is_rested, "whoever asks in a loop gets one attempt a second"
        await trio.sleep(LEAST_S)
        assert source.is_rested
        source.note_failure(ClientError(ClientFault.REFUSED, "busy", retry_after_s=120))
        assert source.not_before >= trio.current_time() + 120
        source.note_success()
        assert source.is_rested
        assert source.back_off.failures == 0


async def test_between_two_polls_a_source_gives_documents(one, mock_clock):
    """protocol.md 1: `poll_after_s` is for heads; what a head lists is fetched at once from the same source"""
    async with one.agent():
        await one.until_active(STORAGE, 1)
        (source,) = sources(one).coordinators()
        source.poll_in(600)
        assert source.is_rested
        assert not source.may_be_polled
        source.note_success()
        assert not source.may_be_polled
        source.note_failure("no")
        assert not source.is_rested
        source.wake()
        assert not source.may_be_polled
        await trio.sleep(LEAST_S)
        assert source.may_be_polled


async def test_of_very_many_storage_endpoints_the_first_are_asked(one, mock_clock):
    """rules, Numbers; found once for each directory"""
    many = {f"s{number}": {"url": f"https://storage-{number:03}.example:8443"} for number in range(40)}
    async with bench(one) as made:
        await made.settle()
        found = made.outside.sources
        assert len([source for source in found.all() if source.kind is Kind.STORAGE]) == len(ENDPOINTS)
        await made.take(one.server.snapshot({"endpoints": many}, STORAGE))
        asked = [source.endpoint.host for source in found.all() if source.kind is Kind.STORAGE]
        assert asked == [f"storage-{number:03}.example" for number in range(MOST_STORAGE_ASKED)]
        assert found._asked_mirrors() is found._asked_mirrors()

"""The held head, shown to a coordinator that knows less than it has given: once, whole, and to nobody else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio

from agent.sources.sources import Kind, Source
from agent.update.head_proof import AGAIN_S, Showing
from agent.update.refresh import Refresh
from tests.fakes.cluster import HOUR
from tests.journeys.lab import ROUTES, lab
from wire.backoff import BackOff
from wire.client import HttpClient, HttpsConnector, Reply
from wire.endpoint import Endpoint
from wire.tls_contexts import TlsIdentity

SELDOM = "\n[intervals]\npoll_wait_s = 120\nheartbeat_interval_s = 300\n"
ASKING = Reply(204, {"holdfast-prove": "head"}, "")


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock) as made:
        yield made


@pytest.fixture
async def for_an_hour(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as made:
        yield made


async def put_back(one) -> bytes:
    """The node holds the second head; the coordinator knows the first alone. The bytes of the second, as given."""
    await one.settled()
    first = one.server.head
    newest = one.server.announce()
    await one.until(lambda: one.node.holdings.held_head == newest.envelope.version)
    one.server.head, one.server._generation = first, (1, 1)
    one.server.proves = True
    return newest.to_bytes()


async def shown(one, count: int = 1) -> list[bytes]:
    with trio.fail_after(HOUR):
        while len(one.server.proofs) < count:  # noqa: ASYNC110 - under a clock that jumps
            await trio.sleep(1)
    return one.server.proofs


async def test_the_held_head_is_shown_as_it_came_and_once(for_an_hour, mock_clock):
    """rules K41; protocol.md 1: not at every poll"""
    one = for_an_hour
    async with one.agent():
        head = await put_back(one)
        assert await shown(one) == [head]
        polls = one.server.requests.count("GET /v1/head")
        await trio.sleep(AGAIN_S / 2)
        assert one.server.requests.count("GET /v1/head") > polls + 10
        assert one.server.proofs == [head]
        assert one.node.counters.of("heads_shown") == 1
        assert one.version(ROUTES) == 1
        await shown(one, 2)  # after an hour: the coordinator may have been put back once more


async def test_the_answer_changes_nothing_here(one, mock_clock):
    """rules K41, K32: accepted or refused, held head, marks and scopes stay, and the next head is taken"""
    async with one.agent():
        one.server.proof_code = "bad_proof"
        await put_back(one)
        held, marks = one.node.holdings.held_head, dict(one.node.holdings.kept.marks)
        await shown(one)
        await trio.sleep(120)
        assert len(one.server.proofs) == 1, "a refusal is an answer"
        assert (one.node.holdings.held_head, one.node.holdings.kept.marks) == (held, marks)
        one.server.snapshot({"routes": {"south": {}}}, ROUTES)
        one.server.announce()
        await one.until_active(ROUTES, 2)


async def test_a_coordinator_that_is_not_ready_rests_and_is_shown_it_again(for_an_hour, mock_clock):
    """rules K41, X27: ever less often"""
    one = for_an_hour
    async with one.agent():
        one.server.proof_code = "not_ready"
        head = await put_back(one)
        await shown(one, 3)
        before = len(one.server.proofs)
        await trio.sleep(1800)
        assert 3 <= len(one.server.proofs) - before <= 30
        assert set(one.server.proofs) == {head}
        assert one.version(ROUTES) == 1


async def test_who_asks_and_then_hangs_holds_nothing_up(one, mock_clock):
    """rules P13: there is a deadline, and then the poll goes on"""
    async with one.agent():
        one.server.hang = "POST /v1/head"
        await put_back(one)
        await shown(one)
        polls = one.server.requests.count("GET /v1/head")
        await trio.sleep(120)
        assert one.server.requests.count("GET /v1/head") > polls


async def test_a_mirror_that_asks_is_not_answered(one, mock_clock):
    """rules K41, S2: what serves heads and is no configured coordinator, here the same server as storage"""
    async with one.agent():
        await put_back(one)
        await shown(one)
        before = list(one.server.proofs)
        async with mirror_of(one) as (refresh, mirror):
            await refresh.ask(mirror)
        assert (mirror.error, mirror.worked_at > float("-inf")) == ("", True), "it was asked, and has answered"
        assert one.server.proofs == before
        refresh.showing.node.settings = replace(one.settings, coordinator=None)
        assert not refresh.showing.is_asked(ASKING, replace(mirror, kind=Kind.COORDINATOR)), "an entry of a manual map"


async def test_only_an_answer_without_news_asks(one, mock_clock):
    """protocol.md 1"""
    async with one.agent():
        await one.settled()
        async with mirror_of(one) as (refresh, mirror):
            coordinator = replace(mirror, kind=Kind.COORDINATOR)
        assert refresh.showing.is_asked(ASKING, coordinator)
        for other in (
            replace(ASKING, status=200),
            replace(ASKING, headers={"holdfast-prove": "all"}),
            Reply(204, {}, ""),
        ):
            assert not refresh.showing.is_asked(other, coordinator)


@asynccontextmanager
async def mirror_of(one) -> AsyncIterator[tuple[Refresh, Source]]:
    """The lab's server as a storage endpoint, and the task that would follow heads there."""
    file = one.node.store.paths.identity / "node.pem"
    client = HttpClient(HttpsConnector.to_authority(one.server.ca_file, TlsIdentity(file, file)))
    endpoint = Endpoint.parse(f"https://127.0.0.1:{one.server.fleet_port}", configured=True)
    source = Source(Kind.STORAGE, endpoint, client, BackOff(lambda low, high: high))
    yield Refresh(one.node, None, None, Showing(one.node)), source
    await client.aclose()

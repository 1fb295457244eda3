"""A node follows the coordinators that its accepted `node_bootstrap` lists, over real TLS."""

from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import trio

from agent.config.configuration import MapEntry
from agent.sources.coordinators import Coordinators
from agent.sources.source import Kind
from agent.sources.sources import configured_endpoints
from agent.state.endpoint_sets import NamedBy
from agent.state.held_state import BOOTSTRAP
from snapshot.manifest import Revocations
from store.base.errors import StoreError, StoreFault
from tests.agent.bench import bench
from tests.fakes.cluster import CLUSTER_ID, HOUR
from tests.fakes.storage import StorageServer
from tests.journeys.lab import ROUTES, SELDOM, lab
from tests.logs import capture_logs

HEAD_LIFETIME_S = 600
ELSEWHERE = "https://elsewhere.example:7443"


@pytest.fixture
async def one(tmp_path, mock_clock):
    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as made:
        yield made


def sections(*urls):
    return {"cluster": {"cluster_id": CLUSTER_ID, "coordinators": list(urls)}, "node": {"site": "default"}}


async def told(one, *urls, by):
    """The node holds a bootstrap that lists these; `by` announces it."""
    made = one.server.snapshot(sections(*urls), BOOTSTRAP)
    await announced(one, by)
    await one.until_active(BOOTSTRAP, made.envelope.config_version)


async def announced(one, by):
    """A new head, from these; the node holds it."""
    head = one.server.announce()
    for server in by:
        server.say(head)
    await one.until(lambda: one.node.holdings.held_head == head.envelope.version)


async def named(one):
    """Coordinator URL to who names it, as the status shows it."""
    return {row["url"]: row["named_by"] for row in (await one.status())["sources"] if row["kind"] == "coordinator"}


async def served_for(one, seconds, by):
    """Its heads come from these servers all the while: it is never without a fresh one."""
    for _ in range(int(seconds // 300)):
        await trio.sleep(300)
        await announced(one, by)
        assert one.state == "active"


async def test_a_coordinator_moves_and_agent_toml_is_not_touched(one, mock_clock):
    """rules L15, P16, K50: heads, documents and reports go to where the accepted bootstrap says"""
    async with StorageServer(one.server, one.folder / "new").running() as new:
        async with one.agent():
            await one.settled()
            (old,) = await named(one)
            await told(one, new.url, by=[])
            new.server.say(one.server.announce())
            one.server.down = True
            await served_for(one, HEAD_LIFETIME_S, [new.server])
            assert await named(one) == {old: "agent.toml", new.url: "node_bootstrap"}
            one.server.snapshot({"routes": {"south": {}}}, ROUTES)
            await announced(one, [new.server])
            await one.until_active(ROUTES, 2)
            assert new.server.heartbeats
            assert f"GET /v1/documents/{one.node.holdings.head.scopes[ROUTES].snapshot_id}" in new.server.requests
        async with one.agent():
            await served_for(one, HEAD_LIFETIME_S, [new.server])
            one.server.down, new.server.down = False, True
            await one.server.wait_heartbeat()


async def test_the_old_set_serves_until_the_new_one_has_answered(one, mock_clock):
    """rules P25, L15: also after restarts; then it is asked no more"""
    async with AsyncExitStack() as stack:
        old, new = [
            await stack.enter_async_context(StorageServer(one.server, one.folder / name).running())
            for name in ("old", "new")
        ]
        new.server.down = True
        servers = [old.server, new.server]
        async with one.agent():
            await one.settled()
            await told(one, old.url, by=servers)
            one.server.down = True
            await served_for(one, HEAD_LIFETIME_S, servers)
            await told(one, new.url, by=servers)
            await served_for(one, HEAD_LIFETIME_S, servers)
            shown = await named(one)
            assert (shown[new.url], shown[old.url]) == ("node_bootstrap", "earlier node_bootstrap")
        for _ in range(2):
            async with one.agent():
                await served_for(one, HEAD_LIFETIME_S, servers)
                assert (await named(one))[old.url] == "earlier node_bootstrap"
        async with one.agent():
            new.server.down = False
            await one.until(lambda: one.node.store.table("health").get("coordinators")["answered"], within_s=2 * HOUR)
            assert old.url not in await named(one)
        asked = len(old.server.requests)
        async with one.agent():
            await served_for(one, HEAD_LIFETIME_S, servers)
            assert old.url not in await named(one)
        assert len(old.server.requests) == asked


async def test_a_refusal_is_no_answer_and_another_ca_is_nobody(one, mock_clock):
    """rules P25, L15, X28: a listed endpoint shows a chain to the configured CA, or nothing is sent to it"""
    other = one.folder / "other"
    other.mkdir()
    stranger = one.server.another(other)
    stranger.authority = None
    stranger.__post_init__()
    async with AsyncExitStack() as stack:
        old, impostor = [
            await stack.enter_async_context(StorageServer(server, one.folder / name).running())
            for name, server in (("old", one.server), ("impostor", stranger))
        ]
        async with one.agent():
            await one.settled()
            await told(one, old.url, by=[old.server])
            one.server.down = True
            await served_for(one, HEAD_LIFETIME_S, [old.server])
            await told(one, impostor.url, by=[old.server])
            await served_for(one, HEAD_LIFETIME_S, [old.server])
            (row,) = [row for row in (await one.status())["sources"] if row["url"] == impostor.url]
            assert "unknown_ca" in row["error"]
            assert impostor.server.requests == []
            await told(one, old.url, by=[old.server])
            old.server.refuse = "wrong_cluster"
            await trio.sleep(900)
            old.server.refuse = ""
            await served_for(one, HEAD_LIFETIME_S, [old.server])
            assert impostor.url not in await named(one)


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def hold(made, *urls, **members):
    await made.take(made.server.snapshot(sections(*urls), BOOTSTRAP, **members))
    await made.outside.update.bring_up()


def asked(made):
    return [str(source) for source in made.outside.sources.coordinators()]


async def test_what_is_malformed_or_revoked_is_passed_over_and_logged(made, mock_clock):
    """rules L15, S61; threats D-47: the rest lives"""
    (own,) = asked(made)
    with capture_logs() as logs:
        await hold(made, "nonsense", "https://127.0.0.1:9", ELSEWHERE, "https://gone.example:7443")
        assert asked(made) == [own, ELSEWHERE, "https://gone.example:7443"]
        gone = Revocations(version=1, endpoints=frozenset({"https://gone.example:7443"}))
        await made.take(made.server.announce(revocations=gone))
        assert asked(made) == [own, ELSEWHERE]
        for _ in range(3):
            await made.outside.update.bring_up()
    said = [entry["error"] for entry in logs if entry["event"] == "coordinator passed over"]
    assert len(said) == 3
    assert "https://gone.example:7443 is revoked" in said[2]
    assert [row.url for row in made.outside.sources.report()] == [own, ELSEWHERE]


async def test_an_expired_bootstrap_strands_nobody(made, mock_clock):
    """rules L15: an endpoint says where to ask, and nothing else"""
    await hold(made, ELSEWHERE)
    made.lab.clock.base += 30 * 24 * HOUR
    await made.outside.update.bring_up()
    assert made.lab.state != "active"
    assert ELSEWHERE in asked(made)


async def test_one_that_was_replaced_comes_last_however_well_it_works(made, mock_clock):
    """rules P25: else the new ones would never be asked while it answers"""
    (own,) = asked(made)
    await hold(made, "https://old.example:7443")
    old = made.outside.sources.coordinators()[1]
    old.note_success()
    await made.outside.sources.note_answer(old)
    await hold(made, ELSEWHERE)
    assert asked(made) == [own, ELSEWHERE, "https://old.example:7443"]
    new = made.outside.sources.coordinators()[1]
    await made.outside.sources.note_answer(new)
    mock_clock.jump(1)  # its own has worked in this moment, or in an earlier one
    new.note_success()
    assert asked(made) == [ELSEWHERE, own], "last working first"


async def test_a_set_that_cannot_be_written_down_is_written_later(made, mock_clock, monkeypatch):
    """rules P25: what is asked does not wait for the disk"""
    table = type(made.node.store.table("health"))
    put = table.put

    def full(*_):
        raise StoreError(StoreFault.STORE_FULL, "no room")

    monkeypatch.setattr(table, "put", full)
    await hold(made, ELSEWHERE)
    assert ELSEWHERE in asked(made)
    monkeypatch.setattr(table, "put", put)
    assert (made.node.store.table("health").get("coordinators") or {}).get("current") != (ELSEWHERE,)
    await made.outside.update.bring_up()
    assert made.node.store.table("health").get("coordinators")["current"] == (ELSEWHERE,)


async def test_a_manual_map_follows_none(made, mock_clock):
    """rules K3"""
    await hold(made, ELSEWHERE)
    entry = MapEntry(url="https://127.0.0.1:1", ca_file=made.server.ca_file)
    made.node.settings = replace(made.node.settings, coordinator=None, manual=(entry,))
    alone = Coordinators(made.node, tuple(configured_endpoints(made.node.settings)))
    await alone.follow()
    assert {str(endpoint): name for endpoint, name in alone.askable().items()} == {
        "https://127.0.0.1:1": NamedBy.CONFIGURATION
    }
    assert Kind.COORDINATOR not in [row.kind for row in made.outside.sources.report()]

"""The store kept well, in small steps."""

import pytest
import trio

from agent.report import store_maintenance
from agent.report.store_maintenance import GARBAGE_EVERY_S, PAUSE_S, Upkeep
from tests.agent.bench import bench
from tests.agent.test_node import damage
from tests.journeys.lab import ROUTES


@pytest.fixture
async def made(one, mock_clock):
    async with bench(one) as found:
        await found.settle()
        yield found


async def rounds(made, seconds):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Upkeep(made.node, made.inside.publishing.published).run)
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def test_what_no_document_refers_to_goes(made, mock_clock):
    """rules L36: active and previous stay"""
    for name in ("a", "b", "c"):
        await made.take(made.server.snapshot({"routes": {name: {}}}, ROUTES))
    await rounds(made, PAUSE_S + 1)
    assert made.node.counters.of("blobs_collected") > 0
    held = made.node.holdings.kept.active[ROUTES]
    assert held.read("routes") == b'{"c":{}}'
    assert made.inside.api.views.previous(ROUTES).read("routes") == b'{"b":{}}'
    before = made.node.counters.of("blobs_collected")
    await rounds(made, PAUSE_S + 1)
    assert made.node.counters.of("blobs_collected") == before


async def test_damage_is_found_before_anybody_asks(made, mock_clock):
    """rules L34, J47; threats D-26: hashed again in rounds, taken out, and the state says so"""
    await made.take(made.server.snapshot({"routes": {"south": {}}}, ROUTES))
    held = made.node.holdings.kept.active[ROUTES]
    damage(made.node.store, f"sha256:{held.sections['routes'].sha256}")
    await rounds(made, 20 * PAUSE_S)
    assert made.node.counters.of("sections_damaged") == 1
    assert made.node.standing().cause == "running_on_previous"
    assert made.node.holdings.kept.active[ROUTES].envelope.config_version == 1


async def test_a_disk_that_refuses_puts_it_off(made, mock_clock, monkeypatch):
    """rules A14, L35: the task goes on, and collects once the disk takes writes again"""
    for name in ("a", "b", "c"):
        await made.take(made.server.snapshot({"routes": {name: {}}}, ROUTES))
    refused = []

    def refuse(step):
        refused.append(step)
        raise OSError(5, "gone")

    disk = made.disk
    async with trio.open_nursery() as nursery:
        monkeypatch.setattr(disk, "about_to", refuse)
        nursery.start_soon(Upkeep(made.node, made.inside.publishing.published).run)
        await trio.sleep(3 * PAUSE_S + 1)
        assert len(refused) >= 3
        assert made.node.counters.of("blobs_collected") == 0
        monkeypatch.undo()
        await trio.sleep(PAUSE_S)
        assert made.node.counters.of("blobs_collected") > 0
        nursery.cancel_scope.cancel()


async def test_a_cycle_an_hour(made, mock_clock):
    """rules, Numbers"""
    upkeep = Upkeep(made.node, made.inside.publishing.published)
    await upkeep.collect()
    first = upkeep.collected_at
    await trio.sleep(GARBAGE_EVERY_S - 1)
    await upkeep.collect()
    assert upkeep.collected_at == first
    await trio.sleep(1)
    await upkeep.collect()
    assert upkeep.collected_at == trio.current_time()


async def test_memory_is_given_back_once_an_update_is_over_and_once_its_files_are_made(made, mock_clock, monkeypatch):
    """Each of the two takes some, whichever ends later."""
    given_back = []
    monkeypatch.setattr(store_maintenance, "give_back_memory", lambda: given_back.append(True))
    published = made.inside.publishing.published
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Upkeep(made.node, published).run)
        await trio.sleep(2 * PAUSE_S + 1)
        assert len(given_back) == 1, "once for what was there"
        await made.take(made.server.snapshot({"routes": {"d": {}}}, ROUTES))
        await trio.sleep(2 * PAUSE_S)
        assert len(given_back) in (2, 3), "the files may be ready by then"
        before = len(given_back)
        published.tell(published.value + 1)
        await trio.sleep(2 * PAUSE_S)
        assert len(given_back) == before + 1
        nursery.cancel_scope.cancel()

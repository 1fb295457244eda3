"""A source that answers just fast enough to be read on holds a round for as long as it likes; never the repair."""

import pytest
import trio

from agent.base.byte_source import Chunks
from agent.update.importing import PATIENCE_S
from agent.update.second_look import EVERY_S
from agent.update.update import Update
from store.base import pending
from tests.agent.bench import bench
from tests.fakes.cluster import CLUSTER_ID, HOUR
from tests.fakes.storage import StorageServer
from tests.fakes.thief import MADE_ANEW, Thief, repair
from tests.journeys.lab import ROUTES, lab
from wire.limits import LEAST_RATE
from wire.request import Response

SLOW, FAST_ENOUGH = 60, LEAST_RATE + 100
"""Documents that come byte by byte: each holds the round for as long as a document may take."""
FIRST, NEXT = "GET /v1/documents/service_assignment-s00-1", "GET /v1/documents/service_assignment-s01-1"


async def dripping(data, at_once=64):
    for at in range(0, len(data), at_once):
        yield data[at : at + at_once]
        await trio.sleep(1)


async def begun(server, request: str) -> None:
    with trio.fail_after(HOUR):
        while request not in server.requests:  # noqa: ASYNC110 - the server has no other word for it
            await trio.sleep(0.1)


@pytest.fixture
async def held(tmp_path, mock_clock):
    """A round is under way that is not over for an hour; and the thief goes."""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one, trio.open_nursery() as nursery:
        await one.settle()
        thief = Thief(one.server)
        for number in range(SLOW):
            thief.snapshot({"s": {"padding": "x" * 5000}}, f"service_assignment/s{number:02}")
        one.server.instead = lambda _, data: Response(200, (), dripping(data))
        thief.say()
        await one.outside.refresh.ask(one.coordinator)
        one.round_is_over = trio.Event()

        async def bring_up() -> None:
            await one.outside.update.bring_up()
            one.round_is_over.set()

        nursery.start_soon(bring_up)
        await begun(one.server, FIRST)
        thief.leave()
        yield one
        nursery.cancel_scope.cancel()


async def hand_in(one, document) -> str:
    envelope = document.envelope
    take = one.outside.update.importing.take
    return (await take(Chunks(document.to_bytes()), envelope.kind, "import", envelope.scope)).outcome


async def test_what_is_handed_in_does_not_wait_for_a_round(held, mock_clock):
    """rules S60, K46: bundles and the head have a path of their own, and the head of the new epoch ends the round"""
    first, second, head, *documents = repair(held.server)
    for document in (first, second, head):
        assert not held.round_is_over.is_set()
        assert await hand_in(held, document) == "activated"
    for document in documents:
        assert await hand_in(held, document) == "activated"
    assert held.lab.state == "active"
    assert NEXT not in held.server.requests, "it went on with nothing of his"


async def test_what_is_handed_in_waits_for_no_part_of_a_round(tmp_path, mock_clock):
    """rules S60: a newcomer's round has two, each of which may take hours; the second one is ended as well"""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one, trio.open_nursery() as nursery:
        await one.enrol()
        one.server.snapshot({"peers": {}, "padding": {"p": "x" * 500_000}}, "peer_directory")
        one.server.snapshot({"policy": {"padding": "x" * 500_000}}, "degraded_mode_policy")
        routes = one.server.snapshot({"routes": {"way-2": {}}}, ROUTES)
        one.server.announce()
        await one.outside.refresh.ask(one.coordinator)
        one.server.instead = lambda request, data: Response(
            200, (), data if "node_" in request else dripping(data, FAST_ENOUGH)
        )
        nursery.start_soon(one.outside.update.bring_up)
        await begun(one.server, "GET /v1/documents/peer_directory-1")
        with trio.fail_after(4 * PATIENCE_S):
            assert await hand_in(one, routes) == "activated"
        nursery.cancel_scope.cancel()


async def test_a_newcomers_second_part_is_of_the_same_epoch_as_its_first(tmp_path, mock_clock):
    """rules K46: the head of the new epoch ends the first part of a round; the second one does not begin"""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one, trio.open_nursery() as nursery:
        server = one.server
        await one.enrol()
        thief = Thief(server)
        thief.snapshot({"peers": {}, "padding": {"p": "x" * 500_000}}, "peer_directory")
        for number in range(SLOW):
            thief.snapshot({"s": {"padding": "x" * 50_000}}, f"service_assignment/s{number:02}")
        server.instead = lambda request, data: Response(
            200, (), data if "node_" in request else dripping(data, FAST_ENOUGH)
        )
        thief.say()
        await one.outside.refresh.ask(one.coordinator)
        nursery.start_soon(one.outside.update.bring_up)
        await begun(server, "GET /v1/documents/peer_directory-1")
        his, answers = dict(server.documents), server.instead
        thief.leave()
        server.documents, server.instead = his | server.documents, answers  # who has his coordinator's ear
        for document in repair(server)[:3]:
            assert await hand_in(one, document) == "activated"
        with trio.fail_after(4 * PATIENCE_S):
            async with one.outside.update.lock:
                assert NEXT.replace("s01", "s00") not in server.requests
        nursery.cancel_scope.cancel()


async def test_what_the_next_head_brings_does_not_wait_for_a_round(held, mock_clock):
    """rules K46: by the network"""
    repair(held.server)
    await held.outside.refresh.ask(held.coordinator)
    await held.round_is_over.wait()
    await held.outside.update.bring_up()
    assert {held.node.holdings.kept.active[scope].version[0] for scope in MADE_ANEW} == {2}
    assert held.node.store.pending() == []
    assert NEXT not in held.server.requests


async def test_who_has_the_nodes_ear_does_not_keep_the_others_from_being_asked_for_bundles(tmp_path, mock_clock):
    """rules S44, P25: his head lists a coordinator of his own, which answers for ever; agent.toml's is asked too"""
    async with (
        lab(tmp_path, mock_clock, for_hours=True) as one,
        StorageServer(one.server, tmp_path / "his").running() as his,
    ):
        his.server.bundles = list(one.server.bundles)
        async with one.agent():
            await one.settled()
            thief = Thief(one.server)
            section = {"cluster_id": CLUSTER_ID, "coordinators": [his.url]}
            thief.snapshot({"cluster": section, "node": {"site": "default"}}, "node_bootstrap")
            his.server.documents = dict(one.server.documents)
            his.server.say(thief.say())
            await one.until_active("node_bootstrap", 2)
            one.server.down = True
            await one.until(lambda: "POST /v1/heartbeat" in his.server.requests)
            one.server.down = False
            thief.leave()
            repair(one.server)
            for _ in range(4):
                his.server.say(thief.head())
                await trio.sleep(EVERY_S)
            assert one.node.holdings.bundle.version == 3
            await one.until_active(ROUTES, 2)
            one.server.announce()
            await one.until(lambda: one.state == "active")


async def test_a_head_that_lists_more_than_there_are_slots_comes_in_its_turns(tmp_path, mock_clock, monkeypatch):
    """rules L39: what the slots hold is taken before the round ends with what they do not"""
    monkeypatch.setattr(pending, "MOST_SLOTS", 8)
    async with lab(tmp_path, mock_clock) as one, one.agent():
        await one.settled()
        names = [f"service_assignment/s{number:02}" for number in range(20)]
        one.server.snapshot({"node": {}}, "node_bootstrap", roles=["core_mesh", "egress_service"])
        for name in names:
            one.server.snapshot({"services": {}}, name)
        one.server.announce()
        await one.until(lambda: {one.version(name) for name in names} == {1})
        assert one.node.store.pending() == []
        assert one.state == "active"


async def test_a_start_ends_no_round_of_the_same_epoch(tmp_path, mock_clock):
    """rules S67: a round that the first head after a start has begun is of that head"""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one:
        await one.settle()
        before = one.outside.update
        begun_anew = Update(before.node, before.sources, before.admission, before.trust, before.validators)
        with begun_anew._within_epoch() as asked:
            begun_anew.give_up_before()
            assert not asked.cancel_called

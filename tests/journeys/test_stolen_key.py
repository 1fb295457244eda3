"""A stolen config key fills what it can; the repair by the roots goes through: by network, file, storage, restarted."""

import pytest
import trio

from agent.base.byte_source import Chunks
from agent.sources.source import Kind
from snapshot.bundle import REVOKED
from snapshot.envelope import SNAPSHOT
from snapshot.identifiers import HEAD, format_time
from store.base import pending
from store.base.errors import StoreError
from store.base.pending import MOST_SLOTS
from tests.agent.bench import bench
from tests.fakes.cluster import DAY, HOUR
from tests.fakes.storage import StorageServer
from tests.journeys.lab import POLICY, ROUTES, SELDOM, lab
from tests.store.filling import fill_slots

MOST_WAITING = 32
THEIRS = MOST_WAITING + 20


def fill(server) -> None:
    """The thief's head: the genuine scopes, and very many whose time has not come."""
    later = int(server.now()) + DAY
    genuine = dict(server.cluster.published)
    for number in range(THEIRS):
        server.snapshot({"s": {}}, f"service_assignment/s{number}", valid_from=later, refresh_after=later + HOUR)
    server.announce()
    server.cluster.published.clear()
    server.cluster.published.update(genuine)


def repair(server):
    """What the documentation says: by the roots, the key is revoked and the epoch raised; all is signed anew."""
    cluster = server.cluster
    cluster.trust("config-1", status=REVOKED)
    cluster.authority_epoch += 1
    bundle = cluster.trust_bundle()
    server.publish(bundle)
    documents = [
        server.snapshot({"node": {"site": "default"}}, "node_bootstrap"),
        server.snapshot({"policy": POLICY}, "degraded_mode_policy"),
        server.snapshot({"routes": {"south": {"via": "b"}}}, ROUTES),
    ]
    return bundle, server.announce(), documents


async def attacked(one) -> None:
    """Every slot is the thief's, with his head in force; what is active still serves."""
    await one.settle()
    await one.take(one.server.announce())
    later = int(one.node.now()) + DAY
    document = one.server.cluster.snapshot({"s": {}}, "service_assignment/s", valid_from=later, refresh_after=later)
    del one.server.cluster.published["service_assignment/s"]
    fill_slots(one.node.store, document)
    with pytest.raises(StoreError, match="pending slots"):
        await one.take(one.server.snapshot({"routes": {"none": {}}}, ROUTES))
    assert one.lab.version(ROUTES) == 1


def is_repaired(one) -> None:
    assert one.node.holdings.bundle.version == 2
    assert one.node.holdings.bundle.authority_epoch == 2
    assert one.node.holdings.kept.marks[HEAD].version[0] == 2
    assert one.node.holdings.kept.active[ROUTES].version[0] == 2
    assert one.node.store.pending() == [], "nothing of the thief's is left, and all slots are free"


async def hand_in(one, document) -> str:
    take = one.outside.update.importing.take
    return (await take(Chunks(document.to_bytes()), document.envelope.kind, "import")).outcome


async def test_what_one_head_fills_is_bounded_and_the_repair_goes_through(tmp_path, mock_clock, monkeypatch):
    """rules X26, S44, L39: the attack over the wire, with a bound of its own (tests/store/test_leftovers.py has the
    store's); the other slots stay free, and the thief's refusals are told
    """
    monkeypatch.setattr(pending, "MOST_WAITING", MOST_WAITING)
    async with lab(tmp_path, mock_clock) as started, bench(started) as one:
        await one.settle()
        fill(one.server)
        await one.outside.refresh.ask(one.coordinator)
        await one.outside.update.bring_up()
        assert one.node.holdings.kept.marks[HEAD].version == (1, 2)
        assert len(one.node.store.pending()) == MOST_WAITING
        assert one.node.store.rejections.ring()[-1].reason == "too_many_wait"
        await repaired(one, "network")


@pytest.mark.parametrize("way", ["file", "storage"])
async def test_the_repair_goes_through_when_every_slot_is_taken(tmp_path, mock_clock, way):
    """rules X26, S44, L39, S60, S64: by file at once, by storage after a restart"""
    async with lab(tmp_path, mock_clock) as started:
        async with StorageServer(started.server, started.folder / "storage").running() as storage:
            started.server.snapshot({"endpoints": {"s1": {"url": storage.url}}}, "storage_directory")
            started.server.announce()
            async with bench(started) as one:
                await attacked(one)
                if way == "file":
                    await repaired(one, way, storage)
            if way == "storage":
                async with bench(started) as one:
                    one.node.membership.is_member = True
                    assert len(one.node.store.pending()) == MOST_SLOTS
                    await repaired(one, way, storage)


async def repaired(one, way, storage=None) -> None:
    bundle, head, documents = repair(one.server)
    if way == "file":
        for document in (bundle, head, *documents):
            assert await hand_in(one, document) == "activated"
    else:
        one.server.down = way == "storage"
        if storage is not None:
            storage.server.say(head)
        await one.outside.sources.follow()
        kind = Kind.STORAGE if way == "storage" else Kind.COORDINATOR
        (source,) = [source for source in one.outside.sources.all() if source.kind is kind]
        await one.outside.refresh.ask(source)
        await one.outside.update.bring_up()
    is_repaired(one)


async def test_nothing_waits_for_more_than_a_week(tmp_path, mock_clock):
    """rules X26: refused for its reason, and nothing of it is kept; the next valid one goes through"""
    async with lab(tmp_path, mock_clock) as started, bench(started) as one:
        await one.settle()
        later = int(one.node.now()) + 7 * DAY + HOUR
        times = {"valid_from": later, "refresh_after": later + HOUR, "expires_at": later + DAY}
        one.server.snapshot({"routes": {"later": {}}}, ROUTES, **times)
        one.server.announce()
        await one.outside.refresh.ask(one.coordinator)
        await one.outside.update.bring_up()
        found = one.node.store.rejections.last(ROUTES)
        assert (found.step, found.reason, found.authenticated) == (7, "valid_from_too_far", True)
        assert "at most 7 are waited for" in found.detail
        assert one.node.store.pending() == []
        assert one.lab.version(ROUTES) == 1
        one.server.snapshot({"routes": {"next": {}}}, ROUTES)
        one.server.announce()
        await one.outside.refresh.ask(one.coordinator)
        await one.outside.update.bring_up()
        assert one.lab.version(ROUTES) == 3
        assert SNAPSHOT in {origin.kind for origin in one.outside.update.activating.origins.values()}


async def test_a_head_that_says_a_month_is_believed_as_long_as_the_setting_says(tmp_path, mock_clock):
    """rules S57, S16: in the gate, the state, the status and the report; the next one is taken"""
    async with lab(tmp_path, mock_clock, text=f"{SELDOM}head_fresh_s = {HOUR}\n", for_hours=True) as one, one.agent():
        await one.settled()
        now = int(one.clock.true)
        one.server.announce(expires_at=now + 30 * DAY, refresh_after=now + 29 * DAY)
        await one.until(lambda: one.mark(HEAD) == (1, 2))
        one.server.hang = "GET /v1/head"
        issued_at = one.node.holdings.kept.active[HEAD].envelope.issued_at
        await trio.sleep(issued_at + HOUR - one.clock.true - 60)
        assert one.state == "active"
        report = await one.server.wait_heartbeat(lambda report: report.head.grade == "expired")
        assert report.state == "degraded"
        assert one.clock.true >= issued_at + HOUR
        assert (one.state, one.cause) == ("degraded", "head_expired")
        status = await one.status()
        assert status["head"]["grade"] == "expired"
        assert status["head"]["expires_at"] == format_time(issued_at + HOUR)
        assert not (await one.may("open_route", scope=ROUTES, resource="north"))["allowed"]
        one.server.hang = ""
        one.server.announce()
        await one.until(lambda: one.state == "active")

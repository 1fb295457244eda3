"""Who keeps a store up where one coordinator of two comes to nothing there, or dies; and while the database is away."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from coordinator.database.database import Database
from coordinator.membership import moving
from coordinator.replicas.generations import BLOCK
from coordinator.storage import storage_records
from coordinator.storage.published_tree import head_path
from coordinator.storage.storage_records import LEASE_S, SHARED, StoreLease, StoreReport
from snapshot import envelope
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.coordinator.test_absence import World, look, member, refresh_s
from tests.coordinator.test_moving_api import export
from tests.coordinator.test_run_replicas import second
from tests.coordinator.test_storages import table
from tests.fakes.s3 import S3

STORE = '{kind: StorageEndpoint, id: cloud, spec: {url: "https://cdn.example:443", system_roots: true}}'


async def until(condition, seconds: float = 60) -> None:
    with trio.fail_after(seconds):
        while not await condition():  # what others write is looked at, and tells nobody  # noqa: ASYNC110
            await trio.sleep(0.2)  # to look costs some dozen requests


@pytest.fixture
def both(tmp_path: Path, postgresql_url: str) -> tuple[Founded, Founded]:
    """Over one PostgreSQL."""
    (tmp_path / "one").mkdir()
    one = Founded(tmp_path / "one", postgresql_url, settings="joins_per_minute = 1000\nstore_polling_s = 1")
    return one, second(one, tmp_path / "two")


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("storage_records.LEASE_S", 3.0), ("kept_store.KEEP_S", 0.5), ("kept_store.MOST_REST_S", 2.0)):
        monkeypatch.setattr(f"coordinator.storage.{name}", value)


async def cloud(at: Running) -> dict:
    (found,) = (await at.ask("GET", "/v1/storage"))["stores"]
    return found


@pytest.mark.usefixtures("quickly")
async def test_another_one_takes_over_who_comes_to_nothing_or_dies(
    both: tuple[Founded, Founded], s3: S3, tmp_path: Path
) -> None:
    """rules P1, P8: the store refuses the first one's key; the second one's is good; then the second one is gone"""
    one, two = both
    key = tmp_path / "first-key"
    key.write_text(s3.denied.read_text())
    one.tables = table("cloud", bucket=s3.bucket, prefix="over/", credentials=key)
    two.tables = table("cloud", bucket=s3.bucket, prefix="over/", credentials=s3.good)
    async with running(one) as first:
        await first.declare(STORE)

        async def is_denied() -> bool:
            found = await cloud(first)
            return (found["state"], found["fault"], found["coordinator_id"]) == ("failing", "denied", "coord-1")

        await until(is_denied)
        async with running(two) as other:

            async def is_others() -> bool:
                found = await cloud(other)
                return (found["state"], found["coordinator_id"]) == ("current", "coord-2")

            await until(is_others)
            assert (await cloud(other))["files"] > 0

            async def has_let_go() -> bool:
                return "cloud" not in first.daemon.coordinator.storages.reports

            await until(has_let_go)
            key.write_text(s3.good.read_text())
            for _ in range(4):  # it is not taken back from who keeps it up well
                await trio.sleep(0.3)
                assert await is_others()

        async def is_ours() -> bool:
            found = await cloud(first)
            return (found["state"], found["coordinator_id"]) == ("current", "coord-1")

        await until(is_ours)


def test_who_gives_way_is_followed_within_the_lease(database: Database) -> None:
    """Though it goes on saying how the store stands; and what it came to nothing by is not the other one's."""
    if database.is_sqlite:
        pytest.skip("of a SQLite file there is one coordinator")
    at = [0.0]
    first, second = (StoreLease(database, "cloud", SHARED, name, lambda: at[0]) for name in ("coord-1", "coord-2"))
    failing = StoreReport("bucket", files=3, behind_since=5.0, fault="denied", gives_way=True)
    assert first.hold(failing, 1.0) and not second.hold(failing, 1.0)
    for _ in range(2):
        at[0] += LEASE_S * 0.4
        assert first.hold(failing, 2.0) and not second.hold(failing, 2.0)
    at[0] += LEASE_S * 0.2
    assert second.recall() == replace(failing, fault="", gives_way=False)
    assert second.hold(StoreReport("bucket"), 3.0) and not first.hold(failing, 3.0)


def test_what_a_newer_coordinator_says_beside_it_is_passed_over(database: Database, monkeypatch) -> None:
    """rules H10: while coordinators are upgraded, two versions speak of one store"""
    lease = StoreLease(database, "cloud", SHARED, "coord-2", lambda: 0.0)
    monkeypatch.setattr(storage_records, "asdict", lambda report: {**vars(report), "invented": {"later": 1}})
    assert lease.hold(StoreReport("bucket", files=3), 1.0)
    (heard,) = storage_records.all_of(database)
    assert heard.report == lease.recall() == StoreReport("bucket", files=3)


# ---- while the database is away


@pytest.fixture
def world(tmp_path: Path) -> World:
    settings = "joins_per_minute = 1000\nstore_polling_s = 300"
    kept = table("cloud", directory=tmp_path / "kept")
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db", settings=settings, tables=kept)
    return World(founded)


def generation_at(folder: Path, node_id: str = "node-a") -> int:
    file = folder / "kept" / head_path(node_id)
    try:
        return envelope.parse(ChunkParts([file.read_bytes()]).opening().envelope, HEAD).config_version
    except (FileNotFoundError, Rejected):
        return 0


async def test_a_head_that_is_signed_again_comes_to_the_store_too(world: World, monkeypatch) -> None:
    """rules P1, P5, L19: that is when stores matter most; afterwards the next published one takes its place"""
    monkeypatch.setattr("coordinator.storage.kept_store.REPEAT_S", 0.1)
    monkeypatch.setattr("coordinator.storage.storages.LOOK_AGAIN_S", 0.1)
    folder = world.founded.folder
    async with running(world.founded, now=world.now) as at:
        await at.declare(STORE)
        follower = await member(at)

        async def has(generation: int) -> bool:
            return generation_at(folder) == generation

        await until(lambda: has(follower.generation))
        published = follower.generation
        await world.lose(at)
        for repeated in (1, 2):
            world.passed_s += refresh_s(at) + 1
            await look(at)
            await until(lambda repeated=repeated: has(published + repeated))
        (folder / "kept" / head_path("node-a")).write_bytes(b"somebody else's, who is further")
        world.passed_s += refresh_s(at) + 1
        await look(at)
        for _ in range(5):
            await trio.sleep(0.3)
            assert (folder / "kept" / head_path("node-a")).read_bytes() == b"somebody else's, who is further"

        world.find()
        await look(at)
        at.daemon.coordinator.publisher.wake()
        await until(lambda: has(published + BLOCK))


async def test_of_a_store_that_is_another_ones_nothing_is_put_meanwhile(world: World, monkeypatch) -> None:
    """Nor after the time for which heads are signed again."""
    monkeypatch.setattr("coordinator.storage.kept_store.REPEAT_S", 0.1)
    monkeypatch.setattr("coordinator.storage.storages.LOOK_AGAIN_S", 0.1)
    async with running(world.founded, now=world.now) as at:
        monkeypatch.setattr(StoreLease, "hold", lambda *_: False)
        await at.declare(STORE)
        await member(at)
        await world.lose(at)
        world.passed_s += refresh_s(at) + 1
        await look(at)
        assert at.daemon.repeater.signed == 1
        await trio.sleep(0.5)
        assert generation_at(world.founded.folder) == 0
        world.find()


async def test_from_where_the_cluster_was_exported_stores_are_left_alone(world: World) -> None:
    """rules K24: heads are renewed for who asks, and whoever has the cluster now writes to the stores; unless that is
    cancelled
    """
    folder = world.founded.folder
    async with running(world.founded, now=world.now) as at:
        await at.declare(STORE)
        follower = await member(at)

        async def has() -> bool:
            return generation_at(folder) == follower.generation

        await until(has)
        before = follower.generation
        await export(at)
        world.passed_s = 1_000.0
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=world.now())
        for _ in range(14):  # the keeper looks each second
            await trio.sleep(0.3)
            assert generation_at(folder) == before < follower.generation
        await trio.to_thread.run_sync(
            partial(moving.cancel, at.daemon.coordinator.database, actor="root", now=world.now())
        )
        await at.daemon.keeper.look()
        world.passed_s = 2_000.0
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=world.now())
        await until(has)


async def test_nor_is_a_head_that_is_signed_again_put_there_once_the_cluster_was_exported(
    world: World, monkeypatch
) -> None:
    """rules K24: the database of before goes away after a move, as a rule"""
    monkeypatch.setattr("coordinator.storage.kept_store.REPEAT_S", 0.1)
    monkeypatch.setattr("coordinator.storage.storages.LOOK_AGAIN_S", 0.1)
    folder = world.founded.folder
    async with running(world.founded, now=world.now) as at:
        await at.declare(STORE)
        follower = await member(at)

        async def has() -> bool:
            return generation_at(folder) == follower.generation

        await until(has)
        before = follower.generation
        await export(at)
        await world.lose(at)
        world.passed_s += refresh_s(at) + 1
        await look(at)
        assert at.daemon.repeater.signed == 1
        for _ in range(10):  # a store is looked after each second
            await trio.sleep(0.3)
            assert generation_at(folder) == before
        world.find()

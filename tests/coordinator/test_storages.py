"""The daemon keeps declared stores up by itself: several, of which some fail; and one coordinator of several does."""

import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio

from coordinator.base.refusal import Refused
from coordinator.database.database import Database
from coordinator.setup import configuration
from coordinator.storage import static_tree, storage_records
from coordinator.storage.storage_records import SHARED, StoreLease, StoreReport
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded
from tests.coordinator.test_static_tree import files
from tests.fakes.s3 import REGION, S3

STORES = """
{kind: StorageEndpoint, id: disk, spec: {url: "https://disk.example:443"}}
---
{kind: StorageEndpoint, id: cloud, spec: {url: "https://cdn.example:443", system_roots: true}}
---
{kind: StorageEndpoint, id: broken, spec: {url: "https://broken.example:443"}}
---
{kind: StorageEndpoint, id: theirs, spec: {url: "https://theirs.example:443"}}
"""


def table(name: str, **members: object) -> str:
    return f"[storage.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in members.items())


class Told:
    """Who waits is told whenever a coordinator of this process has said how a store stands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._said = trio.Event()
        hold = StoreLease.hold

        def say(lease: StoreLease, report: StoreReport, now: float) -> bool:
            held = hold(lease, report, now)
            trio.from_thread.run_sync(self._tell)
            return held

        monkeypatch.setattr(StoreLease, "hold", say)

    def _tell(self) -> None:
        self._said.set()
        self._said = trio.Event()

    async def until(self, condition: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
        with trio.fail_after(seconds):
            while True:
                said = self._said
                if await condition():
                    return
                await said.wait()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


async def test_what_is_published_is_at_each_store_though_one_fails(
    founded: Founded, s3: S3, tmp_path: Path, told: Told
) -> None:
    """rules S2, P1: the last step of publishing; a store that fails holds up no other, and says why"""
    disk, away = tmp_path / "disk", "http://127.0.0.1:1/holdfast"
    founded.tables = (
        table("disk", directory=disk)
        + table("cloud", bucket=s3.bucket, region=REGION, credentials=s3.good)
        + table("broken", bucket=away, credentials=s3.good)
        + table("nobody", directory=tmp_path / "nobody")
    )
    async with running(founded) as at:
        await at.declare(STORES)
        await at.admit("node-a")

        async def standing() -> dict[str, dict]:
            answer = await at.ask("GET", "/v1/storage")
            assert answer["undeclared"] == ["nobody"]
            return {store["id"]: store for store in answer["stores"]}

        async def is_there() -> bool:
            found = await standing()
            return (
                found["disk"]["state"] == found["cloud"]["state"] == "current"
                and found["disk"]["files"] > 3
                and found["broken"]["state"] == "failing"
            )

        await told.until(is_there)
        whole = tmp_path / "whole"

        async def is_whole() -> bool:
            """What is announced no more may lie there for a while."""
            await trio.to_thread.run_sync(static_tree.publish, at.daemon.coordinator.database, whole)
            at_s3, expected = await trio.to_thread.run_sync(s3.keys), files(whole).items()
            return expected <= files(disk).items() and expected <= at_s3.items()

        await told.until(is_whole)
        found = await standing()
        assert (found["theirs"]["state"], found["theirs"]["way"]) == ("elsewhere", "")
        assert found["broken"]["fault"] == "unreachable" and found["broken"]["remedy"]
        assert found["disk"]["lag_s"] == 0 and found["disk"]["good_at"] <= time.time()
        before = files(disk)
        await at.declare("{kind: DegradedModePolicy, id: more, spec: {allow: [report_degraded]}}")

        async def is_newer() -> bool:
            at_both = files(disk), await trio.to_thread.run_sync(s3.keys)
            heads = [{name: data for name, data in each.items() if name.startswith("heads/")} for each in at_both]
            return all(each.items().isdisjoint(before.items()) for each in heads)

        await told.until(is_newer)
        _, metrics = await at.probe("/metrics")
        assert b'holdfast_coordinator_storage_failing{reason="unreachable",storage="broken"} 1.0' in metrics
        assert b'holdfast_coordinator_storage_failures_total{storage="cloud"} 0.0' in metrics
        assert not (tmp_path / "nobody").exists()


async def test_credentials_that_are_put_right_are_found_without_a_restart(
    founded: Founded, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    monkeypatch.setattr("coordinator.storage.kept_store.MOST_REST_S", 1.0)
    credentials = tmp_path / "credentials"
    credentials.write_text(s3.denied.read_text())
    founded.tables = table("cloud", bucket=s3.bucket, prefix="other/", credentials=credentials)
    async with running(founded) as at:
        await at.declare(STORES)

        async def state(wanted: str, fault: str) -> bool:
            (found,) = [store for store in (await at.ask("GET", "/v1/storage"))["stores"] if store["id"] == "cloud"]
            return (found["state"], found["fault"]) == (wanted, fault)

        await told.until(partial(state, "failing", "denied"))
        credentials.write_text(s3.good.read_text())
        await told.until(partial(state, "current", ""))


# ---- several coordinators


def test_of_several_coordinators_one_keeps_a_store_up_and_is_followed(database: Database) -> None:
    """By the clock of whoever looks; on SQLite there is one coordinator, and a directory is each one's own."""
    at = [0.0]
    leases = [StoreLease(database, "cloud", SHARED, name, lambda: at[0]) for name in ("coord-1", "coord-2")]
    report = StoreReport("bucket", files=3)
    if database.is_sqlite:
        assert all(lease.hold(report, 1.0) for lease in leases)
        return
    first, second = leases
    assert first.hold(report, 1.0) and not second.hold(report, 1.0)
    at[0] += storage_records.LEASE_S - 1
    assert first.hold(report, 2.0) and not second.hold(report, 2.0), "its word has changed"
    at[0] += storage_records.LEASE_S
    assert second.hold(replace(report, files=4), 3.0)
    assert not first.hold(report, 4.0)
    (heard,) = storage_records.all_of(database)
    assert (heard.coordinator_id, heard.report.files) == ("coord-2", 4)
    assert first.recall() == heard.report
    own = [StoreLease(database, "disk", name, name, lambda: at[0]) for name in ("coord-1", "coord-2")]
    assert all(lease.hold(StoreReport("directory"), 1.0) for lease in own)
    storage_records.forget_undeclared(database, frozenset({"disk"}))
    assert {store.endpoint_id for store in storage_records.all_of(database)} == {"disk"}


# ---- configuration

GOOD = 'directory = "/srv/holdfast"'
BAD = {
    "neither": ('region = "eu-central-1"', "either directory or bucket"),
    "both": ('directory = "/srv"\nbucket = "https://s3.example/b"', "either directory or bucket"),
    "relative": ('directory = "srv"', "must be absolute"),
    "unknown": ('directory = "/srv"\npath = "/srv"', "storage.mirror.path is no key"),
    "plain": ('bucket = "http://s3.example/b"\ncredentials = "/c"', "http:// on this machine alone"),
    "no credentials": ('bucket = "https://s3.example/b"', "credentials is missing"),
    "with a password": ('bucket = "https://id:secret@s3.example/b"\ncredentials = "/c"', "must be https://"),
    "prefix": ('bucket = "https://s3.example/b"\ncredentials = "/c"\nprefix = "a"', "end with a slash"),
    "climbing": ('bucket = "https://s3.example/b"\ncredentials = "/c"\nprefix = "a b/"', "end with a slash"),
    "number": ("directory = 7", "must be text"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_way_that_cannot_be_is_named(founded: Founded, name: str) -> None:
    members, said = BAD[name]
    with pytest.raises(Refused, match=said):
        configuration.parse(f"{founded.text()}\n[storage.mirror]\n{members}")
    (access,) = configuration.parse(f"{founded.text()}\n[storage.mirror]\n{GOOD}").storage
    assert (access.endpoint_id, access.directory) == ("mirror", "/srv/holdfast")


def test_no_credential_stands_in_the_database(database: Database) -> None:
    """What operators read of a store is where it is, and how it stands."""
    lease = StoreLease(database, "cloud", SHARED, "coord-1", time.monotonic)
    lease.hold(StoreReport("bucket https://s3.example/b", fault="denied"), 1.0)
    (heard,) = storage_records.all_of(database)
    assert "credential" not in json.dumps(vars(heard.report))

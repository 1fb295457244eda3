"""A database that fails under a running coordinator, and comes back (rules P1, P23)."""

import sqlite3
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest
import trio
from sqlalchemy import event, text
from sqlalchemy.exc import SQLAlchemyError

from coordinator.database import database as databases
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.replicas.generations import BLOCK
from tests.coordinator import postgresql, reports
from tests.coordinator.daemon import Follower, Running, running
from tests.coordinator.failing_over import ask
from tests.coordinator.founding import Founded
from tests.logs import capture_logs
from wire.client import ClientError

STATE = "{kind: Node, id: node-a, spec: {roles: [core_mesh]}}"
END_SESSIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'replica'"
SELDOM = "store_polling_s = 300"  # the first write that goes well ends a fault, and the keeper's own look makes one


@pytest.fixture
def server(tmp_path: Path) -> Iterator[postgresql.Server]:
    with postgresql.or_skip(tmp_path, "outage", "NONE IS STOPPED") as found:
        yield found


async def unavailable(asked: Awaitable[object]) -> None:
    """503 with the slug, and a time after which to come again."""
    with pytest.raises(ClientError) as found:
        await asked
    error = found.value
    assert (error.status, error.code, error.retry_after_s) == (503, "unavailable", 5.0)


async def faults(at: Running) -> float:
    lines = (await at.probe("/metrics"))[1].decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("holdfast_coordinator_database_faults_"))


async def test_postgresql_stops_and_starts_again(tmp_path: Path, server: postgresql.Server) -> None:
    """rules P5, P1, P23, H19: nobody is refused, nothing is lost, and the first request after it goes well."""
    founded = Founded(tmp_path, server.url.format("postgres"))
    passed_s = [0.0]
    async with running(founded, now=lambda: founded.now + passed_s[0]) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync(wait=10)
        node = follower.node
        document = follower.holder.active["node_bootstrap"].envelope.snapshot_id
        told: list[int] = []

        async def wait() -> None:
            told.append((await node.head(follower.generation, 1, wait=300)).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await at.polls_held(1)

            server.stop()
            assert (await node.head()).status == 200  # from memory
            assert (await node.get(f"/v1/documents/{document}")).status == 200  # a small one that its head names, too
            await unavailable(node.get(f"/v1/documents/{'0' * 64}"))
            await unavailable(node.report(reports.body("node-a", {})))
            await unavailable(node.join(None))
            await unavailable(at.ask("GET", "/v1/status"))
            await unavailable(at.apply(STATE))
            assert await faults(at) >= 5
            await at.daemon.keeper.look()
            status, said = await at.probe("/probe/readiness")
            assert status == 503 and b"does not answer" in said
            assert (await at.probe("/probe/liveness"))[0] == 200
            assert told == []

            server.start()
            await node.report(reports.body("node-a", {}))
            await at.apply(STATE)
        assert told == [200]
        assert (await node.get(f"/v1/documents/{document}")).status == 200
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200
        assert (await at.admit("node-b")).grant.outcome == "admitted"

        await follower.sync()
        held = follower.generation
        server.stop()
        passed_s[0] = at.daemon.coordinator.settings.head_refresh_s + 1
        await at.daemon.keeper.look()
        await at.daemon.repeater.repeat()
        assert await follower.sync(now=founded.now + passed_s[0])
        assert follower.generation == held + 1, "the same head, signed again"
        server.start()
        await at.daemon.keeper.look()
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=founded.now + passed_s[0])
        assert follower.generation == held + BLOCK


async def test_a_database_that_refuses_this_coordinator_is_not_away(tmp_path: Path, server: postgresql.Server) -> None:
    """rules K41, P1: who is barred signs nothing again, also once the database falls silent; let in, it goes on"""
    own = server.url.format("postgres")
    ask(server, "CREATE ROLE replica LOGIN SUPERUSER")
    founded = Founded(tmp_path, own.replace("holdfast@", "replica@"), settings=SELDOM)
    passed_s = [0.0]
    async with running(founded, now=lambda: founded.now + passed_s[0]) as at:
        follower = Follower(await at.admit("node-a"))
        await follower.sync(wait=10)
        await at.daemon.keeper.look()
        ask(server, "ALTER ROLE replica NOLOGIN", END_SESSIONS)
        for is_silent in (False, True):
            if is_silent:
                server.stop()
            passed_s[0] += at.daemon.coordinator.settings.head_refresh_s + 1
            await at.daemon.keeper.look()
            await at.daemon.repeater.repeat()
            assert not await follower.sync(now=founded.now + passed_s[0])
            assert at.daemon.repeater.signed == 0
            status, said = await at.probe("/probe/readiness")
            assert status == 503
            assert (b"refuses this coordinator" in said and b"not permitted to log in" in said) is not is_silent
        server.start()
        ask(server, "ALTER ROLE replica LOGIN")
        await at.daemon.keeper.look()
        at.daemon.coordinator.publisher.wake()
        assert await follower.sync(wait=60, now=founded.now + passed_s[0])
        assert (await at.probe("/probe/readiness"))[0] == 200


PADDING = [reports.event(number, detail="x" * 256) for number in range(1, 200)]


async def test_a_full_disk_is_no_verdict(founded: Founded) -> None:
    """rules P23: what is read goes on, and what could not be written is written once there is room."""
    founded.settings = SELDOM
    async with running(founded) as at:
        node = await at.admit("node-a")
        limit = Pragma(at.daemon.coordinator.database, "max_page_count = 1")
        long = reports.body("node-a", {}, journal=PADDING)
        await unavailable(node.report(long))
        assert (await node.head(wait=10)).status == 200
        assert await faults(at) == 1
        limit.lift()
        assert (await node.report(long))["generation"] >= 1


async def test_a_full_disk_is_called_by_its_name(founded: Founded) -> None:
    """rules J46, P23: to the operator, in the log and by the probe, until a write goes well again"""
    founded.settings = SELDOM
    async with running(founded) as at:
        node = await at.admit("node-a")
        limit = Pragma(at.daemon.coordinator.database, "max_page_count = 1")
        with capture_logs() as logs:
            await unavailable(node.report(reports.body("node-a", {}, journal=PADDING)))
            with pytest.raises(ClientError, match="database or disk is full") as refused:
                await at.apply("\n---\n".join(f"{{kind: Organization, id: a{number}}}" for number in range(2_000)))
        assert (refused.value.status, refused.value.code) == (503, "store_full")
        told = [line.get("reason", "") for line in logs if line["log_level"] == "error"]
        assert told and "OperationalError: database or disk is full" in told[-1]
        assert "x" * 200 not in str(logs)
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"store_full" in said and b"disk is full" in said
        limit.lift()
        await at.daemon.keeper.look()
        assert (await at.probe("/probe/readiness"))[0] == 200


async def test_without_room_for_what_comes_next_it_is_not_ready(founded: Founded, monkeypatch) -> None:
    """rules J46"""
    async with running(founded) as at:
        monkeypatch.setattr(databases, "ROOM_BYTES", 1 << 60)
        await at.daemon.keeper.look()
        status, said = await at.probe("/probe/readiness")
        assert status == 503 and b"store_full" in said and b"free" in said


def test_what_a_statement_holds_is_not_repeated(database: Database) -> None:
    """threats D-55: the driver quotes a value that does not fit"""
    with pytest.raises(SQLAlchemyError) as found, database.read() as transaction:
        transaction.row(text("SELECT CAST('swordfish' AS integer) / 0, json_extract('swordfish', '$')"))
    assert "swordfish" not in line_of(found.value)


async def test_a_database_that_somebody_holds_locked_is_no_verdict(founded: Founded) -> None:
    """rules P23: a backup by another program, say."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        Pragma(at.daemon.coordinator.database, "busy_timeout = 50")
        with sqlite3.connect(founded.folder / "state.db", isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            await unavailable(at.apply(STATE))
            await unavailable(node.report(reports.body("node-a", {})))
            other.execute("ROLLBACK")
        other.close()
        await at.apply(STATE)
        assert (await node.report(reports.body("node-a", {})))["generation"] >= 1


class Pragma:
    """Holds for all connections from now on, until it is lifted."""

    def __init__(self, database: Database, pragma: str) -> None:
        self._engine = database.engine
        self._pragma = pragma
        event.listen(self._engine, "connect", self._set)
        self._engine.dispose()

    def _set(self, connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA {self._pragma}")

    def lift(self) -> None:
        event.remove(self._engine, "connect", self._set)
        self._engine.dispose()

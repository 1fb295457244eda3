"""What is looked at every few seconds, while others change it (rules K41, J46)."""

import base64
import threading

import pytest
import trio
import trio.testing
from sqlalchemy import select, update

from coordinator.database import cluster_state, schema
from coordinator.database.continuity import LastSeen, LinkMark
from coordinator.database.database import KEPT_PAGES, Database
from coordinator.runtime import maintenance
from coordinator.setup import begin_history
from coordinator.trust import restored_backup
from tests.coordinator.candidates import contents
from tests.coordinator.daemon import Follower, refusal, running
from tests.coordinator.founding import Founded, set_restored
from tests.coordinator.test_database import fill
from tests.coordinator.test_restored_backup import is_ready, raise_epoch


async def test_an_older_look_is_not_the_last_word(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """rules K41: an epoch that was raised while the database was looked at is raised, whatever that look has found."""
    looked, read, go_on = maintenance._look_at_keys, threading.Event(), threading.Event()

    def slow(*arguments: object) -> object:
        found = looked(*arguments)
        read.set()
        assert go_on.wait(60)
        return found

    async with running(founded) as at:
        database = at.daemon.coordinator.database
        set_restored(database, 1)
        await at.daemon.keeper.look()
        assert not await is_ready(at)
        monkeypatch.setattr(maintenance, "_look_at_keys", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(at.daemon.keeper.look)
            await trio.to_thread.run_sync(read.wait)
            nursery.start_soon(raise_epoch, at)
            with trio.fail_after(30):
                while restored_backup.reason(database, at.daemon.coordinator.standstill.behind):
                    await trio.testing.wait_all_tasks_blocked(0.01)
            await trio.testing.wait_all_tasks_blocked(0.1)
            go_on.set()
        assert at.daemon.coordinator.standstill.reason == ""
        assert await is_ready(at)


async def test_the_startup_probe_waits_for_the_listeners(founded: Founded) -> None:
    """rules J46, H19: 503 until all of them serve, whatever readiness says"""
    async with running(founded) as at:
        assert (await at.probe("/probe/startup"))[0] == 200
        at.daemon.readiness.started = False
        status, body = await at.probe("/probe/startup")
        assert (status, b"starting" in body) == (503, True)
        assert (await at.probe("/probe/liveness"))[0] == 200
        at.daemon.readiness.started = True
        assert (await at.probe("/probe/startup"))[0] == 200


async def test_a_database_that_goes_back_under_a_running_coordinator_is_not_worked_on(founded: Founded) -> None:
    """rules H37, P30, X12: nothing is handed out until it has caught up, or the epoch was raised; then all goes on."""
    async with running(founded) as at:
        node = await at.admit("node-a")
        database, keeper_ = at.daemon.coordinator.database, at.daemon.keeper
        await keeper_.look()
        with database.read() as transaction:
            seen = cluster_state.standing(transaction)
        set_state(database, seen.revision - 1, "of last week")
        await keeper_.look()
        assert not await is_ready(at)
        assert "was at" in at.daemon.coordinator.standstill.reason
        assert await refusal(node.head()) == "not_ready"
        with database.engine.begin() as connection:
            connection.execute(update(schema.nodes).values(generation=schema.nodes.c.generation + 1))
        before = contents(database, "heads", "published", "nodes")
        at.daemon.coordinator.publisher.wake()
        with trio.fail_after(60):
            while not at.daemon.coordinator.publisher.health.fault:
                await trio.testing.wait_all_tasks_blocked(0.01)
        assert contents(database, "heads", "published", "nodes") == before
        bundle = base64.b64encode(founded.bundles.next()).decode()
        await at.ask("POST", "/v1/trust", {"document": bundle})
        assert at.daemon.coordinator.standstill.reason, "a bundle ends nothing, unless it raises the epoch"
        set_state(database, seen.revision + 7, "what the copy became by changes of its own")
        await keeper_.look()
        assert not await is_ready(at)
        set_state(database, seen.revision, seen.state_id)
        await keeper_.look()
        assert await is_ready(at)
        follower = Follower(node)
        with trio.fail_after(60):
            while follower.generation == 1:
                await follower.sync(30)


async def test_the_file_shrinks_after_what_goes_with_time(founded: Founded, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the coordinator works: an operator's change comes between the steps"""
    async with running(founded) as at:
        database = at.daemon.coordinator.database
        fill(database, 14_000)
        async with trio.open_nursery() as nursery:
            monkeypatch.setattr(maintenance, "TRIM_S", 0.01)
            nursery.start_soon(at.daemon.keeper.trim)
            with trio.fail_after(60):
                while free_pages(database) <= KEPT_PAGES:  # the events are 30 days too old
                    await trio.testing.wait_all_tasks_blocked(0.01)
                await at.ask("POST", "/v1/tokens", {})
                while free_pages(database) > KEPT_PAGES:
                    await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        assert (await at.probe("/probe/readiness"))[0] == 200


def free_pages(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(connection.exec_driver_sql("PRAGMA freelist_count").scalar() or 0)


def set_state(database: Database, revision: int, state_id: str) -> None:
    """As after a copy was put in the place of the database."""
    with database.engine.begin() as connection:
        connection.execute(update(schema.cluster).values(revision=revision, state_id=state_id))


async def test_a_history_that_cannot_be_believed_stops_everything_but_the_telling(founded: Founded) -> None:
    """rules H48, H36: not ready, nothing changed or signed, `untrusted_history` for operators, no word for nodes; and
    all of it goes on once it is right again
    """
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    async with running(founded) as at:
        node = await at.admit("node-a")
        daemon, database = at.daemon, at.daemon.coordinator.database
        await daemon.keeper.look()
        assert (await is_ready(at), (await at.ask("GET", "/v1/status"))["history"][:4]) == (True, "good")
        with database.engine.begin() as connection:
            (kept,) = connection.execute(select(schema.pointers.c.signature)).one()
            connection.execute(update(schema.pointers).values(signature="AAAA"))
        await daemon.keeper.look()
        status, body = await at.probe("/probe/readiness")
        assert (status, b"untrusted_history" in body) == (503, True)
        before = contents(database, "audit", "heads", "allowlist")
        assert await refusal(at.ask("POST", "/v1/allowlist/node-b", {})) == "untrusted_history"
        assert await refusal(node.head()) == "not_ready"
        assert "signature" in (await at.ask("GET", "/v1/status"))["history"]
        assert contents(database, "audit", "heads", "allowlist") == before
        with database.engine.begin() as connection:
            connection.execute(update(schema.pointers).values(signature=kept))
        await daemon.keeper.look()
        assert await is_ready(at)
        await at.ask("POST", "/v1/allowlist/node-b", {})
        assert (await at.ask("GET", "/v1/audit/verify"))["faults"] == []


async def test_a_coordinator_without_the_seed_starts_and_is_not_ready(founded: Founded) -> None:
    made = begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    made.seed.unlink()
    async with running(founded) as at:
        await at.daemon.keeper.look()
        status, body = await at.probe("/probe/readiness")
        assert (status, b"the seed that continues it is not here" in body) == (503, True)
        assert (await at.probe("/probe/liveness"))[0] == 200


async def test_a_database_that_was_exchanged_lacks_what_was_seen(founded: Founded) -> None:
    """rules H37, P30: though its revision is higher by now; the raised epoch ends it, and the chain goes on"""
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    async with running(founded) as at:
        daemon = at.daemon
        await daemon.keeper.look()
        daemon.keeper.continuity.seen = LastSeen(LinkMark(9_999, "ab" * 32), 1)
        await daemon.keeper.look()
        assert "lacks link 9999" in daemon.coordinator.standstill.reason
        assert not await is_ready(at)
        await raise_epoch(at)
        await daemon.keeper.look()
        assert (daemon.coordinator.standstill.reason, await is_ready(at)) == ("", True)
        assert (await at.ask("GET", "/v1/audit/verify"))["faults"] == []


async def test_what_a_database_lacks_is_said_beside_a_history_that_is_not_believed(founded: Founded) -> None:
    """rules H37, H48, P30: two faults at once; the remedy of one alone would leave the other to be found later"""
    begin_history.begin(founded.configuration(), anew=False, actor="root", now=founded.now)
    async with running(founded) as at:
        daemon, database = at.daemon, at.daemon.coordinator.database
        await daemon.keeper.look()
        with database.engine.begin() as connection:
            connection.execute(update(schema.pointers).values(signature="AAAA"))
        daemon.keeper.continuity.seen = LastSeen(LinkMark(9_999, "ab" * 32), 1)
        await daemon.keeper.look()
        reason = daemon.coordinator.standstill.reason
        assert "untrusted_history" in reason and "lacks link 9999" in reason
        assert not await is_ready(at)

"""When a node was last seen: by its reports, and by its requests for a head (rules K18, K33, K36)."""

import os
import signal
from pathlib import Path

import trio
import trio.testing
from sqlalchemy import event

from coordinator import run
from coordinator.base.settings import CoordinatorSettings
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.fleet import fleet
from coordinator.membership import revocation
from coordinator.reports import heartbeats
from coordinator.reports import last_seen as seen
from coordinator.reports.last_seen import WRITE_S, Seen
from tests.coordinator.candidates import NOW, admit, found, remove_node
from tests.coordinator.daemon import Running, running
from tests.coordinator.founding import Founded
from tests.coordinator.reports import heartbeat
from wire.operators.operator_answers import AllowlistEntry


def last_seen(database: Database) -> dict[str, float | None]:
    return {entry.node_id: entry.last_seen for entry in catalog.nodes(database)}


def test_the_later_of_both_counts(database: Database) -> None:
    """rules K18, K33: a node that only asks for its head is seen."""
    found(database)
    for node_id in ("node-a", "node-b", "node-c"):
        admit(database, node_id)
    heartbeats.record(database, [heartbeat("node-b", {})], now=NOW + 50)
    seen.record(database, {"node-a": NOW + 10, "node-b": NOW + 40})
    assert last_seen(database) == {"node-a": NOW + 10, "node-b": NOW + 50, "node-c": None}
    seen.record(database, {"node-b": NOW + 60, "node-a": NOW + 5})
    assert last_seen(database) == {"node-a": NOW + 10, "node-b": NOW + 60, "node-c": None}


def test_who_asks_but_does_not_report_is_silent_all_the_same(database: Database) -> None:
    """rules K30: alive, and yet nobody knows what it holds."""
    found(database)
    admit(database, "node-a")
    heartbeats.record(database, [heartbeat("node-a", {})], now=NOW)
    seen.record(database, {"node-a": NOW + 1_000})
    now = fleet.observe(database, now=NOW + 1_010, settings=CoordinatorSettings())
    assert [(each.reason, each.seconds_since_seen) for each in now.stragglers] == [("silent", 10)]
    assert now.seconds_since_seen["max"] == 10


def test_of_a_node_that_was_removed_nothing_is_kept(database: Database) -> None:
    """rules K18: neither what is written already nor what was noted before; who is admitted again was not seen yet"""
    found(database)
    admit(database, "node-a")
    admit(database, "node-b")
    seen.record(database, {"node-a": NOW + 10, "node-b": NOW + 10})
    remove_node(database, "node-a", reason="sold", actor="root", now=NOW + 15)
    assert requests(database) == {"node-b"}
    seen.record(database, {"node-a": NOW + 14, "node-b": NOW + 20, "nobody": NOW})
    assert requests(database) == {"node-b"}
    revocation.readmit(database, AllowlistEntry("node-a"), actor="root", now=NOW + 30)
    admit(database, "node-a")
    assert last_seen(database) == {"node-a": None, "node-b": NOW + 20}


def test_a_revoked_node_goes_on_being_seen(database: Database) -> None:
    """rules K22: its entry stays, and what it asks is answered"""
    found(database)
    admit(database, "node-a")
    revocation.revoke_node(database, "node-a", reason="sold", actor="root", now=NOW)
    seen.record(database, {"node-a": NOW + 10})
    assert requests(database) == {"node-a"}


def requests(database: Database) -> set[str]:
    with database.read() as transaction:
        return {row.node_id for row in transaction.rows(seen.schema.head_requests.select())}


class Counted:
    """Transactions that wrote, on one database."""

    def __init__(self, database: Database) -> None:
        self.commits = 0
        event.listen(database.engine, "commit", self._count)

    def _count(self, _connection: object) -> None:
        self.commits += 1


async def test_many_requests_are_one_write_a_minute(database: Database, autojump_clock: trio.testing.MockClock) -> None:
    """rules J42: a poll is no write; a heartbeat in between makes the note needless"""
    found(database)
    for number in range(5):
        admit(database, f"node-{number}")
    kept = Seen(database, lambda: NOW)
    counted = Counted(database)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.run)
        for number in range(500):
            kept.note(f"node-{number % 5}")
        kept.forget("node-3")
        await trio.sleep(WRITE_S * 3.5)
        nursery.cancel_scope.cancel()
    assert counted.commits == 1
    with database.read() as transaction:
        rows = transaction.rows(seen.schema.head_requests.select())
    assert {row.node_id for row in rows} == {f"node-{number}" for number in range(5)} - {"node-3"}


async def test_what_could_not_be_written_is_written_later(database: Database) -> None:
    """rules P1: and what was noted meanwhile counts."""
    found(database)
    admit(database, "node-a")
    admit(database, "node-b")
    at = [NOW]
    kept = Seen(database, lambda: at[0])
    kept.note("node-a")
    kept.note("node-b")
    seen.schema.head_requests.drop(database.engine)
    await kept.write()
    at[0] += 5
    kept.note("node-b")
    seen.schema.head_requests.create(database.engine)
    await kept.write()
    with database.read() as transaction:
        rows = transaction.rows(seen.schema.head_requests.select())
    assert {row.node_id: row.last_seen for row in rows} == {"node-a": NOW, "node-b": NOW + 5}


async def test_a_poll_moves_it(tmp_path: Path) -> None:
    """rules K18, K33, K36"""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")
    async with running(founded) as at:
        await (await at.admit("node-a")).head()
        await at.admit("node-b")
        assert {entry["last_seen"] for entry in (await at.ask("GET", "/v1/nodes"))["nodes"]} == {None}
        await at.daemon.coordinator.seen.write()
        first, other = (await at.ask("GET", "/v1/nodes"))["nodes"]
        assert first["last_seen"] >= first["first_seen"]
        assert other["last_seen"] is None


async def test_what_was_noted_is_written_when_it_stops(tmp_path: Path) -> None:
    """rules K18"""
    founded = Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")
    async with trio.open_nursery() as nursery:
        daemon = run.build(founded.configuration())
        at = Running(founded, daemon, await nursery.start(daemon.serve))
        await (await at.admit("node-a")).head()
        for client in (at.operator, *at.clients):
            await client.aclose()
        os.kill(os.getpid(), signal.SIGTERM)
    assert last_seen(daemon.coordinator.database)["node-a"] is not None
    daemon.coordinator.database.close()

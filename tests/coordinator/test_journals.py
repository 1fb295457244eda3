"""No member fills the database with its journal: what goes is its own, the oldest first (rules P23)."""

from dataclasses import replace

import pytest
from sqlalchemy import func, select

from coordinator.api.node_api import REPORTS_PER_MINUTE
from coordinator.database import journals, schema
from coordinator.database.database import Database
from coordinator.database.journals import MOST_EVENTS
from coordinator.reports import events, heartbeats
from snapshot import canonical
from tests.coordinator.candidates import NOW, admit, members
from tests.coordinator.reports import events as told
from tests.coordinator.reports import heartbeat
from wire.messages import EVENTS_MAX


@pytest.fixture
def cluster(database: Database) -> Database:
    members(database, "node-a", "node-b")
    return database


def sequences(database: Database, node_id: str) -> list[int]:
    table = schema.events
    with database.read() as transaction:
        chosen = select(table.c.sequence).where(table.c.node_id == node_id).order_by(table.c.sequence)
        return [row.sequence for row in transaction.rows(chosen)]


def size(database: Database, node_id: str) -> int:
    table = schema.events
    with database.read() as transaction:
        return transaction.number(select(func.sum(func.length(table.c.body))).where(table.c.node_id == node_id))


def report(database: Database, first: int, count: int, text: str = "{}", node_id: str = "node-a") -> None:
    journal = tuple((number, text) for number in range(first, first + count))
    heartbeats.record(database, [replace(heartbeat(node_id), journal=journal)], now=NOW + first)


def test_who_reports_without_end_pushes_out_its_own_events(cluster: Database) -> None:
    """Flood: as many events as a member may send in a minute; they are never more than its share"""
    heartbeats.record(cluster, [heartbeat("node-b", journal=told(1, 2))], now=NOW - 100)
    for turn in range(REPORTS_PER_MINUTE // 8):
        report(cluster, 1 + turn * EVENTS_MAX, EVENTS_MAX)
        assert len(sequences(cluster, "node-a")) <= MOST_EVENTS
    last = REPORTS_PER_MINUTE // 8 * EVENTS_MAX
    kept = sequences(cluster, "node-a")
    assert kept == list(range(last - len(kept) + 1, last + 1)) and len(kept) >= MOST_EVENTS // 2
    assert sequences(cluster, "node-b") == [1, 2]
    heartbeats.record(cluster, [heartbeat("node-b", journal=told(3))], now=NOW)
    assert sequences(cluster, "node-b") == [1, 2, 3]


def test_large_events_are_fewer(cluster: Database) -> None:
    """Bytes count as rows do"""
    report(cluster, 1, 5)
    text = canonical.dumps({"detail": "x" * 8_000}).decode()
    for turn in range(3):
        report(cluster, 1_000 * (turn + 1), 500, text)
        assert size(cluster, "node-a") <= MOST_EVENTS * journals.BYTES_EACH
    assert sequences(cluster, "node-a")[-1] == 3_499


def test_an_event_that_no_agent_of_ours_writes_is_kept_as_it_is_shown(cluster: Database) -> None:
    """threats D-59"""
    said = {"event": "x" * 60_000, "detail": {"deep": ["y" * 60_000]}, "more": ["z" * 60_000], "at": "a\u202eb"}
    report(cluster, 1, 1, canonical.dumps(said).decode())
    assert size(cluster, "node-a") <= journals.EVENT_BYTES
    (shown,) = events.read(cluster, "node-a")
    assert shown.event == "x" * 253 + "..."
    assert shown.at == "a\\u202eb"


def test_one_event_is_always_kept(cluster: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "BYTES_EACH", 0)
    report(cluster, 1, 3)
    assert sequences(cluster, "node-a") == [3]


def test_many_members_have_less_each(cluster: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all no more than is meant, however many take part"""
    monkeypatch.setattr(journals, "IN_ALL", 40)
    monkeypatch.setattr(journals, "LEAST_EVENTS", 4)
    with cluster.read() as transaction:
        assert journals.share(transaction) == 20
    for node_id in ("node-a", "node-b"):
        report(cluster, 1, 100, node_id=node_id)
    assert [len(sequences(cluster, each)) for each in ("node-a", "node-b")] == [15, 15]
    admit(cluster, "node-c")
    report(cluster, 200, 1)
    assert len(sequences(cluster, "node-a")) == 9, "of a smaller share"
    monkeypatch.setattr(journals, "IN_ALL", 3)
    with cluster.read() as transaction:
        assert journals.share(transaction) == 4

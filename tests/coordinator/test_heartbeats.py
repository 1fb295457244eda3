"""What nodes report (protocol 3; rules K30, K41, K53, P23, J42)."""

import json

import pytest

from coordinator.database.database import Database
from coordinator.reports import heartbeats
from coordinator.reports.heartbeats import History
from tests.coordinator.candidates import NOW, contents, members, remove_node
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import events, heartbeat

REPORTED = ("node_status", "heartbeat_history", "events")


@pytest.fixture
def cluster(database: Database) -> Database:
    members(database, "node-a", "node-b")
    return database


def announce(database: Database, node_id: str, *versions: int) -> None:
    """These versions of its routes are published for a node, one after the other, with the content that is reported."""
    for version in versions:
        made = document("route_policy", version, subject=node_id, content_hash="sha256:" + "ab" * 32)
        assert not publish(database, publication(basis(database, node_id), made, node_id=node_id))


def test_a_batch_is_written_and_answered(cluster: Database) -> None:
    """protocol 3"""
    announce(cluster, "node-a", 3, 4)
    announce(cluster, "node-b", 5)  # what nodes may share is numbered for all of them
    batch = [
        heartbeat("node-a", journal=events(1, 2)),
        heartbeat("node-b", {"route_policy": 5}),
        heartbeat("node-a", {"route_policy": 4}),
    ]
    answers = heartbeats.record(cluster, batch, now=NOW)
    assert [answer.acknowledged_event for answer in answers] == [2, 0, 2]
    assert json.loads(answers[2].to_bytes()) == {
        "generation": answers[2].generation,
        "acknowledged_event": 2,
        "recorded": {"route_policy": {"authority_epoch": 1, "config_version": 4}},
        "directives": [],
    }
    kept = contents(cluster, *REPORTED)
    assert [len(kept[name]) for name in REPORTED] == [2, 2, 2]
    assert answers[0].generation >= 0 and not answers[0].is_behind


def test_events_are_recorded_once(cluster: Database) -> None:
    """rules J42, protocol 3: by node, incarnation, sequence; sent late, twice, out of order."""
    for sequences in ((1, 2), (2, 3), (1,), (3, 2)):
        heartbeats.record(cluster, [heartbeat(journal=events(*sequences))], now=NOW)
    heartbeats.record(cluster, [heartbeat(incarnation="i-2", journal=events(1))], now=NOW)
    assert len(contents(cluster, "events")["events"]) == 4


def test_history_is_bounded(cluster: Database) -> None:
    history = History(slots=3, slot_s=300)
    for number in range(20):
        heartbeats.record(cluster, [heartbeat()], now=NOW + 150 * number, history=history)
    assert len(contents(cluster, "heartbeat_history")["heartbeat_history"]) == 3
    assert len(contents(cluster, "node_status")["node_status"]) == 1


def test_a_node_restored_from_an_old_disk_is_told(cluster: Database, second: Database) -> None:
    """rules K41, P18: also by another replica."""
    announce(cluster, "node-a", 2, 9)
    heartbeats.record(cluster, [heartbeat(versions={"route_policy": 9})], now=NOW)
    (answer,) = heartbeats.record(second, [heartbeat(versions={"route_policy": 2})], now=NOW + 30)
    assert answer.is_behind
    assert json.loads(answer.to_bytes())["recorded"] == {"route_policy": {"authority_epoch": 1, "config_version": 9}}


def test_marks_of_many_scopes_are_not_remembered(cluster: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the length of their text; it comes to the same."""
    announce(cluster, "node-a", 3)
    remembered = heartbeats._marks_of.cache_info
    for longest, more in ((20, 0), (heartbeats.MARKS_REMEMBERED, 1)):
        monkeypatch.setattr(heartbeats, "MARKS_REMEMBERED", longest)
        heartbeats._marks_of.cache_clear()
        for _ in range(3):
            (answer,) = heartbeats.record(cluster, [heartbeat("node-a")], now=NOW)
            assert answer.recorded.keys() == {"route_policy"}
        assert remembered().currsize == more


def test_a_report_is_never_configuration(cluster: Database) -> None:
    """rules S70"""
    before = contents(cluster, "cluster", "nodes", "resources", "sites", "audit")
    heartbeats.record(cluster, [heartbeat(state="fenced")], now=NOW)
    assert contents(cluster, "cluster", "nodes", "resources", "sites", "audit") == before


def test_nothing_is_kept_of_a_stranger(cluster: Database) -> None:
    """rules J14: also of one that was removed while its report was on the way."""
    remove_node(cluster, "node-b", reason="", actor="root", now=NOW)
    answers = heartbeats.record(cluster, [heartbeat("node-b", journal=events(1)), heartbeat("node-a")], now=NOW)
    assert len(answers) == 2
    assert all("node-b" not in row for rows in contents(cluster, *REPORTED).values() for row in rows)
    assert heartbeats.record(cluster, [], now=NOW) == []


def test_text_of_other_scripts_is_kept(cluster: Database) -> None:
    """rules P23: both databases give back what was reported."""
    report = heartbeat(counters={"ключ \U0001f512": 1})
    heartbeats.record(cluster, [report], now=NOW)
    from sqlalchemy import select

    from coordinator.database import schema

    with cluster.read() as transaction:
        row = transaction.row(select(schema.node_status.c.body))
        assert row is not None and row.body == report.body

"""The journals of nodes, as an operator reads them (protocol 3; rules A13, S55)."""

import pytest
from sqlalchemy import insert, select

from coordinator.base.refusal import Refused
from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.reports import events, heartbeats
from snapshot import canonical
from tests.coordinator.candidates import NOW, members
from tests.coordinator.reports import heartbeat


@pytest.fixture
def cluster(database: Database) -> Database:
    members(database, "node-a", "node-b")
    return database


def told(sequence: int, event: str = "state", detail: str = "active -> degraded") -> dict[str, object]:
    return {"sequence": sequence, "at": "2027-01-15T08:00:00Z", "event": event, "scope": "", "detail": detail}


def report(database: Database, node_id: str, *journal: dict[str, object], now: float = NOW) -> None:
    heartbeats.record(database, [heartbeat(node_id, journal=list(journal))], now=now)


def test_what_a_node_told_is_read_the_newest_first(cluster: Database) -> None:
    """rules S55f: time and reasons, at the next check-in."""
    report(cluster, "node-a", told(1), told(2, "rejected", "bad_signature"))
    report(cluster, "node-a", told(3, detail="degraded -> active"), now=NOW + 60)
    found = events.read(cluster, "node-a")
    assert [(each.sequence, each.event, each.detail, each.received_at) for each in found] == [
        (3, "state", "degraded -> active", NOW + 60),
        (2, "rejected", "bad_signature", NOW),
        (1, "state", "active -> degraded", NOW),
    ]
    assert [each.sequence for each in events.read(cluster, "node-a", most=1)] == [3]


def test_each_node_has_its_own_and_what_is_told_twice_is_there_once(cluster: Database) -> None:
    """protocol.md 3: recorded once by node, incarnation, sequence"""
    report(cluster, "node-a", told(1))
    report(cluster, "node-a", told(1, detail="told again"))
    report(cluster, "node-b", told(7))
    assert [each.detail for each in events.read(cluster, "node-a")] == ["active -> degraded"]
    assert [each.sequence for each in events.read(cluster, "node-b")] == [7]
    assert events.read(cluster, "node-z") == []


@pytest.mark.parametrize(
    "other",
    [{"event": "x" * 65}, {"detail": {"deep": ["y"]}}, {"detail": "a\u202eb"}, {"at": "now"}],
)
def test_what_no_agent_of_ours_writes_is_refused(cluster: Database, other: dict[str, object]) -> None:
    """rules K53, threats D-59"""
    with pytest.raises(Refused):
        report(cluster, "node-a", told(1), {**told(2), **other})
    assert events.read(cluster, "node-a") == []


def test_what_a_later_version_says_besides_is_not_kept(cluster: Database) -> None:
    report(cluster, "node-a", told(1), {**told(2), "kind": "state"})
    assert [each.sequence for each in events.read(cluster, "node-a")] == [2, 1]
    with cluster.read() as transaction:
        assert all("kind" not in row.body for row in transaction.rows(select(schema.events.c.body)))


def test_what_an_earlier_version_took_is_bounded_and_safe_to_show(cluster: Database) -> None:
    """threats D-59: neither the coordinator nor a terminal suffers from texts that no agent of ours writes."""
    said = [{"sequence": 1}, {"event": "x" * 50_000, "detail": {"deep": ["y" * 10_000]}}, {"detail": "a\u202eb\u2028c"}]
    with cluster.record(now=NOW) as transaction:
        for number, event in enumerate(said, 1):
            body = canonical.dumps(event).decode()
            row = {"node_id": "node-a", "incarnation": "i", "sequence": number, "received_at": NOW, "body": body}
            transaction.run(insert(schema.events).values(row))
    strange, long, empty = events.read(cluster, "node-a")
    assert (empty.event, empty.at) == ("", "")
    assert strange.detail == "a\\u202eb\\u2028c"
    assert len(long.event) <= 256 and len(long.detail) <= 1_024


def test_the_longest_scope_is_shown(cluster: Database) -> None:
    honest = "route_policy/" + ",".join(f"{number:04}" + "z" * 60 for number in range(64))
    report(cluster, "node-a", {**told(3), "scope": honest})
    assert events.read(cluster, "node-a")[0].scope == honest

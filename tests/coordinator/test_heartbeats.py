"""What nodes report (protocol 3; rules K30, K41, K53, P23, J42)."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.degraded import Mode
from agent.standing import State
from coordinator import heartbeats, revocation
from coordinator.checkin import Comparison, Mark
from coordinator.database import Database
from coordinator.heartbeats import History, Known, Record, merge, parse
from coordinator.refusal import Code, Refused
from tests.coordinator.candidates import NOW, admit, contents, found
from tests.coordinator.publications import basis, document, publication, publish
from tests.coordinator.reports import body, events, heartbeat, mark, scope, value
from wire.messages import MODES, SCOPES_MAX, STATES

REPORTED = ("node_status", "heartbeat_history", "events")


@pytest.fixture
def cluster(database: Database) -> Database:
    found(database)
    for node_id in ("node-a", "node-b"):
        admit(database, node_id)
    return database


def announce(database: Database, node_id: str, *versions: int) -> None:
    """These versions of its routes are published for a node, one after the other, with the content that is reported."""
    for version in versions:
        made = document("route_policy", version, subject=node_id, content_hash="sha256:" + "ab" * 32)
        assert not publish(database, publication(basis(database, node_id), made, node_id=node_id))


def is_bad(data: bytes) -> bool:
    with pytest.raises(Refused) as caught:
        parse(data)
    return caught.value.code is Code.BAD_REQUEST


def test_a_report_says_what_is_active() -> None:
    """rules S30, K30"""
    report = heartbeat(journal=events(4, 5))
    assert report.active == {"route_policy": Mark(1, 3, "sha256:" + "ab" * 32)}
    assert (report.head, report.head_grade, report.state) == (Mark(1, 2), "fresh", "active")
    assert [sequence for sequence, _ in report.journal] == [4, 5]
    assert json.loads(report.body) == value(journal=events(4, 5))


def test_a_new_node_has_no_head_and_no_scope() -> None:
    report = heartbeat(versions={}, head=None, scopes={"node_bootstrap": scope(None)})
    assert (report.head, report.active) == (Mark(0, 0), {})


@pytest.mark.parametrize("name", sorted(value()))
def test_every_member_is_required_and_in_form(name: str) -> None:
    """rules K53: `bad_request`, never a 500."""
    good = value()
    assert is_bad(json.dumps({key: each for key, each in good.items() if key != name}).encode())
    for wrong in ([[]], -1, "a\x00b", "x" * 5_000, True, {"x": {"y": "\x07"}}):
        assert is_bad(json.dumps({**good, name: wrong}).encode())
    assert parse(json.dumps(good).encode()).node_id == "node-a"


def test_a_state_is_one_that_there_is() -> None:
    """rules K53, J40: a word that is made up would be counted as a state of the fleet"""
    assert (set(STATES), set(MODES)) == (set(State), set(Mode))
    for state in STATES:
        assert heartbeat(state=state).state == state
    for made_up in ("BANANA", "ACTIVE", "active ", "", "unseen", "silent", 1, None, ["active"], {}):
        assert is_bad(body(state=made_up)) and is_bad(body(mode=made_up))
        assert is_bad(body(head={**value()["head"], "grade": made_up}))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16", "utf-32-be", "utf-8-sig"])
def test_a_report_in_another_encoding(encoding: str) -> None:
    """rules K53: what PostgreSQL does not take must not get into a batch"""
    assert is_bad(json.dumps(value()).encode(encoding))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"null", b"\xff\xfe", b"{" * 100_000, b'{"a":' * 50_000, b" " * (64 << 10) + body(),
        body()[:-1], body()[:-1] + b',"state":"x"}', body(extra=1), body().replace(b"12.5", b"NaN"),
        body().replace(b"12.5", b"1e999"), body().replace(b"active", b"AC\\u0000TIVE"),
        body().replace(b"active", b"AC\\ud800TIVE"), body(scopes={"../x": scope(None)}),
        body(scopes={"route_policy": {"active": None}}), body(scopes={"route_policy": scope({"config_version": 1})}),
        body(journal=[{"kind": "x"}]), body(journal=[1]), body(counters={"a": {"b": "\x1b[2J"}}),
    ],
)  # fmt: skip
def test_what_is_no_report(data: bytes) -> None:
    """rules K53, P23, P6"""
    assert is_bad(data)


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: json.dumps({**value(), "mode": text}).encode()))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_report_or_a_typed_refusal(data: bytes) -> None:
    """rules P6, P23"""
    try:
        parse(data)
    except Refused as refused:
        assert refused.code is Code.BAD_REQUEST


def test_marks_on_record_never_go_down() -> None:
    """rules K41: a node restored from an old disk is behind, and is told what it held."""
    record, compared = merge(None, heartbeat(versions={"route_policy": 7}))
    assert compared == {}
    record, compared = merge(record, heartbeat(versions={"route_policy": 5}))
    assert compared == {"route_policy": Comparison.NODE_BEHIND}
    assert record.recorded["route_policy"].pair == (1, 7)
    record, compared = merge(record, heartbeat(versions={"qos_policy": 1}))
    assert compared == {"route_policy": Comparison.NODE_BEHIND}
    record, compared = merge(record, heartbeat(versions={"route_policy": 8, "qos_policy": 1}))
    assert compared == {}


def test_what_is_on_record_of_a_node_is_bounded() -> None:
    """rules K53, P23: what it does not report any more goes first; what a node reads of an answer is bounded, too"""
    record = None
    for turn in range(4):
        claims = {f"scope-{turn}-{number}": Mark(1, 1, "sha256:" + "ab" * 32) for number in range(100)}
        record, _ = merge(record, replace(heartbeat(), active=claims))
        assert len(record.recorded) <= SCOPES_MAX
        assert record.recorded.items() >= claims.items()
    many = {f"route_policy/id-{number}": scope(mark(1)) for number in range(SCOPES_MAX + 1)}
    assert is_bad(body(scopes={name: {**one, "active": None} for name, one in many.items()}))


def test_a_doubtful_version_is_no_mark() -> None:
    """rules K37, K41: it alarms, and what was on record stays there"""
    record, _ = merge(None, heartbeat())
    ahead = Known(doubts={"route_policy": Comparison.NODE_AHEAD})
    assert merge(record, heartbeat(versions={"route_policy": 9}), ahead) == (record, ahead.doubts)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.booleans()), max_size=12))
def test_a_mark_goes_down_to_what_the_head_lists_and_nowhere_else(reports: list[tuple[int, int, bool]]) -> None:
    """rules S87, K41"""
    record = None
    for version, listed, is_read in reports:
        before = record.recorded["route_policy"].config_version if record else 0
        told = Known(announced={"route_policy": Mark(1, listed, "sha256:" + "ab" * 32)}) if is_read else None
        record, compared = merge(record, heartbeat(versions={"route_policy": version}), told)
        after = record.recorded["route_policy"].config_version
        assert after >= before or (is_read and after == version == listed)
        assert (compared == {}) is (after == version)


def test_one_version_with_two_contents() -> None:
    """rules X16"""
    record, _ = merge(None, heartbeat())
    other = heartbeat(scopes={"route_policy": scope(mark(3, content="ef"))})
    assert merge(record, other)[1] == {"route_policy": Comparison.CONFLICT}


def test_events_are_acknowledged_by_incarnation() -> None:
    record, _ = merge(None, heartbeat(journal=events(1, 2, 3)))
    assert record.acknowledged_event == 3
    assert merge(record, heartbeat())[0].acknowledged_event == 3
    assert merge(record, heartbeat(incarnation="i-2"))[0].acknowledged_event == 0
    assert merge(Record("i-1", {}, 9), heartbeat(journal=events(2)))[0].acknowledged_event == 9


def test_a_batch_is_written_and_answered(cluster: Database) -> None:
    """protocol 3"""
    announce(cluster, "node-a", 3, 4)
    announce(cluster, "node-b", 3)
    batch = [heartbeat("node-a", journal=events(1, 2)), heartbeat("node-b"), heartbeat("node-a", {"route_policy": 4})]
    answers = heartbeats.record(cluster, batch, now=NOW)
    assert [answer.acknowledged_event for answer in answers] == [2, 0, 2]
    assert answers[2].body() == {
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
    assert answer.body()["recorded"] == {"route_policy": {"authority_epoch": 1, "config_version": 9}}


def test_a_report_is_never_configuration(cluster: Database) -> None:
    """rules S70"""
    before = contents(cluster, "cluster", "nodes", "resources", "sites", "audit")
    heartbeats.record(cluster, [heartbeat(state="fenced")], now=NOW)
    assert contents(cluster, "cluster", "nodes", "resources", "sites", "audit") == before


def test_nothing_is_kept_of_a_stranger(cluster: Database) -> None:
    """rules J14: also of one that was removed while its report was on the way."""
    revocation.remove_node(cluster, "node-b", reason="", actor="root", now=NOW)
    answers = heartbeats.record(cluster, [heartbeat("node-b", journal=events(1)), heartbeat("node-a")], now=NOW)
    assert len(answers) == 2
    assert all("node-b" not in row for rows in contents(cluster, *REPORTED).values() for row in rows)
    assert heartbeats.record(cluster, [], now=NOW) == []


def test_text_of_other_scripts_is_kept(cluster: Database) -> None:
    """rules P23: both databases give back what was reported."""
    report = heartbeat(counters={"ключ \u2028 \U0001f512": 1})
    heartbeats.record(cluster, [report], now=NOW)
    from sqlalchemy import select

    from coordinator import schema

    with cluster.read() as transaction:
        row = transaction.row(select(schema.node_status.c.body))
        assert row is not None and row.body == report.body

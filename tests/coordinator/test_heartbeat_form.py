"""A report in form (protocol 3; rules K30, K53, P23)."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.state.node_state import State
from coordinator.base.refusal import Code, Refused
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.heartbeat_form import parse
from snapshot.degraded import Mode
from tests.coordinator.reports import body, events, heartbeat, scope, value
from wire.messages import HEARTBEAT_BYTES, MODES, SCOPES_MAX, STATES


def is_bad(data: bytes) -> bool:
    with pytest.raises(Refused) as caught:
        parse(data)
    return caught.value.code is Code.BAD_REQUEST


def test_a_report_says_what_is_active() -> None:
    """rules S30, K30"""
    report = heartbeat(journal=events(4, 5))
    assert report.active == {"route_policy": ReportedMark(1, 3, "sha256:" + "ab" * 32)}
    assert (report.head, report.head_grade, report.state) == (ReportedMark(1, 2), "fresh", "active")
    assert [sequence for sequence, _ in report.journal] == [4, 5]
    assert json.loads(report.body) == value(journal=events(4, 5))


def test_a_new_node_has_no_head_and_no_scope() -> None:
    report = heartbeat(versions={}, head=None, scopes={"node_bootstrap": scope(None)})
    assert (report.head, report.active) == (ReportedMark(0, 0), {})


@pytest.mark.parametrize("name", sorted(value()))
def test_every_member_is_required_and_in_form(name: str) -> None:
    """rules K53: `bad_request`, never a 500."""
    good = value()
    assert is_bad(json.dumps({key: each for key, each in good.items() if key != name}).encode())
    for wrong in ([[]], -1, "a\x00b", "x" * 5_000, True, {"x": {"y": "\x07"}}):
        assert is_bad(json.dumps({**good, name: wrong}).encode())
    assert parse(json.dumps(good).encode()).node_id == "node-a"


def test_how_often_a_node_reports_may_be_said() -> None:
    assert json.loads(heartbeat(interval_s=300).body)["interval_s"] == 300
    assert all(is_bad(body(interval_s=wrong)) for wrong in (0, -1, 3_601, True, None, "300", [300]))


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
        b"", b"[]", b"null", b"\xff\xfe", b"{" * 100_000, b'{"a":' * 50_000, b" " * HEARTBEAT_BYTES + body(),
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


def test_too_many_scopes() -> None:
    """rules K53, P23"""
    many = {f"route_policy/id-{number}": scope(None) for number in range(SCOPES_MAX + 1)}
    assert is_bad(body(scopes=many))
    assert parse(body(scopes=dict(list(many.items())[1:]))).active == {}


def test_whether_its_roots_are_confirmed_may_be_said() -> None:
    """threats D-19"""
    assert json.loads(heartbeat(roots_confirmed=False).body)["roots_confirmed"] is False
    assert all(is_bad(body(roots_confirmed=wrong)) for wrong in (0, 1, None, "true", [True]))

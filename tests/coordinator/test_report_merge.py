"""What a report changes of its node's record (rules S87, K37, K41, X16)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from coordinator.reports.checkin import Comparison, ReportedMark
from coordinator.reports.report_merge import Known, NodeRecord, merge
from tests.coordinator.reports import events, heartbeat, mark, scope
from wire.messages import SCOPES_MAX


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
        claims = {f"scope-{turn}-{number}": ReportedMark(1, 1, "sha256:" + "ab" * 32) for number in range(100)}
        record, _ = merge(record, replace(heartbeat(), active=claims))
        assert len(record.recorded) <= SCOPES_MAX
        assert record.recorded.items() >= claims.items()


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
        told = Known(announced={"route_policy": ReportedMark(1, listed, "sha256:" + "ab" * 32)}) if is_read else None
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
    assert merge(NodeRecord("i-1", {}, 9), heartbeat(journal=events(2)))[0].acknowledged_event == 9

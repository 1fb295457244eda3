"""A report in form (protocol 3; rules K30, K53, P23)."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.state.node_state import State
from coordinator.base.refusal import Code, Refused
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.heartbeat_form import NO_MARK, ReceivedHeartbeat, parse
from coordinator.reports.standing_refusals import LastRefused
from snapshot.degraded import Mode
from tests.coordinator.reports import body, event, events, heartbeat, mark, rejected, scope, value
from wire.messages import HEARTBEAT_BYTES, MODES, SCOPES_MAX, STATES, BadMessageError, Heartbeat


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


@pytest.mark.parametrize("name", sorted(value().keys() - {"features"}))
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
        body()[:-1], body()[:-1] + b',"state":"x"}', body(extra=1), body(uptime_s=1.5),
        body().replace(b":12}", b":NaN}"), body().replace(b":12}", b":1e999}"),
        body().replace(b"active", b"AC\\u0000TIVE"),
        body().replace(b"active", b"AC\\ud800TIVE"), body(scopes={"../x": scope(None)}),
        body(scopes={"route_policy": {"active": None}}), body(scopes={"route_policy": scope({"config_version": 1})}),
        body(journal=[{**event(1), "kind": "x"}]), body(journal=[1]), body(counters={"a": {"b": "\x1b[2J"}}),
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


def test_what_it_reads_may_be_said() -> None:
    """format.md 1: an agent that is older than the member reads nothing that was added."""
    assert heartbeat(features=["candidates", "config"]).features == {"candidates", "config"}
    older = {name: each for name, each in value().items() if name != "features"}
    assert parse(json.dumps(older).encode()).features == frozenset()
    wrong = ([1], "config", ["Config"], ["a"] * 65, {"config": True})
    assert all(is_bad(body(features=each)) for each in wrong)


def test_whether_its_roots_are_confirmed_may_be_said() -> None:
    """threats D-19"""
    assert json.loads(heartbeat(roots_confirmed=False).body)["roots_confirmed"] is False
    assert all(is_bad(body(roots_confirmed=wrong)) for wrong in (0, 1, None, "true", [True]))


FULL = value(
    scopes={
        "route_policy": {
            "active": mark(3),
            "previous": {
                "authority_epoch": 1,
                "config_version": 2,
                "content_hash": "sha256:" + "ab" * 32,
                "snapshot_id": "s",
            },
            "pending": None,
            "last_rejected": rejected(4),
            "notified": {"web.service": {"version": 3, "ok": True}},
        },
        "node_runtime": {**scope(mark(5)), "last_rejected": rejected(6, at="2020-01-01T00:00:00Z")},
        "qos_policy": {**scope(None), "last_rejected": rejected(None)},
    },
    journal=[event(7), event(8)],
    interval_s=30,
    roots_confirmed=True,
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**53) | st.floats() | st.text(max_size=3)
    | st.sampled_from(["active", "fresh", "s-1", "x" * 65, "x" * 129, "2027-01-15T24:00:00Z", "a\u2028"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["active", "route_policy"]), inner),
    max_leaves=4,
)  # fmt: skip


@st.composite
def reported(draw: st.DrawFn) -> Mapping[str, object]:
    """A heartbeat of which some members, at any depth, are another value, or missing, or not known."""
    whole = json.loads(json.dumps(FULL))
    for _ in range(draw(st.integers(0, 3))):
        holder = whole
        while True:
            key = draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder))))
            if not isinstance(holder[key], dict | list) or not holder[key] or draw(st.booleans()):
                break
            holder = holder[key]
        match draw(st.sampled_from(["other", "none", "more"])):
            case "other":
                holder[key] = draw(ANY)
            case "none":
                del holder[key]
            case _ if isinstance(holder, dict):
                holder[draw(st.sampled_from(["more", "", "active"]))] = draw(ANY)
    return whole


def kept_of(message: Heartbeat, data: bytes) -> ReceivedHeartbeat:
    """What the coordinator keeps of a heartbeat, by its objects."""
    active = {
        name: ReportedMark(one.active.authority_epoch, one.active.config_version, one.active.content_hash)
        for name, one in message.scopes.items()
        if one.active is not None
    }
    refused = {
        name: LastRefused(last.config_version, last.reason, last.step)
        for name, one in message.scopes.items()
        if (last := one.last_rejected) is not None
        and last.config_version is not None
        and (one.active is None or last.at >= one.active.applied_at)
        and (one.active is None or last.config_version != one.active.config_version)
    }
    head = message.head
    return ReceivedHeartbeat(
        node_id=message.node_id,
        cluster_id=message.cluster_id,
        incarnation=message.incarnation,
        boot_id=message.boot_id,
        agent_version=message.agent_version,
        state=message.state,
        mode=message.mode,
        head=NO_MARK if head is None else ReportedMark(head.authority_epoch, head.generation),
        head_grade="none" if head is None else head.grade,
        active=active,
        refused=refused,
        journal=tuple((each.sequence, each.to_bytes().decode()) for each in message.journal),
        features=frozenset(message.features or ()),
        body=data.decode(),
    )


@given(reported() | ANY)
@settings(deadline=None)
def test_any_value_gets_one_verdict_from_both_readers(said: object) -> None:
    """rules K53: the quick reader takes what is a heartbeat, and nothing else, and finds the same in it"""
    data = json.dumps(said).encode()
    try:
        message = Heartbeat.parse(data)
    except BadMessageError:
        assert is_bad(data)
        return
    assert parse(data) == kept_of(message, data)


def test_what_both_readers_find_in_a_full_one() -> None:
    data = json.dumps(FULL).encode()
    assert set(parse(data).refused) == {"route_policy"}
    assert parse(data) == kept_of(Heartbeat.parse(data), data)

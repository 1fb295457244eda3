"""What a coordinator answers: read as it is written, with what a later one adds, and refused if it is out of form."""

import json
import re
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.answer_message import AnswerMessage
from wire.forms import Form, record
from wire.local import local_answers, node_status
from wire.local.node_status import NodeStatus
from wire.messages import BadMessageError
from wire.operators import fleet_answers, operator_answers, trust_answers
from wire.operators.fleet_answers import MemberDetail, MemberPage, NodeEvents, ReportedEvent
from wire.operators.operator_answers import (
    AllowlistEntry,
    CoordinatorStatus,
    IssuedToken,
    OperatorRefusal,
    ResourcePage,
)

EVENTS = NodeEvents("n1", (ReportedEvent(1, "i", "2027-01-15T08:00:00Z", "applied", "", "", 1_800_000_000.25),))
ANSWERS = [
    answer
    for module in (fleet_answers, operator_answers, trust_answers, node_status, local_answers)
    for answer in vars(module).values()
    if isinstance(answer, type) and issubclass(answer, AnswerMessage) and answer.__module__ == module.__name__
]


def given_value(answer: AnswerMessage) -> dict:
    return json.loads(json.dumps(answer.to_value()))


def test_a_fraction_is_read_as_it_is_written() -> None:
    assert NodeEvents.read(EVENTS.to_bytes()) == EVENTS


def test_null_is_written_where_it_says_something() -> None:
    assert AllowlistEntry("n1").to_value()["certificate_sha256"] is None
    assert "problems" in OperatorRefusal("conflict", "it is so").to_value()


def test_a_member_that_a_later_coordinator_adds_is_passed_over() -> None:
    value = given_value(EVENTS)
    value["total"] = 7
    value["events"][0]["severity"] = {"level": 1}
    assert NodeEvents.read(json.dumps(value).encode()) == EVENTS


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        (NodeEvents, b'{"node_id": "n1", "events": {}}', "events must be an array, and is an object of 0 members"),
        (NodeEvents, b'{"node_id": "n1", "events": [{}]}', r"events[0] lacks at, detail"),
        (NodeEvents, b'{"node_id": 1, "events": []}', "node_id must be a text"),
        (NodeEvents, b'{"node_id": "n1"}', "the message lacks events"),
        (CoordinatorStatus, b"[]", "the message must be an object, and is an array of 0"),
        (IssuedToken, b"<html>", "not JSON"),
        (ResourcePage, b'{"resources": [], "next": NaN}', "no integer"),
        (ResourcePage, b'{"resources": [], "next": 1e999}', "beyond all bounds"),
        (ResourcePage, b'{"resources": ' + b"[" * 65 + b"]" * 65 + b', "next": null}', "nested too deep"),
    ],
)
def test_what_is_wrong_is_named(kind: type[AnswerMessage], data: bytes, said: str) -> None:
    with pytest.raises(BadMessageError, match=re.escape(said)):
        kind.read(data)


ENTRY = {
    "node_id": "n1",
    "kind": "data",
    "site_id": "s",
    "certificate_sha256": "a",
    "incarnation": "i",
    **dict.fromkeys(("next_certificate_sha256", "direct_url", "last_seen", "revoked_at", "reason", "draining_since")),
    "first_seen": 1.5,
    "generation": 3,
    "labels": {},
    "certificate_expires_at": None,
    "state": "active",
    "why": "",
    **dict.fromkeys(("mode", "head_grade", "agent_version", "reported_at")),
}
DETAIL = {
    **ENTRY,
    **dict.fromkeys(("boot_id", "head", "degraded_since", "interval_s", "roots_confirmed", "clock_synchronised")),
    "clock_offset_s": None,
    "features": None,
    "scopes": [],
    "history": [],
    "held_back": {},
}


def test_what_an_older_coordinator_does_not_say_is_not_asked_of_it() -> None:
    """A command line is upgraded before the coordinator that it asks, or asks one of another machine."""
    listed = MemberPage.read(json.dumps({"nodes": [ENTRY], "next": None}).encode()).nodes[0]
    assert (listed.came_from, listed.versions_behind) == (None, None)
    detail = MemberDetail.read(json.dumps(DETAIL).encode())
    assert (detail.came_from, detail.versions_behind, detail.relay) == (None, None, None)
    newer = {**DETAIL, "came_from": {"relay r": 2}, "versions_behind": 1}
    assert MemberDetail.read(json.dumps(newer).encode()).came_from == {"relay r": 2}


def test_what_an_older_agent_does_not_say_is_not_asked_of_it() -> None:
    """Nor of what it relays and stores"""
    optional = {"relay", "storage", "remedy"}
    assert {field.name for field in fields(NodeStatus)} - set(record(NodeStatus).schema["required"]) == optional


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "n1"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner))


@given(st.sampled_from(ANSWERS), st.data())
def test_every_reader_gives_a_value_one_verdict(kind: type[AnswerMessage], data: st.DataObject) -> None:
    """Bytes and values, with and without a member more; what is taken is written, and read again as it was."""
    form: Form[AnswerMessage] = record(kind)
    members = dict.fromkeys(kind.__dataclass_fields__, VALUES)
    value = data.draw(st.fixed_dictionaries({}, optional=members))
    taken = form.takes(value)
    for sent in (value, {**value, "a member that nobody knows": 1}):
        try:
            read = kind.read(json.dumps(sent).encode())
        except BadMessageError:
            assert not taken
        else:
            assert taken
            assert kind.read(read.to_bytes()) == read

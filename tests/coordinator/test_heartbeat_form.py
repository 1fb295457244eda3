"""A report in form (protocol 3; rules K30, K53, P23)."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.state.node_state import State
from coordinator.base.refusal import Code, Refused
from coordinator.fleet.provenance import GivenBy, came_from
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.heartbeat_form import NO_MARK, HeartbeatReader, ReceivedHeartbeat, parse
from coordinator.reports.standing_refusals import LastRefused
from snapshot import canonical
from snapshot.degraded import Mode
from tests.coordinator.reports import body, event, events, heartbeat, mark, rejected, scope, value, vote
from tests.examples import examples
from wire.forms import record
from wire.messages import (
    HEARTBEAT_BYTES,
    MODES,
    SCOPES_MAX,
    STATES,
    VOTES_MAX,
    BadMessageError,
    Heartbeat,
    ScopeLimits,
)
from wire.strict_json import parse_json

LIMITS = {"entries": 200, "bytes": None, "removed_percent": 50}


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
        body()[:-1], body()[:-1] + b',"state":"x"}', body(uptime_s=1.5),
        body().replace(b":12}", b":NaN}"), body().replace(b":12}", b":1e999}"),
        body().replace(b"active", b"AC\\u0000TIVE"),
        body().replace(b"active", b"AC\\ud800TIVE"), body(scopes={"../x": scope(None)}),
        body(scopes={"route_policy": {"active": None}}), body(scopes={"route_policy": scope({"config_version": 1})}),
        body(journal=[1]), body(extra=1.5), body(counters={"a": {"b": "\x1b[2J"}}),
    ],
)  # fmt: skip
def test_what_is_no_report(data: bytes) -> None:
    """rules K53, P23, P6"""
    assert is_bad(data)


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: json.dumps({**value(), "mode": text}).encode()))
@examples(200)
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


def test_what_it_votes_and_which_limits_it_has_may_be_said() -> None:
    """protocol.md 3: an agent that is older than the members votes on nothing, and limits nothing."""
    report = heartbeat(votes=[vote("route_policy", "blast_radius")], limits={"config/a": LIMITS})
    assert [(each.scope, each.verdict, each.step, each.reason) for each in report.votes] == [
        ("route_policy", "refused", 12, "blast_radius")
    ]
    assert report.limits == {"config/a": ScopeLimits(entries=200, bytes=None, removed_percent=50)}
    assert (heartbeat().votes, heartbeat().limits, heartbeat().validated) == ((), {}, frozenset())


@pytest.mark.parametrize(
    "wrong",
    [
        {"votes": None}, {"votes": {}}, {"votes": [vote("../x")]},
        {"votes": [{**vote("route_policy"), "verdict": "yes"}]},
        {"votes": [{**vote("route_policy"), "step": 13}]}, {"votes": [{**vote("route_policy"), "detail": "a\nb"}]},
        {"votes": [{**vote("route_policy"), "detail": "x" * 257}]}, {"votes": [vote("route_policy")] * (VOTES_MAX + 1)},
        {"limits": {"config/a": {**LIMITS, "removed_percent": 101}}},
        {"limits": {"config/a": {"entries": 1}}}, {"limits": {"../x": LIMITS}}, {"limits": None},
        {"scopes": {"route_policy": {**scope(None), "has_validator": "yes"}}},
    ],
)  # fmt: skip
def test_what_is_no_vote_and_no_limit(wrong: Mapping[str, object]) -> None:
    """rules K53: in form and bounded as all the rest; the next one is read"""
    assert is_bad(body(**wrong))
    assert heartbeat(votes=[vote("route_policy")] * VOTES_MAX).votes[0].verdict == "accepted"


LATER = {"another": [{"x": "\x1b[2J"}], "": 1, "more": None}
ORIGIN = {"snapshot_id": "s", "source": "https://r:7447", "kind": "snapshot", "way": "satellite", "node_id": "r"}


def test_what_a_later_release_says_beside_the_rest_is_passed_over() -> None:
    """rules K53, X14: a coordinator that was taken back to the release before sees its newer nodes all the same, at any
    depth; what nobody has judged is not kept, and what is known is judged as ever
    """
    said = {**scope(mark(3)), "last_rejected": {**rejected(4), **LATER}, "origin": {**ORIGIN, **LATER}, **LATER}
    known = {**scope(mark(3)), "last_rejected": rejected(4), "origin": ORIGIN}
    later = {"votes": [{**vote("route_policy"), **LATER}], "journal": [{**event(4), **LATER}], **LATER}
    older = {"votes": [vote("route_policy")], "journal": [event(4)]}
    reader = HeartbeatReader()
    for read in (parse, reader.read, reader.read):
        report = read(body(scopes={"route_policy": said}, **later))
        assert report == replace(parse(body(scopes={"route_policy": known}, **older)), is_newer=True)
    assert not heartbeat().is_newer
    assert is_bad(body(scopes={"route_policy": {**said, "active": None, "good": "ab"}}))
    assert is_bad(body(state="BANANA", **LATER)) and is_bad(body(scopes={"route_policy": LATER}))


def test_a_word_that_a_later_release_has_refuses_no_report() -> None:
    """rules K53: and is none of ours; what is no word is refused"""
    report = heartbeat(scopes={"route_policy": {**scope(mark(3)), "origin": ORIGIN}})
    assert came_from(json.loads(report.body)["scopes"]) == {GivenBy("other", "r"): 1}
    for wrong in ("", "A way", "x\x00", "x" * 65, 1, None, ["relay"]):
        assert is_bad(body(scopes={"route_policy": {**scope(mark(3)), "origin": {**ORIGIN, "way": wrong}}}))


HELD = {"authority_epoch": 1, "config_version": 2, "content_hash": "sha256:" + "ab" * 32, "snapshot_id": "s"}
REVERTED = {
    "config_version": 4,
    "content_hash": "sha256:" + "ab" * 32,
    "check": "web",
    "detail": "exit 1",
    "at": "2027-01-15T08:00:30Z",
}


def test_what_is_good_and_what_was_taken_back_may_be_said() -> None:
    """protocol.md 3: "tried B, went back to A" is told apart from "never got B"."""
    said = {**scope(mark(3)), "good": mark(3)["content_hash"], "reverted": REVERTED}
    report = heartbeat(scopes={"route_policy": said, "qos_policy": scope(mark(1))})
    assert report.good == {"route_policy": mark(3)["content_hash"]}
    assert (report.reverted["route_policy"].check, report.reverted["route_policy"].config_version) == ("web", 4)
    assert report.reverted.keys() == {"route_policy"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"good": None}, {"good": "ab"}, {"probation_until": 5},
        {"attempted": {**HELD, "snapshot_id": ""}}, {"attempted": None},
        {"reverted": None}, {"reverted": {**REVERTED, "check": ""}},
        {"reverted": {**REVERTED, "detail": "a\x1bb"}}, {"reverted": {**REVERTED, "detail": "x" * 257}},
        {"reverted": {"config_version": 4}},
    ],
)  # fmt: skip
def test_what_is_no_word_of_a_probation(wrong: Mapping[str, object]) -> None:
    """rules K53: in form and bounded as all the rest"""
    assert is_bad(body(scopes={"route_policy": {**scope(mark(3)), **wrong}}))
    assert heartbeat(scopes={"route_policy": {**scope(mark(3)), "reverted": REVERTED}}).reverted


FULL = value(
    scopes={
        "route_policy": {
            "active": mark(3),
            "previous": HELD,
            "pending": None,
            "last_rejected": rejected(4),
            "notified": {"web.service": {"version": 3, "ok": True}},
            "has_validator": True,
            "good": "sha256:" + "ef" * 32,
            "probation_until": "2027-01-15T08:01:00Z",
            "attempted": {**HELD, "config_version": 4},
            "reverted": REVERTED,
        },
        "node_runtime": {**scope(mark(5)), "last_rejected": rejected(6, at="2020-01-01T00:00:00Z")},
        "qos_policy": {**scope(None), "last_rejected": rejected(None), "has_validator": False},
    },
    journal=[event(7), event(8)],
    interval_s=30,
    roots_confirmed=True,
    votes=[vote("route_policy"), vote("node_runtime", "validator_refused")],
    limits={"route_policy": {"entries": 200, "bytes": None, "removed_percent": 50}},
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
        votes=message.votes or (),
        limits=message.limits or {},
        validated=frozenset(name for name, one in message.scopes.items() if one.has_validator),
        good={name: one.good for name, one in message.scopes.items() if one.good is not None},
        reverted={name: one.reverted for name, one in message.scopes.items() if one.reverted is not None},
        body=data.decode(),
    )


@given(reported() | ANY)
def test_any_value_gets_one_verdict_from_both_readers(said: object) -> None:
    """rules K53: the quick reader takes what is a heartbeat, and nothing else, and finds the same in it"""
    data = json.dumps(said).encode()
    try:
        form = record(Heartbeat)
        known = form.known_part(parse_json(data, HEARTBEAT_BYTES))
        message = form.read(known, "it")
    except BadMessageError:
        assert is_bad(data)
        return
    if known == said:
        assert parse(data) == kept_of(message, data)
    else:
        assert parse(data) == replace(kept_of(message, canonical.dumps(known)), is_newer=True)


def test_what_both_readers_find_in_a_full_one() -> None:
    data = json.dumps(FULL).encode()
    assert set(parse(data).refused) == {"route_policy"}
    assert parse(data) == kept_of(Heartbeat.parse(data), data)


# ---- one that asks again and again


def test_scopes_that_are_what_they_were_are_not_judged_again() -> None:
    """Whatever else of the report has changed; and it comes to the same."""
    reader = HeartbeatReader()
    first = body(versions={"route_policy": 3, "qos_policy": 4})
    later = [
        body(
            versions={"route_policy": 3, "qos_policy": 4},
            sent_at="2027-01-15T08:00:30Z",
            uptime_s=42,
            journal=[event(5)],
        ),
        body(versions={"route_policy": 4, "qos_policy": 4}),
        body(versions={"route_policy": 3, "qos_policy": 4}, counters={"rejections": 2}),
    ]
    for each in (first, *later, first):
        assert reader.read(each) == parse(each)
    assert len(reader._known) == 2
    assert reader.read(first).active is reader.read(later[0]).active


def test_what_is_out_of_form_beside_scopes_that_are_known_is_refused_as_ever() -> None:
    """rules K53: by what the whole of it says."""
    reader, good = HeartbeatReader(), body()
    reader.read(good)
    text = good[good.index(b'"scopes":') : good.index(b',"sent_at"')]
    for bad in (
        good.replace(b'"uptime_s":12', b'"uptime_s":-12'),
        good.replace(b'"uptime_s":12', b'"uptime_s":12,"uptime_s":12'),
        good.replace(b'"uptime_s":12', b'"uptime_s":12,' + text),  # given twice
        good.replace(text, b'"scopes":3,"more":{' + text + b',"sent_at":"x"}'),  # in another place
        good.replace(text, b'"scopes":3').replace(b'"rejections":0', text + b',"sent_at":1'),
        good + b"}",
        good[:-1],
        good + b" " * (HEARTBEAT_BYTES - len(good) + 1),
    ):
        with pytest.raises(Refused) as caught:
            reader.read(bad)
        with pytest.raises(Refused) as expected:
            parse(bad)
        assert str(caught.value) == str(expected.value)
    assert reader.read(good) == parse(good)


def test_scopes_are_found_where_they_are_and_nowhere_else() -> None:
    """A text that looks like them, before them, is a text: the report is read as a whole."""
    reader = HeartbeatReader()
    reader.read(body())
    known = body()[body().index(b'"scopes":') + 9 : body().index(b',"sent_at"')].decode()
    told = [{**event(5), "detail": f'"scopes":{known},"sent_at":'[:200]}]
    spaced = json.dumps(value(versions={"route_policy": 9}, journal=told)).encode()
    for each in (body(versions={"route_policy": 9}, journal=told), spaced, spaced):
        assert reader.read(each) == parse(each)
        assert reader.read(each).active["route_policy"].config_version == 9


def test_only_so_many_are_remembered() -> None:
    reader = HeartbeatReader(most=2)
    for version in (1, 2, 3, 1):
        assert reader.read(body(versions={"route_policy": version})).active["route_policy"].config_version == version
    assert len(reader._known) == 2


def test_of_reports_of_many_scopes_fewer_are_remembered() -> None:
    """rules K53: a member that names other scopes in each report takes no more memory than a fleet does"""
    reader = HeartbeatReader(most_scopes=100)
    for start in range(0, 500, 50):
        many = body(versions={f"service_assignment/org-{number}": 1 for number in range(start, start + 50)})
        assert reader.read(many) == parse(many)
        assert sum(len(known.active) for known in reader._known.values()) <= 100
    small = body()
    reader.read(small)
    assert reader.read(small).active is reader.read(small).active


LATER_TODAY = {
    "sent_at": "2027-01-15T23:59:59Z",
    "uptime_s": 999_999_999_999_999,
    "head": {"generation": 2, "authority_epoch": 1, "age_s": 0, "grade": "fresh"},
    "clock": {"synchronised": True, "offset_floor_s": 17},
}


def test_a_report_at_rest_is_known_at_another_time() -> None:
    """Nothing of it is parsed; and it comes to the same."""
    reader = HeartbeatReader()
    reader.read(body())
    for later in (body(**LATER_TODAY), body(uptime_s=13), body()):
        again = reader.read(later)
        assert again == parse(later)
        assert again.features is reader.read(body()).features
    assert len(reader._same._known) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"sent_at": "2027-01-16T08:00:00Z"},
        {"uptime_s": 2**53 - 1},
        {"boot_id": "another"},
        {"node_id": "node-b"},
        {"state": "degraded"},
        {"head": None},
        {"head": {**LATER_TODAY["head"], "generation": 3}},
        {"clock": {"synchronised": None, "offset_floor_s": -1}},
        {"counters": {"rejections": 1}},
        {"features": []},
        {"journal": [event(5)]},
        {"votes": [vote("route_policy")]},
        {"limits": {"route_policy": LIMITS}},
        {"of_later": 1},
        {"scopes": {"route_policy": scope(mark(4))}},
    ],
)
def test_a_report_that_says_something_else_is_read(other: Mapping[str, object]) -> None:
    """rules K30: also right after the one that it differs from, and twice."""
    reader = HeartbeatReader()
    for each in (body(), body(**other), body(), body(**other), body(**LATER_TODAY)):
        assert reader.read(each) == parse(each)


@pytest.mark.parametrize(
    "wrong",
    [
        (b'"uptime_s":12', b'"uptime_s":-12'),
        (b'"uptime_s":12', b'"uptime_s":012'),
        (b'"uptime_s":12', b'"uptime_s":12.0'),
        (b'"uptime_s":12', b'"uptime_s":12e1'),
        (b'"uptime_s":12', b'"uptime_s":9007199254740992'),
        (b'"uptime_s":12', b'"uptime_s":"12"'),
        (b'"uptime_s":12', b'"uptime_s":'),
        (b'"age_s":3', b'"age_s":-3'),
        (b'"offset_floor_s":0', b'"offset_floor_s":-'),
        (b"T08:00:00Z", b"T24:00:00Z"),
        (b"T08:00:00Z", b"T08:00:60Z"),
        (b"T08:00:00Z", b"T08:00:00"),
        (b"01-15T08", b"02-30T08"),
    ],
)
def test_a_time_that_is_none_is_refused_beside_a_report_that_is_known(wrong: tuple[bytes, bytes]) -> None:
    """rules K53: what is not looked at is in form all the same."""
    reader, good = HeartbeatReader(), body()
    reader.read(good)
    head, sent, tail = good.partition(b',"sent_at":')
    bad = head.replace(*wrong) + sent + tail.replace(*wrong)
    assert bad != good
    for _ in range(2):
        with pytest.raises(Refused) as caught:
            reader.read(bad)
        assert caught.value.code is Code.BAD_REQUEST
    for mark_of_ours in (b"\0", b""):
        with pytest.raises(Refused):
            reader.read(good.replace(b":12}", b":" + mark_of_ours + b"}"))
    assert reader.read(good) == parse(good)


def test_reports_that_are_known_hold_no_scopes_that_are_not() -> None:
    """rules K53: one member that names other scopes in each report, and is at rest, takes no more memory either."""
    reader = HeartbeatReader(most_scopes=100)
    for start in range(0, 500, 50):
        many = body(versions={f"service_assignment/org-{number}": 1 for number in range(start, start + 50)})
        assert reader.read(many) == parse(many)
        held = {id(each.active): len(each.active) for each in (*reader._known.values(), *reader._same._known.values())}
        assert sum(held.values()) <= 100
        assert reader.read(many) == parse(many)


def test_only_so_many_reports_are_known() -> None:
    """threats D-51: also not those that are long."""
    reader = HeartbeatReader(most=2)
    for number in (1, 2, 3, 1):
        each = body(f"node-{number}")
        assert reader.read(each) == parse(each)
    assert len(reader._same._known) == 2
    reader.read(long := body(counters={f"c{number}": number for number in range(250)}))
    assert reader.read(long) == parse(long)
    assert len(reader._same._known) == 2

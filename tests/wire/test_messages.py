"""The JSON bodies: closed, bounded, written as they are read."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot.identifiers import parse_time
from wire.forms import CONTENT, TIME, table
from wire.messages import (
    HEARTBEAT_BYTES,
    SCOPES_MAX,
    Active,
    BadMessageError,
    ClockReport,
    ErrorBody,
    HeadReport,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatEvent,
    HeldVersion,
    JoinGrant,
    JoinNonce,
    JoinRequest,
    LastRejected,
    MayAnswer,
    MayRequest,
    Message,
    NotifiedVersion,
    Problem,
    Recorded,
    Reverted,
    ScopeLimits,
    ScopeReport,
    TrustList,
    Vote,
    WatchAnswer,
)
from wire.strict_json import parse_json

HASH = "sha256:" + "0" * 64
AT = parse_time("2026-12-05T16:00:00Z")

SCOPE = ScopeReport(
    active=Active(1, 3, HASH, "s-3", HASH, AT, AT + 60, "fresh"),
    previous=HeldVersion(1, 2, HASH, "s-2"),
    pending=None,
    last_rejected=LastRejected(4, None, "bad_signature", 5, AT),
    notified={"web.service": NotifiedVersion(3, ok=True)},
)
HEARTBEAT = Heartbeat(
    node_id="node-1",
    cluster_id="c",
    incarnation="i",
    boot_id="b",
    agent_version="0.1.0",
    sent_at=AT,
    uptime_s=5,
    state="active",
    mode="normal",
    degraded_since=None,
    clock=ClockReport(None, -3),
    head=HeadReport(7, 1, 12, "fresh"),
    scopes={"route_policy/a": SCOPE},
    trust_bundle_version=1,
    counters={"downloads": 2},
    journal=(HeartbeatEvent(1, AT, "applied", "route_policy/a", ""),),
)
JOIN = JoinRequest("c", "node-1", "data", b"\x30\x00", "i", "nonce", HASH, HASH)
MESSAGES: list[Message] = [
    ErrorBody("revoked", "this node is revoked"),
    ErrorBody("wrong_cluster", "elsewhere", step=2, remedy="correct the cluster id"),
    ErrorBody("invalid_resources", "1 problem", problems=(Problem("a.yaml", 3, "spec", "is missing", "add it"),)),
    JoinNonce("n"),
    JOIN,
    replace(JOIN, token_sha256=None, direct_url="https://n.example:1"),
    JoinGrant("admitted", "c1", (b"abc", b"")),
    TrustList((b"abc",)),
    HEARTBEAT,
    replace(HEARTBEAT, interval_s=300),
    replace(HEARTBEAT, features=("candidates", "config")),
    replace(HEARTBEAT, votes=(), limits={}),
    replace(
        HEARTBEAT,
        votes=(
            Vote("route_policy/a", "s-4", HASH, "accepted", None, "", ""),
            Vote("node_runtime", "s-5", HASH, "refused", 12, "validator_refused", "nginx: exit status 1"),
        ),
        limits={"route_policy/a": ScopeLimits(entries=200, bytes=1 << 20, removed_percent=None)},
        scopes={"route_policy/a": replace(SCOPE, has_validator=True)},
    ),
    replace(
        HEARTBEAT,
        scopes={
            "route_policy/a": replace(
                SCOPE,
                good=HASH,
                probation_until=AT,
                attempted=HeldVersion(1, 4, HASH, "s-4"),
                reverted=Reverted(4, HASH, "web", "exit 1: no answer", AT),
            )
        },
    ),
    replace(HEARTBEAT, head=None, degraded_since=AT, clock=ClockReport(synchronised=True, offset_floor_s=0)),
    HeartbeatAnswer(7, 1, {"route_policy/a": Recorded(1, 3)}, ()),
    MayRequest("start_service"),
    MayRequest("open_route", "route_policy/a", "r1", AT),
    MayAnswer(allowed=True, reason="ok", mode="degraded", until=AT),
    MayAnswer(allowed=False, reason="not_in_policy", mode="normal", until=None),
    WatchAnswer(8, {"route_policy/a": ("routes", "routes.b")}, (), ("*",)),
    WatchAnswer(9, {"service_assignment/web": ("services",)}, ("web",), ()),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_written_as_it_is_read(message: Message) -> None:
    assert type(message).parse(message.to_bytes()) == message


def test_what_is_absent_and_what_is_null() -> None:
    """protocol.md 1 and 3: a join leaves out what it has not; a heartbeat says null."""
    assert "token_sha256" not in json.loads(replace(JOIN, token_sha256=None).to_bytes())
    assert json.loads(HEARTBEAT.to_bytes())["degraded_since"] is None
    assert json.loads(HEARTBEAT.to_bytes())["sent_at"] == "2026-12-05T16:00:00Z"


def test_json_need_not_be_canonical() -> None:
    """protocol.md 4: the local API works with curl."""
    assert MayRequest.parse(b'{ "resource" : "r\\u0031", "action": "open_route" }\n').resource == "r1"


def refused(kind: type[Message], data: bytes) -> str:
    with pytest.raises(BadMessageError) as caught:
        kind.parse(data)
    assert len(str(caught.value)) < 300
    return str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"action":"a","extra":1}',
        b'{"action":"a","action":"b"}',
        b'{"action":1}',
        b'{"action":null}',
        b'{"action":""}',
        b'{"action":"a\\u0000"}',
        b'{"action":"a\\nb"}',
        b'{"action":"\\ud800"}',
        b'{"action":"a\xff"}',
        b'{"action":"a","running_since":NaN}',
        b'{"action":"a","running_since":1.5}',
        b'{"action":"a","running_since":' + b"9" * 5000 + b"}",
        b'{"action":"a","scope":"../x"}',
        b'{"action":"' + b"a" * 65 + b'"}',
        b'{"action":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"action":"a"}x',
        b'{"action":"a","resource":"' + b"r" * 70_000 + b'"}',
    ],
)
def test_out_of_form(data: bytes) -> None:
    """rules K53, X14, P6, P23: closed, bounded, free of controls; refused with a type, and the next is read."""
    refused(MayRequest, data)
    assert MayRequest.parse(b'{"action":"a"}').action == "a"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32-le", "utf-32", "utf-8-sig"])
def test_it_is_utf_8_and_nothing_else(encoding: str) -> None:
    """rules K53, P23: no other encoding is guessed, and no byte order mark taken (RFC 8259 8.1)"""
    text = '{"action": "\u20ac"}'
    assert MayRequest.parse(text.encode()).action == "\u20ac"
    refused(MayRequest, text.encode(encoding))


@pytest.mark.parametrize(
    "data",
    [
        rb'{"a":"\u0000"}', rb'{"\u0000":"x"}', b'{"a":"\x00"}', b'{"a":"x"}\x00', rb'{"a":"\ud800"}',
        rb'{"a":"\udc00\ud800"}', rb'{"\udfff":"x"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc0\x80"}',
    ],
)  # fmt: skip
def test_no_text_holds_nul_or_half_a_character(data: bytes) -> None:
    """rules K53, P23: what no database keeps and no file holds is refused where it comes in, however it is written"""
    with pytest.raises(BadMessageError):
        table(CONTENT, CONTENT).read(parse_json(data, 100), "it")


def test_an_escape_that_is_written_out_is_text() -> None:
    found = parse_json(rb'{"a":"\\u0000 \ud83d\udd12 \u00e9"}', 100)
    assert table(CONTENT, CONTENT).read(found, "it") == {"a": "\\u0000 \U0001f512 \xe9"}


def test_an_error_quotes_nothing() -> None:
    """threats D-55, D-59: what a caller sent does not come back, nor reach a log."""
    assert "hunter2" not in refused(MayRequest, b'{"action":"a","hunter2":1}')
    assert "hunter2" not in refused(JoinNonce, b'{"nonce":"hunter2\\u0007"}')


def test_depth_counts_brackets_outside_of_strings() -> None:
    """threats D-56."""
    assert parse_json(b'["' + b"[" * 100 + b'"]', 1000) == ["[" * 100]
    assert parse_json(b"[" * 16 + b"]" * 16, 1000) is not None
    with pytest.raises(BadMessageError, match="deep"):
        parse_json(b"[" * 17 + b"]" * 17, 1000)


@pytest.mark.parametrize("data", [b'["]",' * 17 + b'"[" ]' * 17, b'["]",' * 500 + b"1" + b',"["]' * 500])
def test_brackets_in_strings_hide_no_depth(data: bytes) -> None:
    """threats D-56"""
    with pytest.raises(BadMessageError, match="deep"):
        parse_json(data, 10_000)


def test_a_string_without_an_end_is_looked_at_once() -> None:
    """threats D-56: each escaped quote of it tried as a beginning would take hours"""
    with pytest.raises(BadMessageError):
        parse_json(b"[" * 17 + b'"' + b'\\"' * 500_000, HEARTBEAT_BYTES)


@given(st.recursive(st.sampled_from(["", "[", "]", "{", '"', "\\", '":']), lambda inner: st.lists(inner, max_size=3)))
def test_json_is_read_as_deep_as_it_is(value: object) -> None:
    def depth(of: object) -> int:
        return 1 + max(map(depth, of), default=0) if isinstance(of, list) else 0

    for most in range(4):
        if depth(value) <= most:
            assert parse_json(json.dumps(value).encode(), 10_000, most) == value
        else:
            with pytest.raises(BadMessageError, match="deep"):
                parse_json(json.dumps(value).encode(), 10_000, most)


def test_the_time_of_a_clock_that_was_never_set_can_be_read() -> None:
    """One such event in a journal would keep every report of its node from being read, for ever."""
    early = replace(HEARTBEAT, journal=(HeartbeatEvent(1, 0, "applied", "", ""),), sent_at=2**53)
    read = Heartbeat.parse(early.to_bytes())
    assert (read.journal[0].at, read.sent_at) == (
        parse_time("2020-01-01T00:00:00Z"),
        parse_time("2200-12-31T23:59:59Z"),
    )


@given(
    st.from_regex(r"\A20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]Z?\Z") | st.text() | st.integers()
)
def test_a_time_is_taken_where_it_can_be_read(value: object) -> None:
    try:
        parse_time(value)
    except ValueError:
        assert not TIME.takes(value)
    else:
        assert TIME.takes(value)


def test_an_error_names_the_member_what_was_found_and_what_there_should_be() -> None:
    assert refused(MayRequest, b'{"action":5}') == "action must be 1 to 64 printable characters, and is an integer"
    assert "lacks action" in refused(MayRequest, b"{}")
    members = "action, certificate, resource, running_since, scope"
    assert f"may have {members}" in refused(MayRequest, b'{"action":"a","extra":1}')
    damaged = HEARTBEAT.to_bytes().replace(b'"step":5', b'"step":null')
    assert refused(Heartbeat, damaged).startswith(
        "a member of scopes.last_rejected.step must be an integer from 0 to 12"
    )


def test_the_heartbeat_is_bounded() -> None:
    """rules K53, protocol.md 3: the journal holds what fits in 64 KiB, oldest first."""
    events = [HeartbeatEvent(number, AT, "applied", "route_policy/a", "x" * 256) for number in range(1, 2000)]
    full = HEARTBEAT.with_journal(events)
    assert 60_000 < len(full.to_bytes()) <= HEARTBEAT_BYTES
    assert [event.sequence for event in full.journal] == list(range(1, len(full.journal) + 1))
    assert Heartbeat.parse(full.to_bytes()) == full
    refused(Heartbeat, replace(HEARTBEAT, counters={f"c{n}": 1 for n in range(9000)}).to_bytes())


def test_a_report_of_as_many_scopes_as_a_node_has_fits_with_some_of_its_journal() -> None:
    """rules K53, protocol.md 3: a thousand services, each with what was before and was refused."""
    named = {f"service_assignment/{number:064}": SCOPE for number in range(SCOPES_MAX)}
    events = [HeartbeatEvent(number, AT, "applied", "route_policy/a", "x" * 256) for number in range(1, 2000)]
    full = replace(HEARTBEAT, scopes=named).with_journal(events)
    assert 30 < len(full.journal) < 200
    assert Heartbeat.parse(full.to_bytes()) == full
    answer = HeartbeatAnswer(1, 1, dict.fromkeys(named, Recorded(1, 3)), ())
    assert HeartbeatAnswer.parse(answer.to_bytes()) == answer


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (b'{"code":"c","message":"m","step":2,"new":[{"deep":null}]}', ErrorBody("c", "m", 2)),
        (b'{"code":"c","message":"two\\nlines"}', ErrorBody("c", "")),
        (b'{"code":"c","message":"m","step":13,"remedy":7,"problems":{}}', ErrorBody("c", "m")),
        (b'{"code":"c"}', ErrorBody("c", "")),
        (b'{"code":7,"message":"m"}', ErrorBody("", "m")),
        (b'{"code":"c","code":"d","message":"m"}', ErrorBody("", "")),
        (b"[]", ErrorBody("", "")),
        (b"", ErrorBody("", "")),
    ],
)
def test_of_an_error_answer_is_read_what_is_in_form(said: bytes, read: ErrorBody) -> None:
    """rules P6, P10: a member of tomorrow costs no code; the message itself is as closed as any (X14)."""
    assert ErrorBody.from_answer(said) == read


@given(st.binary(max_size=300))
def test_of_any_bytes_an_error_answer_is_read(data: bytes) -> None:
    """rules P6"""
    assert len(ErrorBody.from_answer(data).code) <= 64


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """rules P6."""
    for kind in (Heartbeat, JoinRequest, ErrorBody):
        with pytest.raises(BadMessageError):
            kind.parse(data)


@given(st.data())
def test_a_heartbeat_with_one_member_damaged_is_refused_or_the_same(data: st.DataObject) -> None:
    """rules K53, P6: fuzzed one member at a time, at any depth."""
    value = json.loads(HEARTBEAT.to_bytes())
    holder = value
    name = data.draw(st.sampled_from(sorted(holder)))
    while isinstance(holder[name], dict) and holder[name] and data.draw(st.booleans()):
        holder = holder[name]
        name = data.draw(st.sampled_from(sorted(holder)))
    holder[name] = data.draw(st.sampled_from([None, True, -1, 2**60, "", "\0", [], {}, "x" * 5000, {"a": {}}]))
    encoded = json.dumps(value).encode()
    try:
        again = Heartbeat.parse(encoded)
    except BadMessageError:
        return
    assert json.loads(again.to_bytes()) == value


def test_a_report_of_as_many_candidates_as_there_may_be_fits_with_some_of_its_journal() -> None:
    """rules K53: what has no room is left out, the last first; nothing else is"""
    named = {f"service_assignment/{number:064}": replace(SCOPE, has_validator=True) for number in range(SCOPES_MAX)}
    why = ("refused", 12, "validator_refused", "x" * 256)
    votes = [Vote(scope, f"{scope[-40:]}-candidate", HASH, *why) for scope in named]
    events = [HeartbeatEvent(number, AT, "applied", "route_policy/a", "x" * 256) for number in range(1, 2000)]
    full = replace(HEARTBEAT, scopes=named).with_votes(votes).with_journal(events)
    assert len(full.to_bytes()) <= HEARTBEAT_BYTES
    assert Heartbeat.parse(full.to_bytes()) == full
    assert full.votes is not None and 300 < len(full.votes) < SCOPES_MAX
    assert list(full.votes) == votes[: len(full.votes)]
    assert len(full.journal) > 20
    assert HEARTBEAT.with_votes(votes * 2).votes == tuple(votes), "as many as there may be"

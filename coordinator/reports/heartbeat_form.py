"""A node's report in form (protocol 3; rules K53, P23): its closed members, texts without control characters. Pure.

parse(body)    the bytes of a request -> Heartbeat, or `bad_request`
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from coordinator.base import requests
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, is_one_of, is_text
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.standing_refusals import LastRefused
from snapshot import canonical
from snapshot.identifiers import is_hash, is_id, is_integer, parse_scope, parse_time
from wire.messages import EVENTS_MAX, GRADES, HEARTBEAT_BYTES, INTERVAL_MOST_S, LAST_STEP, MODES, SCOPES_MAX, STATES

NO_MARK = ReportedMark(0, 0)
MOST_REASON = 64


@dataclass(frozen=True)
class ReceivedHeartbeat:
    """One report of one node, in form. `body` is the JSON text of it, as it came."""

    node_id: str
    cluster_id: str
    incarnation: str
    boot_id: str
    agent_version: str
    state: str
    mode: str
    head: ReportedMark
    head_grade: str
    active: Mapping[str, ReportedMark]
    refused: Mapping[str, LastRefused]
    journal: tuple[tuple[int, str], ...]  # (sequence, the event as JSON)
    body: str


def parse(body: bytes, *, most: int = HEARTBEAT_BYTES) -> ReceivedHeartbeat:
    """`bad_request` for what is not exactly a heartbeat, holds control characters, or is too large (rules K53, P23)."""
    value = requests.parse(body, most)
    requests.closed(value, _MEMBERS)
    if b"\\" in body or b"\x7f" in body or not body.isascii():
        _refuse_control_characters(value)  # elsewhere JSON itself leaves no room for one
    head, grade = _head(value["head"])
    return ReceivedHeartbeat(
        node_id=str(value["node_id"]),
        cluster_id=str(value["cluster_id"]),
        incarnation=str(value["incarnation"]),
        boot_id=str(value["boot_id"]),
        agent_version=str(value["agent_version"]),
        state=str(value["state"]),
        mode=str(value["mode"]),
        head=head,
        head_grade=grade,
        active=_active(value["scopes"]),
        refused=dict(_refused(value["scopes"])),
        journal=_journal(value["journal"]),
        body=body.decode(),
    )


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_object_or_null(value: object) -> bool:
    return value is None or isinstance(value, dict)


def _is_time(value: object) -> bool:
    try:
        parse_time(value)
    except ValueError:
        return False
    return True


_COUNT = BodyMember(lambda value: is_integer(value, least=0))
_WORD = BodyMember(is_text(64))
_MEMBERS = {
    "node_id": BodyMember(is_id),
    "cluster_id": BodyMember(is_id),
    "incarnation": BodyMember(is_id),
    "boot_id": _WORD,
    "agent_version": _WORD,
    "sent_at": BodyMember(_is_time),
    "uptime_s": BodyMember(
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    ),
    "state": BodyMember(is_one_of(STATES)),
    "mode": BodyMember(is_one_of(MODES)),
    "degraded_since": BodyMember(lambda value: value is None or _is_time(value)),
    "clock": BodyMember(_is_object),
    "head": BodyMember(_is_object_or_null),
    "scopes": BodyMember(lambda value: isinstance(value, dict) and len(value) <= SCOPES_MAX),
    "trust_bundle_version": _COUNT,
    "counters": BodyMember(_is_object),
    "journal": BodyMember(lambda value: isinstance(value, list) and len(value) <= EVENTS_MAX),
    "roots_confirmed": BodyMember(lambda value: type(value) is bool, required=False),
    "interval_s": BodyMember(lambda value: type(value) is int and 0 < value <= INTERVAL_MOST_S, required=False),
}
_HEAD = {
    "generation": _COUNT,
    "authority_epoch": _COUNT,
    "age_s": BodyMember(lambda value: value is None or isinstance(value, (int, float))),
    "grade": BodyMember(is_one_of(GRADES)),
}
_ACTIVE = {
    "authority_epoch": BodyMember(is_integer),
    "config_version": BodyMember(is_integer),
    "content_hash": BodyMember(is_hash),
}
_SCOPE = frozenset({"active", "previous", "pending", "last_rejected", "notified"})


def _head(value: object) -> tuple[ReportedMark, str]:
    if not isinstance(value, dict):
        return NO_MARK, "none"
    requests.closed(value, _HEAD)
    return ReportedMark(int(value["authority_epoch"]), int(value["generation"])), str(value["grade"])


def _active(scopes: object) -> dict[str, ReportedMark]:
    """The active version of each scope (rules S30)."""
    active = {}
    for scope, value in scopes.items() if isinstance(scopes, dict) else ():
        _check_scope(scope, value)
        mark = value["active"]
        if mark is not None:
            requests.closed({name: mark.get(name) for name in _ACTIVE}, _ACTIVE)
            active[scope] = ReportedMark(mark["authority_epoch"], mark["config_version"], mark["content_hash"])
    return active


def _refused(scopes: object) -> Iterator[tuple[str, LastRefused]]:
    """The last refusal of each scope, where nothing was applied since. What a node says of it is its own: bounded, and
    passed over where out of form.
    """
    for scope, value in scopes.items() if isinstance(scopes, dict) else ():
        one, active = value["last_rejected"] or {}, value["active"] or {}
        if _is_past(one, active):
            continue
        version, reason, step = one.get("config_version"), one.get("reason"), one.get("step")
        if not (isinstance(version, int) and isinstance(step, int) and isinstance(reason, str)):
            continue
        if is_integer(version) and 0 <= step <= LAST_STEP and reason.isprintable():
            yield scope, LastRefused(version, reason[:MOST_REASON], step)


def _is_past(refused: Mapping[str, object], active: Mapping[str, object]) -> bool:
    """Times of one form and of one clock, the node's."""
    at, applied_at = refused.get("at"), active.get("applied_at")
    is_older = isinstance(at, str) and isinstance(applied_at, str) and at < applied_at
    return is_older or refused.get("config_version") == active.get("config_version")


def _check_scope(scope: str, value: object) -> None:
    if not _is_scope(scope):
        raise Refused(Code.BAD_REQUEST, "a scope is out of form")
    if not isinstance(value, dict) or value.keys() != _SCOPE:
        raise Refused(Code.BAD_REQUEST, f"scope {scope} has not exactly the members of a report")
    if not all(map(_is_object_or_null, value.values())):
        raise Refused(Code.BAD_REQUEST, f"scope {scope} is out of form")


@lru_cache(maxsize=1_024)
def _is_scope(text: str) -> bool:
    try:
        parse_scope(text)
    except ValueError:
        return False
    return True


def _journal(events: object) -> tuple[tuple[int, str], ...]:
    journal = []
    for event in events if isinstance(events, list) else ():
        if not isinstance(event, dict) or not is_integer(event.get("sequence")):
            raise Refused(Code.BAD_REQUEST, "a journal event has no sequence number")
        journal.append((event["sequence"], _canonical(event)))
    return tuple(journal)


def _canonical(event: object) -> str:
    try:
        return canonical.dumps(event).decode()
    except ValueError as error:
        raise Refused(Code.BAD_REQUEST, "an event holds a number that JSON between us does not carry") from error


def _refuse_control_characters(value: object) -> None:
    """The node cleans its texts (rules K53); what arrives here with NUL or a control character is no report of ours."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [*each, *each.values()]
        elif isinstance(each, list):
            pending += each
        elif isinstance(each, str) and not each.isprintable() and not _is_clean(each):
            raise Refused(Code.BAD_REQUEST, "a text holds control characters")


def _is_clean(text: str) -> bool:
    """Not printable, yet without a control character or a lone surrogate: a line separator, say."""
    return all(ord(each) >= 32 and not 0x7F <= ord(each) < 0xA0 and not 0xD800 <= ord(each) < 0xE000 for each in text)

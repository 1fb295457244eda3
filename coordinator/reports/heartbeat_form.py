"""What the coordinator makes of a node's report (protocol 3; rules K53, P23). Pure.

parse(body)                  the bytes of a request -> ReceivedHeartbeat, or `bad_request`
HeartbeatReader().read(body) the same of one that asks again and again

What a heartbeat is, `wire.messages.Heartbeat` says alone. Its objects are not made: a fleet sends thousands of reports
a second, and of each these few members are looked at.

A member that is not known here is one of a later release: coordinators are upgraded first, but one that is taken back
to the release before has newer nodes, and must not lose sight of all of them for what one of them says beside the rest.
It is passed over, counted (`is_newer`), and not kept, since nobody has judged it. What is known is judged as ever.

Rejected: nodes that say less once they were refused. They would have to know what which release reads, and one that
leaves out its `features` is held to read none of them.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from coordinator.base.refusal import Code, Refused
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.same_reports import SameReports, key_of
from coordinator.reports.standing_refusals import LastRefused
from snapshot import canonical
from wire.forms import MESSAGE, record
from wire.messages import HEARTBEAT_BYTES, BadMessageError, Heartbeat, Reverted, ScopeLimits, Vote
from wire.strict_json import parse_json

NO_MARK = ReportedMark(0, 0)
_VOTE, _LIMITS, _REVERTED = record(Vote), record(ScopeLimits), record(Reverted)  # few, and rare: these are made
_FORM = record(Heartbeat)
_SCOPES, _AFTER = b'"scopes":{', b',"sent_at":'  # canonical, as agents write it
MOST_REMEMBERED = 20_000
SCOPES_REMEMBERED = 200_000  # of all together, some 350 bytes each: a node may name SCOPES_MAX, each time others
_Object = Mapping[str, Any]  # in form


@dataclass(frozen=True)
class ReceivedHeartbeat:
    """One report of one node, in form. `body` is the JSON text of it, as it came; where it `is_newer`, has members that
    are not known here, without these. `votes` are as the node says them:
    of what it was given to vote on, or of anything else. `validated`: the scopes that a validator of its services sees.
    `good`: by scope the hash of the newest content that has proved itself there; `reverted`: what has failed to.
    """

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
    features: frozenset[str]  # none of an agent that is older than the member
    votes: tuple[Vote, ...]
    limits: Mapping[str, ScopeLimits]
    validated: frozenset[str]
    good: Mapping[str, str]
    reverted: Mapping[str, Reverted]
    body: str
    is_newer: bool = False

    @property
    def is_at_rest(self) -> bool:
        """Whether it says nothing that is said once."""
        return not (self.journal or self.votes or self.limits or self.is_newer)

    def repeat(self, body: bytes, scopes: "ReportedScopes") -> "ReceivedHeartbeat":
        """The same in another text, with what is said of scopes there. Without a look at each member, which took longer
        than to recognise it.
        """
        again = object.__new__(ReceivedHeartbeat)
        vars(again).update(vars(self), **vars(scopes), body=body.decode())
        return again


@dataclass(frozen=True)
class ReportedScopes:
    """What the `scopes` of a heartbeat come to, by scope; members as in `ReceivedHeartbeat`."""

    active: Mapping[str, ReportedMark]
    refused: Mapping[str, LastRefused]
    validated: frozenset[str]
    good: Mapping[str, str]
    reverted: Mapping[str, Reverted]

    @property
    def size(self) -> int:
        """How many things are said of scopes."""
        return sum(map(len, (self.active, self.refused, self.validated, self.good, self.reverted)))


NO_SCOPES = ReportedScopes({}, {}, frozenset(), {}, {})


def parse(body: bytes, *, most: int = HEARTBEAT_BYTES) -> ReceivedHeartbeat:
    """`bad_request` for what is no heartbeat, holds control characters, or is too large (rules K53, P23)."""
    return _heartbeat_in(_parse(body, most), body)


class HeartbeatReader:
    """Reads like `parse`, and judges the `scopes` of a heartbeat, most of its bytes, once: in nearly every report they
    are what they were in the one before, byte for byte, while times and counters differ.

    They are known by their hash. Where they stand in a body is guessed, as every agent writes them, and then proven:
    what is read has a word in their place that nobody outside can know, and only if that is its member `scopes` are
    they its scopes. All that does not fit is read as a whole, so a body never comes to anything else here.

    Of a node at rest the rest is the same, too, but for times: then nothing is parsed at all (same_reports.py). Such a
    report is remembered without its scopes, which are bounded by how many they are, and known as long as these are.
    """

    def __init__(self, most: int = MOST_REMEMBERED, most_scopes: int = SCOPES_REMEMBERED) -> None:
        self._most, self._most_scopes = most, most_scopes
        self._scopes = 0
        self._known: OrderedDict[bytes, ReportedScopes] = OrderedDict()
        self._word = secrets.token_hex(16)
        self._in_place = f'"{self._word}"'.encode()
        self._same: SameReports[ReceivedHeartbeat] = SameReports(most)

    def read(self, body: bytes, *, most: int = HEARTBEAT_BYTES) -> ReceivedHeartbeat:
        start = body.find(_SCOPES) + len(_SCOPES) - 1
        end = body.rfind(_AFTER, start)  # near the end: from the front it took longer than all else
        if len(body) > most or start < len(_SCOPES) - 1 or end < 0:
            return parse(body, most=most)
        text, around = body[start:end], body[:start] + self._in_place + body[end:]
        key = hashlib.sha256(text).digest()
        same = key_of(around, key)
        known, scopes = self._same.find(same), self._known.get(key)
        if known is not None and scopes is not None:
            self._known.move_to_end(key)
            return known.repeat(body, scopes)
        report = self._read_once(body, text, around, key, most)
        if report.is_at_rest and key in self._known:
            self._same.keep(same, report.repeat(b"", NO_SCOPES))
        return report

    def _read_once(self, body: bytes, text: bytes, around: bytes, key: bytes, most: int) -> ReceivedHeartbeat:
        known = self._known.get(key)
        if known is None:
            return self._read_anew(body, text, key, most)
        self._known.move_to_end(key)
        return self._read_around(body, around, known) or parse(body, most=most)

    def _read_anew(self, body: bytes, text: bytes, key: bytes, most: int) -> ReceivedHeartbeat:
        value = _parse(body, most)
        if not _FORM.takes(value):
            return _heartbeat_in(value, body)
        report = cast(_Object, value)
        said = _summary_of(report["scopes"])
        if _is_json_of(text, report["scopes"]):
            self._remember(key, said)
        return _heartbeat_of(report, said, body)

    def _remember(self, key: bytes, said: ReportedScopes) -> None:
        self._known[key] = said
        self._scopes += said.size
        while len(self._known) > self._most or self._scopes > self._most_scopes:
            _, gone = self._known.popitem(last=False)
            self._scopes -= gone.size

    def _read_around(self, body: bytes, around: bytes, known: ReportedScopes) -> ReceivedHeartbeat | None:
        """None where they do not stand there."""
        try:
            value = parse_json(around, len(around))
        except BadMessageError:
            return None
        if not isinstance(value, dict) or value.get("scopes") != self._word:
            return None
        value["scopes"] = {}
        return _heartbeat_of(value, known, body) if _FORM.takes(value) else None


def _parse(body: bytes, most: int) -> object:
    try:
        return parse_json(body, most)
    except BadMessageError as error:
        raise Refused(Code.BAD_REQUEST, str(error)) from error


def _heartbeat_in(value: object, body: bytes) -> ReceivedHeartbeat:
    if _FORM.takes(value):
        report = cast(_Object, value)
        return _heartbeat_of(report, _summary_of(report["scopes"]), body)
    known = cast(_Object, _FORM.known_part(value))
    try:
        _FORM.check(known, MESSAGE)
    except BadMessageError as error:
        raise Refused(Code.BAD_REQUEST, str(error)) from error
    said = _heartbeat_of(known, _summary_of(known["scopes"]), canonical.dumps(known))
    return replace(said, is_newer=True)


def _is_json_of(text: bytes, value: object) -> bool:
    try:
        return parse_json(text, len(text)) == value
    except BadMessageError:
        return False


def _summary_of(scopes: Mapping[str, _Object]) -> ReportedScopes:
    return ReportedScopes(
        active=_active(scopes),
        refused=dict(_last_refusals(scopes)),
        validated=frozenset(scope for scope, said in scopes.items() if said.get("has_validator")),
        good={scope: said["good"] for scope, said in scopes.items() if "good" in said},
        reverted={scope: _REVERTED.make(said["reverted"]) for scope, said in scopes.items() if "reverted" in said},
    )


def _heartbeat_of(value: _Object, said: ReportedScopes, body: bytes) -> ReceivedHeartbeat:
    head = cast(_Object | None, value["head"])
    return ReceivedHeartbeat(
        node_id=value["node_id"],
        cluster_id=value["cluster_id"],
        incarnation=value["incarnation"],
        boot_id=value["boot_id"],
        agent_version=value["agent_version"],
        state=value["state"],
        mode=value["mode"],
        head=NO_MARK if head is None else ReportedMark(head["authority_epoch"], head["generation"]),
        head_grade="none" if head is None else head["grade"],
        **vars(said),
        journal=tuple((event["sequence"], canonical.dumps(event).decode()) for event in value["journal"]),
        features=frozenset(value.get("features") or ()),
        votes=tuple(map(_VOTE.make, value.get("votes") or ())),
        limits={scope: _LIMITS.make(said) for scope, said in (value.get("limits") or {}).items()},
        body=body.decode(),
    )


def _active(scopes: Mapping[str, _Object]) -> dict[str, ReportedMark]:
    """The active version of each scope (rules S30)."""
    marks = ((scope, said["active"]) for scope, said in scopes.items())
    return {
        scope: ReportedMark(mark["authority_epoch"], mark["config_version"], mark["content_hash"])
        for scope, mark in marks
        if mark is not None
    }


def _last_refusals(scopes: Mapping[str, _Object]) -> Iterator[tuple[str, LastRefused]]:
    """The last refusal of each scope, where it is known of which version and nothing was applied since."""
    for scope, said in scopes.items():
        refused = said["last_rejected"]
        if refused is not None and refused["config_version"] is not None and not _is_past(refused, said["active"]):
            yield scope, LastRefused(refused["config_version"], refused["reason"], refused["step"])


def _is_past(refused: _Object, active: _Object | None) -> bool:
    """Times of one form and of one clock, the node's."""
    if active is None:
        return False
    is_older: bool = refused["at"] < active["applied_at"]
    return is_older or refused["config_version"] == active["config_version"]

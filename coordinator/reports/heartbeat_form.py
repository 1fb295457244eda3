"""What the coordinator makes of a node's report (protocol 3; rules K53, P23). Pure.

parse(body)    the bytes of a request -> ReceivedHeartbeat, or `bad_request`

What a heartbeat is, `wire.messages.Heartbeat` says alone. Its objects are not made: a fleet sends thousands of reports
a second, and of each these few members are looked at.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from coordinator.base.refusal import Code, Refused
from coordinator.reports.checkin import ReportedMark
from coordinator.reports.standing_refusals import LastRefused
from snapshot import canonical
from wire.forms import record
from wire.messages import HEARTBEAT_BYTES, BadMessageError, Heartbeat, Reverted, ScopeLimits, Vote

NO_MARK = ReportedMark(0, 0)
_VOTE, _LIMITS, _REVERTED = record(Vote), record(ScopeLimits), record(Reverted)  # few, and rare: these are made
_Object = Mapping[str, Any]  # in form: `Heartbeat.parse_object` has seen it


@dataclass(frozen=True)
class ReceivedHeartbeat:
    """One report of one node, in form. `body` is the JSON text of it, as it came. `votes` are as the node says them:
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


def parse(body: bytes, *, most: int = HEARTBEAT_BYTES) -> ReceivedHeartbeat:
    """`bad_request` for what is not exactly a heartbeat, holds control characters, or is too large (rules K53, P23)."""
    try:
        value: _Object = Heartbeat.parse_object(body, most)
    except BadMessageError as error:
        raise Refused(Code.BAD_REQUEST, str(error)) from error
    head, scopes = cast(_Object | None, value["head"]), cast(Mapping[str, _Object], value["scopes"])
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
        active=_active(scopes),
        refused=dict(_last_refusals(scopes)),
        journal=tuple((event["sequence"], canonical.dumps(event).decode()) for event in value["journal"]),
        features=frozenset(value.get("features") or ()),
        votes=tuple(map(_VOTE.make, value.get("votes") or ())),
        limits={scope: _LIMITS.make(said) for scope, said in (value.get("limits") or {}).items()},
        validated=frozenset(scope for scope, said in scopes.items() if said.get("has_validator")),
        good={scope: said["good"] for scope, said in scopes.items() if "good" in said},
        reverted={scope: _REVERTED.make(said["reverted"]) for scope, said in scopes.items() if "reverted" in said},
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

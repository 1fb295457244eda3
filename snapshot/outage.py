"""What a node does in an outage that begins at a moment: what stops, when and why (rules S55..S58, A8, A15). Pure.

    foresee(held, uses, outage)    the states that it goes through, and what stops in their course
    uses_of(named)                 what a node does that the gate is asked about, from what its scopes name

Nothing is computed here that the node decides: the gate itself (degraded.py) is asked, at each moment at which an
answer of it can change, with the facts that the node would have then. A second reading of the rules was rejected: it
would be believed when it differs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from snapshot.degraded import GateFacts, Mode, Question, fence, may, mode
from snapshot.identifiers import parse_scope

# What goes on: its name, the action asked about, the kind of what it names, whether it is claimed to be there already.
GOES_ON = (
    ("services", "continue_services", "services", False),
    ("sessions", "open_session", "services", True),
    ("routes", "preserve_routes", "routes", False),
    ("peers", "reconnect_peers", "peers", False),
    ("storage endpoints", "use_storage_endpoints", "endpoints", False),
)
# What would begin, of anything.
BEGINS = (
    ("new services", "start_service"),
    ("new sessions", "open_session"),
    ("new routes", "open_route"),
    ("new peers", "add_peer"),
    ("new secrets", "resolve_secret"),
)
HEAD_EXPIRED = "head_expired"
Named = Mapping[str, Mapping[str, frozenset[str]]]
"""Scope -> kind -> names."""


@dataclass(frozen=True)
class Outage:
    """From `began` (Unix seconds) for `lasts_s`; the node restarts `restart_s` after its beginning, or not at all."""

    began: float
    lasts_s: float
    restart_s: float | None = None

    @property
    def restarts_at(self) -> float | None:
        return None if self.restart_s is None else self.began + self.restart_s


@dataclass(frozen=True)
class Use:
    """Something that the node does. All of `names` are answered as the one of the question."""

    what: str
    question: Question
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class OutagePhase:
    """`cause`: as the node's status has it; empty while the head is fresh."""

    after_s: int
    mode: str
    cause: str


@dataclass(frozen=True)
class Stop:
    """What stops then, and the gate's reason."""

    after_s: int
    what: str
    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Foreseen:
    states: tuple[OutagePhase, ...]
    stops: tuple[Stop, ...]

    @property
    def fenced_phase(self) -> OutagePhase | None:
        return next((state for state in self.states if state.mode == Mode.FENCED), None)


def foresee(held: GateFacts, uses: Iterable[Use], outage: Outage) -> Foreseen:
    """`held`: what the node has when it begins, its head fresh or not."""
    times = moments(held, outage)
    asked = list(uses)
    stops = [stop for use in asked for stop in _stops(held, use, outage, times)]
    return Foreseen(tuple(_states(held, outage, times)), tuple(_together(stops)))


def facts_at(held: GateFacts, outage: Outage, now: float) -> GateFacts:
    """What the node would know: how long the head has been over, and whether it was seen fresh since its last start."""
    expires_at = held.head_expires_at
    expired_for_s = 0.0 if expires_at is None else max(0.0, now - expires_at)
    restarts_at = outage.restarts_at
    confirmed = held.confirmed
    if restarts_at is not None and now >= restarts_at:
        confirmed = held.head_is_fresh(restarts_at)
    return replace(held, head_expired_for_s=expired_for_s, confirmed=confirmed)


def moments(held: GateFacts, outage: Outage) -> list[float]:
    """Those at which an answer can change, the beginning first."""
    ends = outage.began + outage.lasts_s
    found: set[float] = {scope.expires_at for scope in held.scopes.values()}
    found |= set() if outage.restarts_at is None else {outage.restarts_at}
    head = held.head_expires_at
    if head is not None:
        policy = held.policy
        bounds = (policy.max_duration_s, policy.route_ttl_s, policy.session_ttl_s) if policy is not None else ()
        found |= {head, *(head + bound for bound in bounds)}
    return [outage.began, *sorted(moment for moment in found if outage.began < moment <= ends)]


def uses_of(named: Named, held: GateFacts, began: float) -> Iterator[Use]:
    """What goes on, by scope, without what is revoked; and what would begin."""
    for what, action, kind, claimed in GOES_ON:
        for scope in sorted(named):
            names = tuple(sorted(named[scope].get(kind, frozenset()) - _revocations_of(kind, held)))
            if names:
                since = int(min(began, held.head_expires_at or began)) if claimed else None
                yield Use(what, Question(action, scope, names[0], since), names)
    types = {parse_scope(scope)[0] for scope in named}
    for what, action in BEGINS:
        if action != "add_peer" or "peer_directory" in types:
            yield Use(what, Question(action))


def _states(held: GateFacts, outage: Outage, times: Iterable[float]) -> Iterator[OutagePhase]:
    before: tuple[str, str] | None = None
    for now in times:
        facts = facts_at(held, outage, now)
        found = str(mode(facts, now)), str(fence(facts, now) or ("" if facts.head_is_fresh(now) else HEAD_EXPIRED))
        if found != before:
            yield OutagePhase(_after_s(now, outage), *found)
        before = found


def _stops(held: GateFacts, use: Use, outage: Outage, times: Iterable[float]) -> Iterator[Stop]:
    """Each time that a yes becomes a no; what was refused before the outage stops no more."""
    allowed = False
    for now in times:
        answer = may(use.question, facts_at(held, outage, now), now)
        if allowed and not answer.allowed:
            yield Stop(_after_s(now, outage), use.what, use.names, str(answer.reason))
        allowed = answer.allowed


def _together(stops: Iterable[Stop]) -> Iterator[Stop]:
    """In the order of time; what stops for one reason at one moment is one."""
    order = {what: number for number, (what, *_) in enumerate((*GOES_ON, *BEGINS))}
    found: dict[tuple[int, int, str, str], set[str]] = {}
    for stop in stops:
        found.setdefault((stop.after_s, order[stop.what], stop.what, stop.reason), set()).update(stop.names)
    for after_s, _, what, reason in sorted(found):
        yield Stop(after_s, what, tuple(sorted(found[after_s, order[what], what, reason])), reason)


def _revocations_of(kind: str, held: GateFacts) -> frozenset[str]:
    told = held.revocations
    return {"services": told.service_ids, "peers": told.node_ids, "endpoints": told.endpoints}.get(kind, frozenset())


def _after_s(now: float, outage: Outage) -> int:
    return int(now - outage.began)

"""The state of a node, and why: the first row of a table whose condition holds (rules A1..A9, J40, J41). Pure.

    assess(facts, now)   the Standing
    ROWS                 REVOKED, WAITING, FENCED, RECOVERING, DEGRADED; a member of whom none holds is ACTIVE

Each condition gives its cause, or None. What a state does not authorise is the gate's business (degraded.py), which
is told the cause of every state in which nothing new may begin.

The order of the rows is the decision. REVOKED first: whatever else is wrong, a revoked node does nothing. WAITING
before FENCED: a node that never had a head has none that expired. FENCED before RECOVERING and DEGRADED: a clock that
went back or an outage beyond the policy stops what the other two would still let go on. RECOVERING before DEGRADED:
that content is missing is the worse news, and its remedy another.

Example. A node's head has expired an hour ago, and its `route_policy` runs on the previous version since the newest
one was damaged on its disk. DEGRADED and RECOVERING would both be true: it says RECOVERING with `running_on_previous`,
the gate goes by the expired head all the same, and once the scope is whole it says DEGRADED with `head_expired`. When
the policy's `max_duration_s` is over, it is FENCED in either case.

State is never stored: it is computed of facts at each question, so it cannot be stale, and nothing has to be moved
from one state to another after a restart. What has to survive one is facts, and they lie in the store (a revocation,
how long the outage has lasted).

Rejected:

- A machine with transitions: a dozen facts change independently, so there are more transitions than could be read, and
  a missed one would leave a node in a state of which nothing is true any more.
- A set of conditions instead of one state: whoever looks at a thousand nodes needs one word, and the gate needs one
  cause.
"""

from collections.abc import Callable, Collection
from dataclasses import field, replace
from enum import StrEnum

from snapshot import degraded
from snapshot.frozen import frozen


class State(StrEnum):
    UNENROLLED = "unenrolled"
    JOINING = "joining"
    WAITING = "waiting"
    ACTIVE = "active"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    FENCED = "fenced"
    REVOKED = "revoked"


class StateCause(StrEnum):
    """Why a state holds. FENCED also has those of `degraded.fence`; a refused join has the coordinator's code."""

    NOT_ENROLLED = "not_enrolled"
    JOINING = "joining"
    REVOKED = "revoked"
    OTHER_CLUSTER = "token_of_another_cluster"
    NO_BOOTSTRAP = "no_bootstrap"
    NO_HEAD = "no_head"
    CLOCK_REGRESSED = "clock_regressed"
    SCOPE_EXPIRED = "scope_expired"
    NODE_BEHIND = "node_behind"
    STORE_REGRESSED = "store_regressed"
    RUNNING_ON_PREVIOUS = "running_on_previous"
    SCOPE_MISSING = "scope_missing"
    VERSION_GAP = "version_gap"
    HEAD_EXPIRED = "head_expired"


# Nothing new is authorised in these.
CLOSED = frozenset({State.UNENROLLED, State.JOINING, State.WAITING, State.FENCED, State.REVOKED})


@frozen
class NodeFacts:
    """What the node knows at one moment. `gate.cause` is not looked at: it follows from the standing.

    `member`: it has an identity, and root keys are pinned outside of the store. `listed`: the scopes of the last head,
    as far as their types are known. `lost`: scopes whose accepted content is not what serves. `gaps`: scopes being
    fetched whole after an increment did not fit. `behind`: what the coordinator recorded is above what is held.
    """

    member: bool = False
    joining: bool = False
    refusal: str = ""
    other_cluster: bool = False
    bootstrap_accepted: bool = False
    head_accepted: bool = False  # ever: one that has expired, or was lost, is another matter
    revoked: bool = False
    clock_regressed: bool = False
    listed: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    on_previous: frozenset[str] = frozenset()
    gaps: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    gate: degraded.GateFacts = field(default_factory=degraded.GateFacts)


@frozen
class NodeState:
    """`cause` is empty for ACTIVE alone."""

    state: State
    cause: str = ""

    @property
    def is_closed(self) -> bool:
        return self.state in CLOSED


def assess(facts: NodeFacts, now: float) -> NodeState:
    if not facts.member:
        return _not_a_member(facts)
    for state, cause_of in ROWS:
        cause = cause_of(facts, now)
        if cause is not None:
            return NodeState(state, str(cause))
    return NodeState(State.ACTIVE)


def gate_facts(facts: NodeFacts, now: float) -> degraded.GateFacts:
    """What the gate goes by: the same facts, with the cause of a closed state."""
    standing = assess(facts, now)
    cause = standing.cause if standing.is_closed else None
    return replace(facts.gate, cause=cause)


def _not_a_member(facts: NodeFacts) -> NodeState:
    """A2, A3: a token leads to JOINING; refused, it is UNENROLLED again, with the code."""
    if facts.refusal:
        return NodeState(State.UNENROLLED, facts.refusal)
    if facts.joining:
        return NodeState(State.JOINING, str(StateCause.JOINING))
    return NodeState(State.UNENROLLED, str(StateCause.NOT_ENROLLED))


def _revocation_cause(facts: NodeFacts, now: float) -> str | None:
    return StateCause.REVOKED if facts.revoked else None


def _waiting(facts: NodeFacts, now: float) -> str | None:
    """A3, A4, K27"""
    if facts.other_cluster:
        return StateCause.OTHER_CLUSTER
    if not facts.bootstrap_accepted:
        return StateCause.NO_BOOTSTRAP
    # A3: what is granted leads here. Without a head there is none to have expired: neither A6 nor A8 holds.
    return None if facts.head_accepted else StateCause.NO_HEAD


def _fence_cause(facts: NodeFacts, now: float) -> str | None:
    """A8"""
    if facts.clock_regressed:
        return StateCause.CLOCK_REGRESSED
    return degraded.fence(replace(facts.gate, cause=None), now)


def _recovering(facts: NodeFacts, now: float) -> str | None:
    """A7: until what is listed is at or above its mark and authorises; a lost one that is listed no more is none."""
    if facts.behind:
        return StateCause.NODE_BEHIND
    wanted = facts.listed | frozenset(degraded.REQUIRED)
    if facts.on_previous & wanted:
        return StateCause.RUNNING_ON_PREVIOUS
    if facts.lost & facts.gate.scopes.keys() & wanted:
        return StateCause.STORE_REGRESSED
    if wanted - facts.gate.scopes.keys():
        return StateCause.SCOPE_MISSING
    if facts.gaps & wanted:
        return StateCause.VERSION_GAP
    return StateCause.SCOPE_EXPIRED if _is_stuck(facts, wanted, now) else None


def _is_stuck(facts: NodeFacts, wanted: Collection[str], now: float) -> bool:
    """What is listed has expired though the head has not: a listed scope that authorises nothing is as good as missing,
    and with a fresh head it is no outage that explains it (rules S29, A5).
    """
    over = (name for name in wanted if now >= facts.gate.scopes[name].expires_at)
    return facts.gate.head_is_fresh(now) and any(over)


def _degradation_cause(facts: NodeFacts, now: float) -> str | None:
    """A6: the head has expired. That the policy allows going on was decided before, in FENCED."""
    return None if facts.gate.head_is_fresh(now) else StateCause.HEAD_EXPIRED


ROWS: tuple[tuple[State, Callable[[NodeFacts, float], str | None]], ...] = (
    (State.REVOKED, _revocation_cause),
    (State.WAITING, _waiting),
    (State.FENCED, _fence_cause),
    (State.RECOVERING, _recovering),
    (State.DEGRADED, _degradation_cause),
)


def degradation_start(facts: NodeFacts, now: float) -> int | None:
    """When the head expired or was lost, Unix seconds by the guarded clock; None while it is fresh, or never was."""
    gate = facts.gate
    if not facts.head_accepted or gate.head_is_fresh(now):
        return None
    return int(now - gate.head_expired_for_s)


def changes_at(facts: NodeFacts, now: float) -> float | None:
    """When the standing changes next by time alone, as far as that is known now; None if never."""
    gate = facts.gate
    ends = [scope.expires_at for scope in gate.scopes.values()]
    ends += [gate.head_expires_at] if gate.head_expires_at is not None else []
    future: list[float] = [end for end in ends if end > now]
    if gate.policy is not None and not gate.head_is_fresh(now):
        future += _bounds(gate, now)
    return min(future, default=None)


def _bounds(gate: degraded.GateFacts, now: float) -> list[float]:
    assert gate.policy is not None  # noqa: S101 - the caller's condition
    left = gate.policy.max_duration_s - gate.head_expired_for_s
    return [now + left] if left > 0 else []

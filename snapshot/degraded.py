"""The one gate of degraded mode: may this be done, now (rules S55..S62; `POST /v1/may` of protocol.md 4)? Pure.

    may(question, facts, now)   the answer, with its reason, the mode and until when it holds at the latest
    fence(facts, now)           why nothing may go on (rules A8), None while something may
    RULES                       each action that is ever allowed, and what it needs

While nobody has compared the root keys of a first use, whoever signs may be anybody: nothing new begins on its word
(`new` of a rule; threats D-19). What ran goes on, and everything can be read.

Expiry is decided here, at the moment of use. Durations are measured from the head's expiry on the boot clock
(rules J38): the caller says how long ago that was. The order of the checks is the order of the reasons: what is never
allowed, then the node's state, then whether its roots are confirmed, then what has been revoked, then the scope,
then the policy and its bounds, then whether it ran.

Whether a service ran is the node's own knowledge (`GateFacts.running`), and what it does not know is no.
What a caller says of it only makes the question narrower: with `running_since` it asks about going on with something
(this session, this route), which is no more than the service's running or the route's standing there gives without
it. To take a caller's word was rejected: whoever may ask could start in an outage what never ran.

Example. The policy allows `continue_services` for 4 h, with sessions of 1 h; the head expired at 10:00,
`service_assignment/web` expires at 10:40, and the node saw web running at 09:59. At 10:30 `continue_services` for web
is allowed until 10:40, the nearest of three ends. A session that was open at 09:59 may go on until then, a new one may
not open (`not_in_policy`). At 10:40 neither goes on (`scope_expired`), though the 4 h are not over. When the
coordinator is back and the head fresh, all is asked anew and nothing remembers the outage.

Rejected:

- A state machine that switches modes by timers: a process that slept through its timer, or a machine that was
  suspended, would go on by a mode that has ended. Here the mode is computed from the facts at each question.
- The wall clock for durations: whoever can set it back prolongs the outage's permissions.
- One answer for the whole node: an expired scope would stop services that have nothing to do with it.
- Default permissions where no policy is held: the safe default is that nothing goes on that nobody allowed.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from snapshot.frozen import frozen
from snapshot.grants import POLICY_SCOPE, Grants, LateGrants, Policy
from snapshot.identifiers import parse_scope, stands_for
from snapshot.manifest import Revocations
from snapshot.roles import allowed_scope_types

COMBINED = "node_runtime"
REQUIRED = ("node_bootstrap", "trust_bundle")  # rules: required scopes


class Mode(StrEnum):
    NORMAL = "normal"  # the head is fresh
    DEGRADED = "degraded"  # it is not, and a held policy allows going on
    FENCED = "fenced"  # nothing may go on


class GateReason(StrEnum):
    """Of an answer. Where the node's state forbids it, the state's own cause stands there instead."""

    OK = "ok"
    NOT_IN_POLICY = "not_in_policy"
    NO_DEGRADED_POLICY = "no_degraded_policy"
    NOT_SEEN_RUNNING = "not_seen_running"
    DEGRADED_LIMIT = "degraded_limit"
    UNCONFIRMED_START = "unconfirmed_start"
    SCOPE_EXPIRED = "scope_expired"
    SIGNER_REVOKED = "signer_revoked"
    REVOKED = "revoked"
    STALE_EPOCH = "stale_epoch"
    FORBIDDEN_IN_DEGRADED = "forbidden_in_degraded"
    UNKNOWN_ACTION = "unknown_action"
    NOT_PINNED = "not_pinned"
    ROOTS_UNCONFIRMED = "roots_unconfirmed"


# rules S56: never, whatever the policy says, and in no other state either.
FORBIDDEN = frozenset({
    "approve_enrolment",  # S56a
    "issue_certificate",  # S56b
    "assign_role",  # S56c
    "change_cluster_policy",  # S56d
    "change_organization_policy",  # S56e
    "rotate_trust_root",  # S56f
    "promote_partition",  # S56g
    "fetch_unrelated_secret",  # S56h
    "create_service_authority",  # S56i
})  # fmt: skip


@frozen
class Rule:
    """`permission`: what the policy must name. `grants`: the kind of thing that `resource` names.

    `new` operations are refused in degraded mode, unless they only go on with what ran when the head expired.
    """

    permission: str
    grants: str | None
    ttl: str | None = None
    new: bool = False
    began_before: bool = False  # if it says since when it has been running, that must be before the head's expiry
    listed: bool = True  # an active scope must name the resource


RULES: Mapping[str, Rule] = {
    # rules S55
    "continue_services": Rule("continue_services", "services", began_before=True),
    "preserve_routes": Rule("preserve_routes", "routes", "route_ttl_s", began_before=True),
    # Bootstrap peers stand in the configuration, too: for these two, not being revoked is enough.
    "reconnect_peers": Rule("reconnect_peers", "peers", listed=False),
    "validate_peers": Rule("validate_peers", "peers", listed=False),
    "use_storage_endpoints": Rule("use_storage_endpoints", "endpoints"),
    # What a service that goes on goes out by.
    "use_resource": Rule("continue_services", "resources"),
    "report_degraded": Rule("report_degraded", None),
    # new operations
    "start_service": Rule("continue_services", "services", new=True),
    "open_session": Rule("continue_services", "services", "session_ttl_s", new=True),
    "open_route": Rule("preserve_routes", "routes", "route_ttl_s", new=True),
    "add_peer": Rule("reconnect_peers", "peers", new=True),
    "resolve_secret": Rule("continue_services", "secrets", new=True),
}


@dataclass(frozen=True)
class Question:
    """`running_since` (Unix seconds): the caller says that this session, route, service or peer was there then.
    `certificate` (`sha256:<hex>`): what a peer has shown, of a question about that peer.
    """

    action: str
    scope: str | None = None
    resource: str | None = None
    running_since: int | None = None
    certificate: str | None = None


@frozen
class HeldScope:
    """An active scope."""

    expires_at: int
    authority_epoch: int
    signer_revoked: bool = False
    grants: Grants | LateGrants = field(default_factory=Grants)


@frozen
class GateFacts:
    """What the node knows at one moment.

    `cause`: of a state in which nothing new is authorised (REVOKED, WAITING, FENCED, no identity), None otherwise;
    what the gate finds itself (`fence`) need not be in it. `head_expired_for_s`: seconds on the boot clock.
    `revocations`: the trust bundle's and the last head's together. `authority_epoch`: what the bundle announces.
    `confirmed`: a head has been fresh since the agent started (rules A15). `running`: services that the node itself
    knows to have run when the head expired, and that may be running still. `roots_confirmed`: false while the root keys
    are those of a first use that nobody has compared. `configured_pins`: of agent.toml's
    bootstrap peers and manual map.
    """

    cause: str | None = None
    head_expires_at: int | None = None
    head_expired_for_s: float = 0.0
    scopes: Mapping[str, HeldScope] = field(default_factory=dict)
    policy: Policy | None = None
    revocations: Revocations = field(default_factory=Revocations)
    authority_epoch: int = 0
    node_id: str = ""
    roles: frozenset[str] = frozenset()
    confirmed: bool = True
    running: frozenset[str] = frozenset()
    roots_confirmed: bool = True
    configured_pins: frozenset[str] = frozenset()

    def head_is_fresh(self, now: float) -> bool:
        return self.head_expires_at is not None and now < self.head_expires_at


@frozen
class GateAnswer:
    """`until`: Unix seconds; ask again then."""

    allowed: bool
    reason: str
    mode: Mode
    until: int | None = None


def mode(facts: GateFacts, now: float) -> Mode:
    if fence(facts, now) is not None:
        return Mode.FENCED
    return Mode.NORMAL if facts.head_is_fresh(now) else Mode.DEGRADED


def fence(facts: GateFacts, now: float) -> str | None:
    """Why nothing may go on (rules A8, A15, S57, S58), None while something may."""
    if facts.cause is not None:
        return facts.cause
    if any(now >= facts.scopes[name].expires_at for name in REQUIRED if name in facts.scopes):
        return GateReason.SCOPE_EXPIRED
    if facts.head_is_fresh(now):
        return None
    policy = held_policy(facts, now)
    if policy is None:
        return GateReason.NO_DEGRADED_POLICY
    if not facts.confirmed and not policy.allow_unconfirmed_start:
        return GateReason.UNCONFIRMED_START
    if _rest_of(policy.max_duration_s, facts) <= 0:
        return GateReason.DEGRADED_LIMIT
    return None


def held_policy(facts: GateFacts, now: float) -> Policy | None:
    """The policy, unless it has expired, its signer has been revoked or its epoch is over (rules S58, S61)."""
    scope = facts.scopes.get(POLICY_SCOPE)
    if scope is None or _lapse_of(scope, facts, now, running=False, degraded=True):
        return None
    return facts.policy


def may(question: Question, facts: GateFacts, now: float) -> GateAnswer:
    """The answer of the gate."""
    present = mode(facts, now)
    reason, until = _judge(question, facts, now, present)
    allowed = reason == GateReason.OK
    return GateAnswer(allowed, reason, present, int(until) if allowed and until is not None else None)


def _judge(question: Question, facts: GateFacts, now: float, present: Mode) -> tuple[str, float | None]:
    if question.action in FORBIDDEN:
        return GateReason.FORBIDDEN_IN_DEGRADED, None
    rule = RULES.get(question.action)
    if rule is None:
        return GateReason.UNKNOWN_ACTION, None
    fenced = fence(facts, now)
    if fenced is not None:
        return fenced, None
    if rule.new and not facts.roots_confirmed:
        return GateReason.ROOTS_UNCONFIRMED, None
    if _is_revoked(question.resource, rule, facts):
        return GateReason.REVOKED, None
    reason, expires_at = _scopes_allow(question, rule, facts, now, present)
    if reason is not GateReason.OK:
        return reason, None
    if question.certificate is not None and not _is_pinned(question, rule, facts, now, present):
        return GateReason.NOT_PINNED, None
    if present is Mode.NORMAL:
        # A new operation ends with the head, and what runs is asked about again then.
        return GateReason.OK, _earliest(facts.head_expires_at, expires_at)
    return _policy_allows(question, rule, facts, now, expires_at)


def _is_pinned(question: Question, rule: Rule, facts: GateFacts, now: float, present: Mode) -> bool:
    """Whether the peer is known by the certificate that it has shown: by a directory that still authorises something,
    or by the configuration.
    """
    if rule.grants != "peers" or question.resource is None:
        return False
    pin = f"{question.resource} {question.certificate}"
    degraded = present is Mode.DEGRADED
    return pin in facts.configured_pins or any(
        pin in scope.grants.pins and _lapse_of(scope, facts, now, running=True, degraded=degraded) is None
        for scope in facts.scopes.values()
    )


def _policy_allows(
    question: Question, rule: Rule, facts: GateFacts, now: float, expires_at: float | None
) -> tuple[GateReason, float | None]:
    """The degraded permissions and their bounds, of which the tightest wins (rules S55, S57)."""
    policy = held_policy(facts, now)
    if policy is None or rule.permission not in policy.allow or not _is_claimed(question, rule, facts):
        return GateReason.NOT_IN_POLICY, None
    if not _is_seen(question, rule, facts):
        return GateReason.NOT_SEEN_RUNNING, None
    left = _rest_of(policy.max_duration_s, facts)
    if rule.ttl is not None:
        left = min(left, _rest_of(getattr(policy, rule.ttl), facts))
    if left <= 0:
        return GateReason.DEGRADED_LIMIT, None
    return GateReason.OK, _earliest(now + left, facts.scopes[POLICY_SCOPE].expires_at, expires_at)


def _is_claimed(question: Question, rule: Rule, facts: GateFacts) -> bool:
    """Whether the question is about what was there when the head expired; without a head nothing was."""
    if question.running_since is None:
        return not rule.new
    if not (rule.new or rule.began_before):
        return True
    return facts.head_expires_at is not None and question.running_since <= facts.head_expires_at


def _is_seen(question: Question, rule: Rule, facts: GateFacts) -> bool:
    """Whether the node knows that it ran. Routes and peers are known by standing in an active scope; a secret, or what
    is gone out by, is a service's own, one that ran and lives by the same scope. Of no service in particular: whether
    services go on at all.
    """
    if rule.grants not in ("services", "secrets", "resources"):
        return True
    if question.resource is None:
        return not rule.new
    if rule.grants == "services":
        return question.resource in facts.running
    grants = (scope.grants for scope in facts.scopes.values())
    listing = [granted for granted in grants if _names(granted, rule.grants, question.resource, facts)]
    return any(service in grants.services for grants in listing for service in facts.running)


def _scopes_allow(
    question: Question, rule: Rule, facts: GateFacts, now: float, present: Mode
) -> tuple[GateReason, float | None]:
    """OK with the expiry of the scope that grants it (None where none is asked for), or why no scope does."""
    names = _scopes_behind(question, rule, facts)
    if not names and question.scope is None and not _must_be_listed(question, rule):
        return GateReason.OK, None
    # In degraded mode only what was there goes on, so there the bounds hold of running use, too (rules S57).
    claimed = question.running_since is not None and question.running_since <= now
    running = (claimed or not rule.new) and _is_seen(question, rule, facts)
    found: list[GateReason] = []
    usable: list[int] = []
    for name in names:
        scope = facts.scopes[name]
        lapsed = _lapse_of(scope, facts, now, running=running, degraded=present is Mode.DEGRADED)
        if lapsed is None and _role_is_revoked(name, facts):
            lapsed = GateReason.REVOKED
        if lapsed is None:
            usable.append(scope.expires_at)
        else:
            found.append(lapsed)
    if usable:
        return GateReason.OK, max(usable)
    return (found[0] if found else GateReason.NOT_IN_POLICY), None


def _scopes_behind(question: Question, rule: Rule, facts: GateFacts) -> list[str]:
    """The active scopes that the question rests on: what it names, or those that name its resource."""
    return sorted(name for name, scope in facts.scopes.items() if _rests_on(question, rule, name, scope, facts))


def _rests_on(question: Question, rule: Rule, name: str, scope: HeldScope, facts: GateFacts) -> bool:
    if question.scope is not None and not stands_for(question.scope, name):
        return False
    if question.resource is None or rule.grants is None:
        return question.scope is not None
    if _names(scope.grants, rule.grants, question.resource, facts):
        return True
    return question.scope is not None and not (rule.listed and _could_list(name, rule.grants))


def _must_be_listed(question: Question, rule: Rule) -> bool:
    return rule.listed and rule.grants is not None and question.resource is not None


def _could_list(scope: str, grants: str) -> bool:
    """Whether it would have to be named there. A combined node_runtime is open JSON, but for secrets (rules S15)."""
    return grants == "secrets" or parse_scope(scope)[0] != COMBINED


def _lapse_of(scope: HeldScope, facts: GateFacts, now: float, *, running: bool, degraded: bool) -> GateReason | None:
    """Why a scope authorises this no longer."""
    if now >= scope.expires_at:
        return GateReason.SCOPE_EXPIRED
    if scope.signer_revoked and (degraded or not running):
        return GateReason.SIGNER_REVOKED
    if degraded and scope.authority_epoch < facts.authority_epoch:
        return GateReason.STALE_EPOCH
    return None


def _names(grants: Grants | LateGrants, kind: str, name: str, facts: GateFacts) -> bool:
    """Whether a scope names it. A secret that only what was revoked names is named no more."""
    if kind == "resources":
        return any(resource.id == name for resource in grants.resources)
    if kind == "secrets":
        revoked = facts.revocations.service_ids
        held = (resource for resource in grants.resources if not resource.is_revoked(revoked))
        return name in grants.secrets or any(name in resource.secrets for resource in held)
    found: Container[str] = getattr(grants, kind)
    return name in found


def _is_lost(name: str, kind: str, facts: GateFacts) -> bool:
    """Whether it is, or was named by, a resource that is revoked, and by nothing else."""
    every = [resource for scope in facts.scopes.values() for resource in scope.grants.resources]
    gone = [resource for resource in every if resource.is_revoked(facts.revocations.service_ids)]
    if kind == "resources":
        return any(resource.id == name for resource in gone)
    is_named = any(_names(scope.grants, kind, name, facts) for scope in facts.scopes.values())
    return not is_named and any(name in resource.secrets for resource in gone)


def _is_revoked(resource: str | None, rule: Rule, facts: GateFacts) -> bool:
    if resource is not None and rule.grants in ("resources", "secrets"):
        return _is_lost(resource, rule.grants, facts)
    revoked = {
        "services": facts.revocations.service_ids,
        "peers": facts.revocations.node_ids,
        "endpoints": facts.revocations.endpoints,
    }
    return resource in revoked.get(rule.grants or "", frozenset())


def _role_is_revoked(scope: str, facts: GateFacts) -> bool:
    """Whether only a role that was taken from this node lets it hold the scope (rules S61)."""
    left = {role for role in facts.roles if f"{facts.node_id}/{role}" not in facts.revocations.role_assignments}
    scope_type = parse_scope(scope)[0]
    return scope_type in allowed_scope_types(facts.roles) - allowed_scope_types(left)


def _rest_of(seconds: float, facts: GateFacts) -> float:
    """What is left of a duration that began when the head expired."""
    return seconds - max(0.0, facts.head_expired_for_s)


def _earliest(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)

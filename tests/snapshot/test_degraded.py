"""The gate: what is ever allowed, each bound as the tightest, and never more than a naive reading of the rules."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot.degraded import FORBIDDEN, RULES, GateFacts, GateReason, HeldScope, Mode, Question, fence, may, mode
from snapshot.egress import ResourceGrant
from snapshot.grants import ALLOWABLE, Grants, Policy, pin_of
from snapshot.manifest import Revocations
from tests.examples import examples

NOW = 1_900_000_000
HOUR, DAY = 3600, 86_400
ALL = frozenset(ALLOWABLE)
POLICY = Policy(ALL, 6 * HOUR, HOUR, HOUR // 2, allow_unconfirmed_start=False)
SCOPES = {
    "node_bootstrap": HeldScope(NOW + 7 * DAY, 1),
    "degraded_mode_policy": HeldScope(NOW + 7 * DAY, 1),
    "service_assignment/db": HeldScope(NOW + 7 * DAY, 1, grants=Grants(services=frozenset({"db"}))),
    "service_assignment/idle": HeldScope(NOW + 7 * DAY, 1, grants=Grants(services=frozenset({"idle"}))),
    "service_assignment/web": HeldScope(
        NOW + 7 * DAY, 1, grants=Grants(services=frozenset({"web"}), secrets=frozenset({"vault:web/key"}))
    ),
    "route_policy": HeldScope(
        NOW + 7 * DAY, 1, grants=Grants(routes=frozenset({"north"}), secrets=frozenset({"vault:tls"}))
    ),
    "peer_directory": HeldScope(NOW + 7 * DAY, 1, grants=Grants(peers=frozenset({"node-b"}))),
    "storage_directory": HeldScope(NOW + 7 * DAY, 1, grants=Grants(endpoints=frozenset({"https://s:1"}))),
}
FRESH = GateFacts(
    head_expires_at=NOW + 600,
    scopes=SCOPES,
    policy=POLICY,
    authority_epoch=1,
    node_id="node-a",
    roles=frozenset({"core_mesh", "egress_service"}),
    running=frozenset({"web", "db"}),
)
SINCE = 100
"""Seconds since the head of DARK expired."""
DARK = replace(FRESH, head_expires_at=NOW - SINCE, head_expired_for_s=float(SINCE))
BEFORE = NOW - 10_000


def scope(facts: GateFacts, name: str, **changes: object) -> GateFacts:
    return replace(facts, scopes={**facts.scopes, name: replace(facts.scopes[name], **changes)})


def reason(question: Question | str, facts: GateFacts, now: float = NOW) -> str:
    asked = Question(question) if isinstance(question, str) else question
    answer = may(asked, facts, now)
    assert answer.allowed == (answer.reason == "ok")
    assert answer.allowed or answer.until is None
    return str(answer.reason)


PLANT = ResourceGrant("plant", "office", frozenset({"vault:plant", "vault:both"}))
PRINTER = ResourceGrant("printer", secrets=frozenset({"vault:both"}))
OUT = Grants(services=frozenset({"web"}), secrets=frozenset({"vault:web/key"}), resources=frozenset({PLANT, PRINTER}))


@pytest.mark.parametrize("facts", [FRESH, DARK], ids=["fresh", "dark"])
@pytest.mark.parametrize("gone", ["plant", "office"])
def test_what_a_service_goes_out_by(facts, gone):
    """rules S60, S61: what is revoked, and what is reached by it, with the secrets that only it names"""

    def reasons(facts):
        uses = [reason(Question("use_resource", None, name), facts) for name in ("plant", "printer", "other")]
        secrets = ("vault:plant", "vault:both", "vault:web/key")
        return uses + [reason(Question("resolve_secret", None, name, BEFORE), facts) for name in secrets]

    held = scope(facts, "service_assignment/web", grants=OUT)
    assert reasons(held) == ["ok", "ok", "not_in_policy", "ok", "ok", "ok"]
    lost = replace(held, revocations=Revocations(service_ids=frozenset({gone})))
    assert reasons(lost) == ["revoked", "ok", "not_in_policy", "revoked", "ok", "ok"]


def test_what_a_service_that_did_not_run_goes_out_by():
    idle = replace(scope(DARK, "service_assignment/web", grants=OUT), running=frozenset())
    assert reason(Question("use_resource", None, "plant"), idle) == "not_seen_running"


TABLE = [
    # action, resource, running since | fresh head, no fresh head
    ("continue_services", "web", None, "ok", "ok"),  # S55a
    ("preserve_routes", "north", None, "ok", "ok"),  # S55b
    ("reconnect_peers", "node-b", None, "ok", "ok"),  # S55c
    ("validate_peers", "node-b", None, "ok", "ok"),  # S55d
    ("use_storage_endpoints", "https://s:1", None, "ok", "ok"),  # S55e
    ("report_degraded", None, None, "ok", "ok"),  # S55f
    ("continue_services", "web", NOW - 1, "ok", "not_in_policy"),  # it began after the head had expired
    ("continue_services", "unknown", None, "not_in_policy", "not_in_policy"),
    ("preserve_routes", "unknown", None, "not_in_policy", "not_in_policy"),
    ("reconnect_peers", "bootstrap-1", None, "ok", "ok"),  # of the configuration
    ("start_service", "web", None, "ok", "not_in_policy"),
    ("start_service", "web", BEFORE, "ok", "ok"),  # it ran before
    ("start_service", "unknown", None, "not_in_policy", "not_in_policy"),
    ("open_session", "web", None, "ok", "not_in_policy"),
    ("open_session", "web", BEFORE, "ok", "ok"),
    ("open_route", "north", None, "ok", "not_in_policy"),
    ("open_route", "north", BEFORE, "ok", "ok"),
    ("open_route", "south", BEFORE, "not_in_policy", "not_in_policy"),
    ("add_peer", "node-b", None, "ok", "not_in_policy"),
    ("add_peer", "node-z", None, "not_in_policy", "not_in_policy"),
    ("resolve_secret", "vault:web/key", None, "ok", "not_in_policy"),
    ("resolve_secret", "vault:web/key", BEFORE, "ok", "ok"),
    ("resolve_secret", "vault:other", None, "not_in_policy", "not_in_policy"),
    # what the node has not seen running itself, whatever is said of it
    ("continue_services", "idle", None, "ok", "not_seen_running"),
    ("continue_services", "idle", BEFORE, "ok", "not_seen_running"),
    ("start_service", "idle", None, "ok", "not_in_policy"),
    ("start_service", "idle", BEFORE, "ok", "not_seen_running"),
    ("open_session", "idle", BEFORE, "ok", "not_seen_running"),
    ("open_session", None, BEFORE, "ok", "not_seen_running"),
    ("resolve_secret", "vault:tls", BEFORE, "ok", "not_seen_running"),  # of a scope that names no service
    ("fly", None, None, "unknown_action", "unknown_action"),
    ("", None, None, "unknown_action", "unknown_action"),
]


@pytest.mark.parametrize(("action", "resource", "since", "fresh", "dark"), TABLE)
def test_what_is_answered(action, resource, since, fresh, dark):
    """rules S55a, S55b, S55c, S55d, S55e, S55f, S62."""
    question = Question(action, resource=resource, running_since=since)
    assert reason(question, FRESH) == fresh
    assert reason(question, DARK) == dark


def test_a_peer_is_known_by_what_it_has_shown():
    """rules S55d, K49: by an unexpired directory, or the configuration; and of nobody but that peer"""
    shown = {name: pin_of(name, name.encode()) for name in ("node-b", "seed-1")}
    grants = Grants(peers=frozenset({"node-b"}), pins=frozenset({shown["node-b"]}))
    facts = replace(scope(FRESH, "peer_directory", grants=grants), configured_pins=frozenset({shown["seed-1"]}))

    def answer(node_id, certificate, action="validate_peers", held=facts):
        return reason(Question(action, resource=node_id, certificate=certificate), held)

    b, seed = (pin.split()[1] for pin in shown.values())
    assert [answer("node-b", b), answer("seed-1", seed), answer("node-b", b, "reconnect_peers")] == ["ok"] * 3
    assert [answer("node-b", seed), answer("seed-1", b), answer("node-z", b), answer(None, b)] == ["not_pinned"] * 4
    assert answer("north", b, "preserve_routes") == "not_pinned", "it is about peers alone"
    gone = replace(facts, revocations=Revocations(node_ids=frozenset({"node-b"})))
    assert answer("node-b", b, held=gone) == "revoked"
    old = scope(FRESH, "peer_directory", expires_at=NOW, grants=grants)
    assert answer("node-b", b, held=old) == "scope_expired"


@pytest.mark.parametrize("action", sorted(FORBIDDEN))
def test_what_is_never_done(action):
    """rules S56a, S56b, S56c, S56d, S56e, S56f, S56g, S56h, S56i, S83: in no state, before the policy is read."""
    everything = replace(DARK, policy=replace(POLICY, allow=ALL | {action}))
    for facts in (FRESH, DARK, everything, GateFacts(), replace(FRESH, cause="revoked")):
        assert reason(action, facts) == "forbidden_in_degraded"
    assert len(FORBIDDEN) == 9
    assert reason("continue_services", DARK) == "ok"


@pytest.mark.parametrize("permission", ALLOWABLE)
def test_each_permission_must_be_named(permission):
    """rules S55: each only if the policy's `allow` names it."""
    assert reason(permission, replace(DARK, policy=replace(POLICY, allow=frozenset({permission})))) == "ok"
    assert reason(permission, replace(DARK, policy=replace(POLICY, allow=ALL - {permission}))) == "not_in_policy"
    assert reason(permission, replace(FRESH, policy=None)) == "ok"


# ---- the bounds, each as the tightest (rules S57)


def edge(question: Question, facts: GateFacts, last: float, then: str) -> None:
    """Allowed until the moment before `last`, with `until` at it; refused for `then` from it on."""
    assert may(question, facts, NOW).until == int(last)
    for moment, expected in ((last - 0.5, "ok"), (last, then), (last + 1, then)):
        later = replace(facts, head_expired_for_s=facts.head_expired_for_s + moment - NOW)
        assert reason(question, later, moment) == expected


def test_the_snapshots_expiry_as_the_tightest():
    """threats A18; rules S57, S29, S75."""
    facts = scope(DARK, "service_assignment/web", expires_at=NOW + 60)
    edge(Question("continue_services", resource="web"), facts, NOW + 60, "scope_expired")
    edge(Question("continue_services", scope="service_assignment/web"), facts, NOW + 60, "scope_expired")
    assert reason(Question("preserve_routes", resource="north"), facts, NOW + 61) == "ok"


def test_the_routes_ttl_as_the_tightest():
    """rules S57."""
    edge(Question("preserve_routes", resource="north"), DARK, NOW - SINCE + HOUR, "degraded_limit")
    late = replace(DARK, head_expired_for_s=float(HOUR))
    assert reason("preserve_routes", late) == "degraded_limit"
    assert reason("continue_services", late) == "ok"


def test_the_sessions_ttl_as_the_tightest():
    """rules S57."""
    session = Question("open_session", resource="web", running_since=BEFORE)
    edge(session, DARK, NOW - SINCE + HOUR // 2, "degraded_limit")


def test_the_longest_duration_as_the_tightest():
    """rules S57, A8: then the node is fenced."""
    edge(Question("continue_services", resource="web"), DARK, NOW - SINCE + 6 * HOUR, "degraded_limit")
    over = replace(DARK, head_expired_for_s=6.0 * HOUR)
    assert (mode(over, NOW), fence(over, NOW)) == (Mode.FENCED, "degraded_limit")
    short = replace(DARK, policy=replace(POLICY, max_duration_s=200))
    assert may(Question("preserve_routes", resource="north"), short, NOW).until == NOW - SINCE + 200


def test_the_policys_own_expiry_as_the_tightest():
    """rules S57, S58."""
    facts = scope(DARK, "degraded_mode_policy", expires_at=NOW + 60)
    edge(Question("continue_services", resource="web"), facts, NOW + 60, "no_degraded_policy")


def test_a_known_epoch_as_the_tightest():
    """rules S57: what an earlier authority signed allows nothing more without a head of the present one."""
    raised = replace(DARK, authority_epoch=2)
    assert reason("continue_services", raised) == "no_degraded_policy"
    policy_renewed = scope(raised, "degraded_mode_policy", authority_epoch=2)
    assert reason(Question("continue_services", resource="web"), policy_renewed) == "stale_epoch"
    renewed = scope(policy_renewed, "service_assignment/web", authority_epoch=2)
    assert reason(Question("continue_services", resource="web"), renewed) == "ok"
    assert reason(Question("continue_services", resource="web"), replace(FRESH, authority_epoch=2)) == "ok"


def test_durations_run_on_the_boot_clock_alone():
    """threats V22; rules J38: a wall clock that jumps neither stretches nor shortens them."""
    jumped = NOW + 3 * DAY
    assert reason("continue_services", DARK, jumped) == "ok"
    assert reason("continue_services", replace(DARK, head_expired_for_s=7.0 * HOUR), NOW) == "degraded_limit"


def test_with_a_fresh_head_an_answer_holds_until_the_head_or_the_scope_expires():
    assert may(Question("start_service", resource="web"), FRESH, NOW).until == FRESH.head_expires_at
    soon = scope(FRESH, "service_assignment/web", expires_at=NOW + 60)
    assert may(Question("start_service", resource="web"), soon, NOW).until == NOW + 60
    assert reason(Question("start_service", resource="web"), soon, NOW + 60) == "scope_expired"


def test_at_its_last_second_the_head_is_over():
    facts = replace(FRESH, head_expires_at=NOW)
    assert mode(facts, NOW - 0.1) is Mode.NORMAL
    assert mode(facts, NOW) is Mode.DEGRADED
    assert reason(Question("start_service", resource="web"), facts, NOW) == "not_in_policy"


# ---- no policy, no start, no state


def test_without_a_policy_all_is_denied():
    """rules S58, A8."""
    gone = {name: one for name, one in SCOPES.items() if name != "degraded_mode_policy"}
    for facts in (
        replace(DARK, policy=None),
        replace(DARK, scopes=gone),
        scope(DARK, "degraded_mode_policy", expires_at=NOW),
    ):
        assert {reason(action, facts) for action in RULES} == {"no_degraded_policy"}
        assert mode(facts, NOW) is Mode.FENCED


def test_an_unconfirmed_start_needs_leave():
    """rules A15."""
    unconfirmed = replace(DARK, confirmed=False)
    assert fence(unconfirmed, NOW) == "unconfirmed_start"
    assert reason("continue_services", unconfirmed) == "unconfirmed_start"
    allowed = replace(unconfirmed, policy=replace(POLICY, allow_unconfirmed_start=True))
    assert reason("continue_services", allowed) == "ok"
    assert fence(replace(FRESH, confirmed=False), NOW) is None


def test_never_a_head_is_not_a_fresh_one():
    facts = replace(DARK, head_expires_at=None, head_expired_for_s=0.0)
    assert mode(facts, NOW) is Mode.DEGRADED
    assert reason(Question("start_service", resource="web", running_since=BEFORE), facts) == "not_in_policy"


@pytest.mark.parametrize("cause", ["revoked", "scope_expired", "clock_regressed"])
def test_a_states_cause_stands_before_everything_but_what_is_never_allowed(cause):
    """rules A8, A9, J40: revocation is shown before other reasons."""
    for facts in (replace(FRESH, cause=cause), replace(DARK, cause=cause, policy=None)):
        assert {reason(action, facts) for action in RULES} == {cause}
        assert mode(facts, NOW) is Mode.FENCED
        assert reason("assign_role", facts) == "forbidden_in_degraded"
        assert reason("fly", facts) == "unknown_action"


# ---- revocation (rules S61)


@pytest.mark.parametrize("facts", [FRESH, DARK], ids=["fresh", "dark"])
@pytest.mark.parametrize(
    ("revoked", "question", "other"),
    [
        ({"service_ids": {"web"}}, Question("continue_services", resource="web"), "db"),  # service assignments
        ({"node_ids": {"node-b"}}, Question("reconnect_peers", resource="node-b"), "node-c"),  # peers
        ({"node_ids": {"node-b"}}, Question("validate_peers", resource="node-b"), "node-c"),
        ({"endpoints": {"https://s:1"}}, Question("use_storage_endpoints", resource="https://s:1"), None),  # endpoints
    ],
)
def test_what_has_been_revoked(facts, revoked, question, other):
    """rules S61: services, peers, endpoints; nothing else is touched."""
    known = replace(facts, revocations=Revocations(**{name: frozenset(ids) for name, ids in revoked.items()}))
    assert reason(question, known) == "revoked"
    assert reason(question, facts) == "ok"
    if other:
        assert reason(replace(question, resource=other), known) == "ok"


def test_a_revoked_role_takes_what_only_it_grants():
    """rules S61: role assignments."""
    known = replace(DARK, revocations=Revocations(role_assignments=frozenset({"node-a/egress_service"})))
    assert reason(Question("continue_services", resource="web"), known) == "revoked"
    assert reason(Question("preserve_routes", resource="north"), known) == "ok"  # core_mesh grants it, too
    foreign = replace(DARK, revocations=Revocations(role_assignments=frozenset({"node-b/egress_service"})))
    assert reason(Question("continue_services", resource="web"), foreign) == "ok"


def test_a_revoked_signer_authorises_nothing_new():
    """threats D-41; rules S61, S82: signing keys. What runs goes on while the head is fresh; a full resync follows."""
    fresh = scope(FRESH, "service_assignment/web", signer_revoked=True)
    assert reason(Question("start_service", resource="web"), fresh) == "signer_revoked"
    assert reason(Question("start_service", resource="web", running_since=BEFORE), fresh) == "ok"
    assert reason(Question("start_service", resource="web", running_since=NOW + 1), fresh) == "signer_revoked"
    assert reason(Question("continue_services", resource="web"), fresh) == "ok"
    for running in (fresh.running - {"web"}, frozenset()):
        unseen = replace(fresh, running=running)
        assert reason(Question("start_service", resource="web", running_since=BEFORE), unseen) == "signer_revoked"
        assert reason(Question("continue_services", resource="web"), unseen) == "signer_revoked"
    dark = scope(DARK, "service_assignment/web", signer_revoked=True)
    assert reason(Question("continue_services", resource="web"), dark) == "signer_revoked"


def test_revoked_degraded_permissions():
    """rules S61: a policy whose signer was revoked, or that was withdrawn, is none; a newer one counts at once."""
    assert reason("continue_services", scope(DARK, "degraded_mode_policy", signer_revoked=True)) == "no_degraded_policy"
    narrowed = replace(DARK, policy=replace(POLICY, allow=frozenset({"report_degraded"})))
    assert reason("continue_services", narrowed) == "not_in_policy"


def test_a_scope_that_is_not_held_grants_nothing():
    for facts in (FRESH, DARK):
        assert reason(Question("continue_services", scope="qos_policy"), facts) == "not_in_policy"
        assert reason(Question("continue_services", scope="route_policy", resource="web"), facts) == "not_in_policy"
        assert reason(Question("continue_services", scope="node_bootstrap", resource="web"), facts) == "not_in_policy"


def test_a_combined_node_runtime_may_name_anything_but_secrets():
    """rules S15, S56h: what is in it is open JSON, so its reader knows what it names; secrets are found anywhere."""
    combined = replace(FRESH, scopes={**SCOPES, "node_runtime": HeldScope(NOW + DAY, 1)})
    assert reason(Question("start_service", scope="node_runtime", resource="other"), combined) == "ok"
    assert reason(Question("resolve_secret", scope="node_runtime", resource="vault:other"), combined) == "not_in_policy"


# ---- against a naive reading


def is_known(question: Question, facts: GateFacts) -> bool:
    """S55a: already running, as the node knows it."""
    if question.action in ("start_service", "open_session"):
        return question.resource in facts.running
    if question.action == "continue_services":
        return question.resource is None or question.resource in facts.running
    return question.action != "resolve_secret" or bool(facts.running)


def naive(question: Question, facts: GateFacts, now: float) -> bool:
    """rules S55..S58, read one by one and with no thought of order: may this possibly be allowed?"""
    if question.action in FORBIDDEN or question.action not in RULES or facts.cause is not None:
        return False  # S56
    named = [facts.scopes[question.scope]] if question.scope in facts.scopes else []
    if question.scope is not None and (not named or now >= named[0].expires_at):
        return False  # S29
    if facts.head_expires_at is not None and now < facts.head_expires_at:
        return True
    policy_scope = facts.scopes.get("degraded_mode_policy")
    if policy_scope is None or now >= policy_scope.expires_at or facts.policy is None or policy_scope.signer_revoked:
        return False  # S58
    policy, since = facts.policy, max(0.0, facts.head_expired_for_s)
    if since >= policy.max_duration_s:
        return False  # S57
    allowed_by = {
        "start_service": "continue_services",
        "open_session": "continue_services",
        "resolve_secret": "continue_services",
        "open_route": "preserve_routes",
        "add_peer": "reconnect_peers",
    }
    if allowed_by.get(question.action, question.action) not in policy.allow:
        return False  # S55
    is_new = question.action in allowed_by
    if is_new and (question.running_since is None or facts.head_expires_at is None):
        return False
    if is_new and question.running_since > facts.head_expires_at:
        return False
    if not is_known(question, facts):
        return False
    ttl = {
        "open_session": policy.session_ttl_s,
        "open_route": policy.route_ttl_s,
        "preserve_routes": policy.route_ttl_s,
    }
    return since < ttl.get(question.action, since + 1)


moments = st.integers(NOW - 2 * DAY, NOW + 2 * DAY)
policies = st.builds(
    Policy,
    st.frozensets(st.sampled_from(ALLOWABLE)),
    st.integers(0, 2 * DAY),
    st.integers(0, DAY),
    st.integers(0, DAY),
    st.booleans(),
)
held_scopes = st.builds(
    HeldScope, moments, st.integers(1, 3), st.booleans(),
    st.builds(Grants, *(st.frozensets(st.sampled_from(["web", "north", "node-b", "vault:x"])) for _ in range(5))),
)  # fmt: skip
facts_drawn = st.builds(
    GateFacts,
    cause=st.none() | st.sampled_from(["revoked", "scope_expired"]),
    head_expires_at=st.none() | moments,
    head_expired_for_s=st.floats(-DAY, 2 * DAY),
    scopes=st.dictionaries(st.sampled_from([*SCOPES, "qos_policy"]), held_scopes),
    policy=st.none() | policies,
    revocations=st.builds(
        Revocations, node_ids=st.frozensets(st.just("node-b")), service_ids=st.frozensets(st.just("web"))
    ),
    authority_epoch=st.integers(0, 3),
    confirmed=st.booleans(),
    running=st.frozensets(st.sampled_from(["web", "north"])),
)
questions = st.builds(
    Question,
    st.sampled_from([*RULES, *sorted(FORBIDDEN), "fly"]),
    st.none() | st.sampled_from([*SCOPES, "elsewhere"]),
    st.none() | st.sampled_from(["web", "north", "node-b", "vault:x", "unknown"]),
    st.none() | moments,
)


@examples(200)
@given(questions, facts_drawn, moments)
def test_it_never_allows_more_than_a_naive_reading(question, facts, now):
    """rules S55..S58."""
    answer = may(question, facts, now)
    if answer.allowed:
        assert naive(question, facts, now)
        assert answer.mode is not Mode.FENCED
        assert answer.until is None or answer.until >= int(now)


@examples(100)
@given(questions, facts_drawn, moments, st.none() | moments)
def test_a_claim_gives_no_more_than_what_goes_on_has_without_it(question, facts, now, claim):
    """Whatever a caller says of since when: it narrows what goes on, and new things become it at most."""
    goes_on = {
        "start_service": "continue_services",
        "open_session": "continue_services",
        "open_route": "preserve_routes",
        "add_peer": "reconnect_peers",
    }
    claimed = replace(question, running_since=claim)
    if not may(claimed, facts, now).allowed:
        return
    if question.action == "resolve_secret":
        assert facts.head_is_fresh(now) or facts.running
        return
    unclaimed = replace(claimed, action=goes_on.get(question.action, question.action), running_since=None)
    assert facts.head_is_fresh(now) or may(unclaimed, facts, now).allowed


@examples(100)
@given(questions, facts_drawn, moments, st.integers(0, DAY))
def test_until_never_promises_too_much(question, facts, now, later):
    """What is allowed is refused at `until` at the latest, if nothing new has come (rules S59)."""
    answer = may(question, facts, now)
    if answer.allowed and answer.until is not None and answer.until > now:
        moment = answer.until + later
        then = replace(facts, head_expired_for_s=max(0.0, facts.head_expired_for_s) + (moment - now))
        if facts.head_is_fresh(now):
            return  # what the policy says after the head's expiry is asked then
        assert not may(question, then, moment + 1).allowed


@examples(60)
@given(facts_drawn, moments)
def test_a_fenced_node_allows_nothing(facts, now):
    """rules A8, J41."""
    if mode(facts, now) is Mode.FENCED:
        assert not any(may(Question(action), facts, now).allowed for action in RULES)
        assert GateReason.OK not in {may(Question(action), facts, now).reason for action in RULES}


@pytest.mark.parametrize("facts", [FRESH, DARK])
@pytest.mark.parametrize(("action", "resource", "since", "_fresh", "_dark"), TABLE)
def test_with_unconfirmed_roots_nothing_new_begins(action, resource, since, _fresh, _dark, facts):
    """threats D-19: in no mode and whatever is claimed; what is not new is as it is with confirmed ones"""
    question = Question(action, None, resource, since)
    answer = may(question, replace(facts, roots_confirmed=False), NOW)
    if action in RULES and RULES[action].new:
        assert (answer.allowed, answer.reason) == (False, GateReason.ROOTS_UNCONFIRMED)
    else:
        assert answer == may(question, facts, NOW)


def test_a_states_cause_stands_before_unconfirmed_roots():
    assert reason("start_service", replace(FRESH, roots_confirmed=False, cause="no_head")) == "no_head"
    assert reason("assign_role", replace(FRESH, roots_confirmed=False)) == "forbidden_in_degraded"

"""The table of states, row by row (rules A1..A9), and its order."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.state import node_state
from agent.state.node_state import CLOSED, NodeFacts, State, assess, changes_at, degradation_start, gate_facts
from snapshot import degraded
from snapshot.degraded import HeldScope
from snapshot.grants import POLICY_SCOPE, Policy

NOW = 1_800_000_000.0
POLICY = Policy(frozenset({"continue_services"}), 3600, 600, 600, allow_unconfirmed_start=False)
SCOPES = {
    name: HeldScope(expires_at=int(NOW) + 1000, authority_epoch=1)
    for name in ("node_bootstrap", "trust_bundle", POLICY_SCOPE, "route_policy")
}
FRESH = degraded.GateFacts(head_expires_at=int(NOW) + 100, scopes=SCOPES, policy=POLICY)
STALE = replace(FRESH, head_expires_at=int(NOW) - 10, head_expired_for_s=10.0)
MEMBER = NodeFacts(
    member=True,
    bootstrap_accepted=True,
    head_accepted=True,
    listed=frozenset({"route_policy", "node_bootstrap"}),
    gate=FRESH,
)
JUST_JOINED = replace(
    MEMBER, head_accepted=False, listed=frozenset(), gate=replace(FRESH, head_expires_at=None, policy=None)
)


def without(facts, *scopes):
    left = {name: scope for name, scope in facts.gate.scopes.items() if name not in scopes}
    return replace(facts, gate=replace(facts.gate, scopes=left))


def expired(facts, *scopes):
    over = {name: replace(facts.gate.scopes[name], expires_at=int(NOW)) for name in scopes}
    return replace(facts, gate=replace(facts.gate, scopes={**facts.gate.scopes, **over}))


TABLE = [
    # rules A2, A3
    (NodeFacts(), State.UNENROLLED, "not_enrolled"),
    (NodeFacts(joining=True), State.JOINING, "joining"),
    (NodeFacts(joining=True, refusal="wrong_site"), State.UNENROLLED, "wrong_site"),
    # rules A4, K27
    (replace(MEMBER, bootstrap_accepted=False), State.WAITING, "no_bootstrap"),
    (replace(MEMBER, other_cluster=True), State.WAITING, "token_of_another_cluster"),
    # rules A3: nothing has expired yet, so it is not fenced for want of a policy
    (JUST_JOINED, State.WAITING, "no_head"),
    (without(JUST_JOINED, POLICY_SCOPE, "route_policy"), State.WAITING, "no_head"),
    (replace(JUST_JOINED, bootstrap_accepted=False), State.WAITING, "no_bootstrap"),
    (replace(JUST_JOINED, head_accepted=True), State.FENCED, "no_degraded_policy"),  # it was lost
    # rules A5
    (MEMBER, State.ACTIVE, ""),
    (expired(MEMBER, "route_policy"), State.RECOVERING, "scope_expired"),
    # rules A6
    (replace(MEMBER, gate=STALE), State.DEGRADED, "head_expired"),
    # rules A7
    (replace(MEMBER, behind=frozenset({"route_policy"})), State.RECOVERING, "node_behind"),
    (replace(MEMBER, lost=frozenset({"route_policy"})), State.RECOVERING, "store_regressed"),
    (replace(MEMBER, lost=frozenset({"gone_policy"})), State.ACTIVE, ""),
    (replace(MEMBER, on_previous=frozenset({"route_policy"})), State.RECOVERING, "running_on_previous"),
    (replace(MEMBER, gaps=frozenset({"route_policy"})), State.RECOVERING, "version_gap"),
    (without(MEMBER, "route_policy"), State.RECOVERING, "scope_missing"),
    (without(MEMBER, "trust_bundle"), State.RECOVERING, "scope_missing"),
    (replace(MEMBER, gate=STALE, gaps=frozenset({"route_policy"})), State.RECOVERING, "version_gap"),
    # rules A8, S58
    (expired(MEMBER, "node_bootstrap"), State.FENCED, "scope_expired"),
    (expired(MEMBER, "trust_bundle"), State.FENCED, "scope_expired"),
    (replace(MEMBER, gate=replace(STALE, policy=None)), State.FENCED, "no_degraded_policy"),
    (without(replace(MEMBER, gate=STALE), POLICY_SCOPE), State.FENCED, "no_degraded_policy"),
    (expired(replace(MEMBER, gate=STALE), POLICY_SCOPE), State.FENCED, "no_degraded_policy"),
    (replace(MEMBER, gate=replace(STALE, head_expired_for_s=3600.0)), State.FENCED, "degraded_limit"),
    (replace(MEMBER, gate=replace(STALE, confirmed=False)), State.FENCED, "unconfirmed_start"),
    (replace(MEMBER, gate=replace(FRESH, head_expires_at=None)), State.DEGRADED, "head_expired"),
    (replace(MEMBER, clock_regressed=True), State.FENCED, "clock_regressed"),
    # rules A9
    (replace(MEMBER, revoked=True), State.REVOKED, "revoked"),
]


@pytest.mark.parametrize(("facts", "state", "cause"), TABLE, ids=range(len(TABLE)))
def test_the_table(facts, state, cause):
    """rules A2, A3, A4, A5, A6, A7, A8, A9, S58"""
    found = assess(facts, NOW)
    assert (found.state, found.cause) == (state, cause)


flags = st.fixed_dictionaries(
    {name: st.booleans() for name in ("other_cluster", "bootstrap_accepted", "revoked", "clock_regressed")}
)


@given(flags, st.sampled_from([FRESH, STALE]), st.sampled_from([frozenset(), frozenset({"route_policy"})]))
def test_the_first_that_applies_is_the_state(given_flags, gate, behind):
    """rules A1, J40"""
    facts = replace(MEMBER, gate=gate, behind=behind, **given_flags)
    order = [
        (State.REVOKED, facts.revoked),
        (State.WAITING, facts.other_cluster or not facts.bootstrap_accepted),
        (State.FENCED, facts.clock_regressed),
        (State.RECOVERING, bool(behind)),
        (State.DEGRADED, gate is STALE),
        (State.ACTIVE, True),
    ]
    assert assess(facts, NOW).state == next(state for state, holds in order if holds)
    assert gate_facts(facts, NOW).cause == (assess(facts, NOW).cause if assess(facts, NOW).is_closed else None)


def test_nothing_new_is_authorised_in_a_closed_state():
    """rules A8, A9: the gate is told the cause"""
    question = degraded.Question("resolve_secret")
    for facts, state, cause in TABLE:
        answer = degraded.may(question, gate_facts(facts, NOW), NOW)
        if state in CLOSED:
            assert (answer.allowed, answer.reason) == (False, cause)


def test_revocation_is_shown_before_other_reasons():
    """rules J40"""
    facts = replace(MEMBER, gate=replace(STALE, policy=None), clock_regressed=True, revoked=True, other_cluster=True)
    assert assess(facts, NOW).cause == "revoked"


def test_time_alone_changes_the_state_at_the_expiry_of_the_head():
    """rules X25: the timer wakes then"""
    assert changes_at(MEMBER, NOW) == NOW + 100
    assert assess(MEMBER, NOW + 99).state is State.ACTIVE
    assert assess(MEMBER, NOW + 100).state is State.DEGRADED
    stale = replace(MEMBER, gate=STALE)
    assert changes_at(stale, NOW) == NOW + 1000
    short = replace(stale, gate=replace(STALE, policy=replace(POLICY, max_duration_s=60)))
    assert changes_at(short, NOW) == NOW + 50


def test_degraded_since_is_when_the_head_expired():
    assert degradation_start(MEMBER, NOW) is None
    assert degradation_start(replace(MEMBER, gate=STALE), NOW) == NOW - 10


def test_every_row_has_its_state():
    assert [state for state, _ in node_state.ROWS] == [
        State.REVOKED,
        State.WAITING,
        State.FENCED,
        State.RECOVERING,
        State.DEGRADED,
    ]

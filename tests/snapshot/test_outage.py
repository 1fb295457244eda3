"""What is foreseen of an outage is what the gate answers at each moment of it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshot.degraded import Mode, may, mode
from snapshot.manifest import Revocations
from snapshot.outage import Outage, facts_at, foresee, uses_of
from tests.examples import examples
from tests.snapshot.test_degraded import DAY, FRESH, HOUR, NOW, POLICY, SCOPES, facts_drawn

NAMED = {
    "service_assignment": {"services": frozenset({"web", "db"})},
    "route_policy": {"routes": frozenset({"north"})},
    "peer_directory": {"peers": frozenset({"node-b"})},
    "storage_directory": {"endpoints": frozenset({"https://s:1"})},
}
LONG = Outage(NOW, 30 * DAY)


def foreseen(facts=FRESH, outage=LONG):
    return foresee(facts, uses_of(NAMED, facts, outage.began), outage)


def ends(facts=FRESH, outage=LONG):
    """What stops -> after how many seconds, and why."""
    return {(stop.what, *stop.names): (stop.after_s, stop.reason) for stop in foreseen(facts, outage).stops}


def test_each_thing_stops_by_its_own_bound():
    """rules S57: head in 10 min, sessions for half an hour after it, routes for an hour, all else for six"""
    assert ends() == {
        **{(f"new {what}",): (600, "not_in_policy") for what in ("services", "sessions", "routes", "peers", "secrets")},
        ("sessions", "db", "web"): (600 + HOUR // 2, "degraded_limit"),
        ("routes", "north"): (600 + HOUR, "degraded_limit"),
        ("services", "db", "web"): (600 + 6 * HOUR, "degraded_limit"),
        ("peers", "node-b"): (600 + 6 * HOUR, "degraded_limit"),
        ("storage endpoints", "https://s:1"): (600 + 6 * HOUR, "degraded_limit"),
    }
    states = [(state.after_s, state.mode, state.cause) for state in foreseen().states]
    assert states == [
        (0, "normal", ""), (600, "degraded", "head_expired"), (600 + 6 * HOUR, "fenced", "degraded_limit"),
        (7 * DAY, "fenced", "scope_expired"),
    ]  # fmt: skip


def test_without_a_policy_all_stops_with_the_head():
    """rules S58"""
    assert set(ends(replace(FRESH, policy=None)).values()) == {(600, "no_degraded_policy")}
    assert set(ends(replace(FRESH, policy=replace(POLICY, allow=frozenset()))).values()) == {(600, "not_in_policy")}


@pytest.mark.parametrize(("restart_s", "leave", "expected"), [
    (HOUR, False, (HOUR, "unconfirmed_start")),  # after the head's end: nobody has confirmed anything since
    (300, False, (600 + 6 * HOUR, "degraded_limit")),  # while it is fresh: it was seen so
    (HOUR, True, (600 + 6 * HOUR, "degraded_limit")),
    (None, False, (600 + 6 * HOUR, "degraded_limit")),
])  # fmt: skip
def test_a_restart_in_the_middle(restart_s, leave, expected):
    """rules A15"""
    facts = replace(FRESH, policy=replace(POLICY, allow_unconfirmed_start=leave))
    assert ends(facts, replace(LONG, restart_s=restart_s))["services", "db", "web"] == expected


def test_a_scope_that_expires_first_ends_what_rests_on_it():
    """rules S57, A8"""
    short = {**SCOPES, "route_policy": replace(SCOPES["route_policy"], expires_at=NOW + 900)}
    assert ends(replace(FRESH, scopes=short))["routes", "north"] == (900, "scope_expired")
    required = {**SCOPES, "node_bootstrap": replace(SCOPES["node_bootstrap"], expires_at=NOW + 900)}
    last = foreseen(replace(FRESH, scopes=required)).states[-1]
    assert (last.after_s, last.mode, last.cause) == (900, "fenced", "scope_expired")


def test_what_is_revoked_already_stops_no_more():
    facts = replace(FRESH, revocations=Revocations(service_ids=frozenset({"web"}), node_ids=frozenset({"node-b"})))
    assert ("services", "db") in ends(facts)
    assert not any("web" in names or "node-b" in names for names in ends(facts))


def test_an_outage_that_ends_earlier_shows_less():
    assert foreseen(outage=Outage(NOW, 599)).stops == ()
    assert {stop.reason for stop in foreseen(outage=Outage(NOW, 600)).stops} == {"not_in_policy"}


outages = st.builds(Outage, st.just(NOW), st.integers(1, 3 * DAY), st.none() | st.integers(0, 3 * DAY))


@examples(60)
@given(facts_drawn, outages, st.lists(st.integers(0, 3 * DAY), max_size=8))
def test_between_what_is_foreseen_no_answer_changes(facts, outage, after):
    """The moments that are looked at are enough: at any other one the gate says what was foreseen."""
    facts = replace(facts, head_expired_for_s=0.0)
    uses = list(uses_of(NAMED, facts, outage.began))
    for use in uses:
        alone = foresee(facts, [use], outage)
        first = may(use.question, facts_at(facts, outage, outage.began), outage.began).allowed
        for seconds in (one for one in after if one <= outage.lasts_s):
            now = outage.began + seconds
            stopped = [stop for stop in alone.stops if stop.after_s <= seconds]
            assert may(use.question, facts_at(facts, outage, now), now).allowed == (first and not stopped)
    for seconds in (one for one in after if one <= outage.lasts_s):
        now = outage.began + seconds
        state = [each for each in foresee(facts, uses, outage).states if each.after_s <= seconds][-1]
        assert state.mode == mode(facts_at(facts, outage, now), now)
        assert (state.cause == "") == (state.mode == Mode.NORMAL)

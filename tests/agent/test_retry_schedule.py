"""Refused documents are not asked for again at once; those that nobody gives, less and less often; none twice in a
second, whatever is asked, refused, cleared or listed in between.
"""

import math

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agent.state.plan import WantedScope
from agent.update.retry_schedule import AGAIN_S, HOUR_S, MOST_EACH, PACE, PutOffs, RetryKey, Why
from snapshot.manifest import ScopeVersion
from tests.examples import examples
from tests.fakes.cluster import Cluster
from wire.backoff import LEAST_S

HASH = "sha256:" + "0" * 64
ROUTES = RetryKey("route_policy", (1, 1), HASH)
NEWER = RetryKey("route_policy", (1, 2), HASH)


class Time:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def put_offs():
    time = Time()
    return PutOffs(lambda low, high: high, time), time


def test_a_refused_one_rests_and_another_is_asked_for():
    puts, time = put_offs()
    puts.put_off(ROUTES, Why.VERIFIER)
    assert puts.holds(ROUTES)
    assert not puts.holds(NEWER), "another version is another matter, also with the same content"
    assert not puts.holds(RetryKey("route_policy", (1, 1), "sha256:" + "1" * 64))
    assert not puts.holds(RetryKey("qos_policy", (1, 1), HASH))
    time.now += puts.left_s(ROUTES)
    assert not puts.holds(ROUTES)


def test_an_increment_and_the_whole_are_one_cause():
    """rules S27: both are what the head lists, though each has an id of its own"""
    cluster = Cluster()
    cluster.snapshot({"routes": {"a": 1}})
    increment = cluster.increment(sets={"routes": {"a": 2}}, snapshot_id="by-itself").envelope
    sections = cluster.states["route_policy"].sections
    whole = cluster.snapshot(sections, config_version=increment.config_version, snapshot_id="another").envelope
    listed = ScopeVersion(*whole.version, whole.state_hash, whole.snapshot_id)
    assert (
        RetryKey.of_document(increment)
        == RetryKey.of_document(whole)
        == RetryKey.of(WantedScope("route_policy", listed))
    )


def test_what_nobody_gives_is_asked_for_ever_less_often():
    """rules X27"""
    puts, time = put_offs()
    rests = []
    for _ in range(9):
        puts.put_off(ROUTES, Why.SOURCES)
        rests.append(puts.left_s(ROUTES))
        time.now += rests[-1]
    assert rests[:4] == [6, 11, 21, 41]
    assert rests[-2:] == [AGAIN_S, AGAIN_S]
    puts.put_off(NEWER, Why.SOURCES)
    assert puts.left_s(NEWER) == 6, "a new document begins anew"


def test_a_refusal_is_tried_again_ever_less_often_and_at_once_when_it_is_judged_by_something_else():
    puts, time = put_offs()
    tried = 0
    end = time.now + 24 * HOUR_S
    while time.now < end:
        puts.put_off(ROUTES, Why.VERIFIER)
        tried += 1
        time.now += puts.left_s(ROUTES)
    assert tried < 30
    puts.put_off(ROUTES, Why.VERIFIER)
    puts.put_off(NEWER, Why.VALIDATOR)
    puts.reconsider()
    assert puts.left_s(ROUTES) == LEAST_S
    assert math.isinf(puts.left_s(NEWER)), "a validator does not judge by it"


def test_what_a_validator_refuses_is_offered_again_only_when_somebody_asks():
    puts, time = put_offs()
    puts.put_off(ROUTES, Why.VALIDATOR)
    time.now += 1000 * HOUR_S
    assert puts.holds(ROUTES)
    assert puts.rest_s() == AGAIN_S
    assert not puts.holds(NEWER)
    puts.clear()
    assert not puts.holds(ROUTES)


def test_a_validator_without_a_judgement_is_asked_again_seldom():
    puts, time = put_offs()
    puts.put_off(ROUTES, Why.TIMED_OUT)
    assert puts.left_s(ROUTES) == AGAIN_S + LEAST_S
    time.now += AGAIN_S + LEAST_S
    assert not puts.holds(ROUTES)
    puts.put_off(ROUTES, Why.TIMED_OUT)
    assert puts.left_s(ROUTES) > AGAIN_S + LEAST_S


def test_who_asks_in_a_loop_gets_one_attempt_a_second():
    """rules P14: a hint cuts a back-off short, and not the floor"""
    puts, time = put_offs()
    tried = 0
    for _ in range(1000):
        puts.clear()
        if not puts.holds(ROUTES):
            puts.put_off(ROUTES, Why.VALIDATOR)
            tried += 1
        time.now += 0.01
    assert tried <= 10 / LEAST_S


def test_what_waits_for_its_time_is_not_asked_for_before():
    """rules X26"""
    puts, time = put_offs()
    puts.wait(ROUTES, 500)
    assert (puts.left_s(ROUTES), puts.has_failed(ROUTES)) == (500, False)
    puts.wait(ROUTES, 400)
    assert puts.left_s(ROUTES) == 500
    time.now += 500
    puts.put_off(ROUTES, Why.VERIFIER)
    assert puts.has_failed(ROUTES)
    puts.wait(ROUTES, 1)
    assert puts.left_s(ROUTES) == AGAIN_S + LEAST_S


def test_a_head_that_goes_to_and_fro_tries_nothing_anew():
    puts, time = put_offs()
    causes = [RetryKey("route_policy", (1, number), HASH) for number in range(MOST_EACH)]
    for cause in causes:
        puts.put_off(cause, Why.VALIDATOR)
        time.now += 60
    assert all(puts.holds(cause) for cause in causes)


CAUSES = [RetryKey(scope, (1, version), HASH) for scope in ("route_policy", "qos_policy") for version in range(25)]


class Schedule(RuleBasedStateMachine):
    """An agent that tries whatever it may, as soon as it may, while everything around it moves."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        self.share = 0.0
        self.puts = PutOffs(lambda low, high: low + self.share * (high - low), self.time)
        self.tried: dict[RetryKey, float] = {}
        self.listed = CAUSES[0]
        self.kept_out: dict[RetryKey, int] = {}  # and how many others of its scope were tried since

    @rule(cause=st.sampled_from(CAUSES))
    def head_lists(self, cause):
        self.listed = cause

    @precondition(lambda self: not self.puts.holds(self.listed))
    @rule(why=st.sampled_from(Why))
    def tried_in_vain(self, why):
        last = self.tried.get(self.listed, -math.inf)
        assert self.time.now - last >= LEAST_S, "twice within the floor"
        assert self.listed not in self.kept_out, "offered again to a validator that has said no"
        self.tried[self.listed] = self.time.now
        mine = self.listed.scope
        counted = {one: count + (one.scope == mine) for one, count in self.kept_out.items()}
        self.kept_out = {one: count for one, count in counted.items() if count < MOST_EACH}
        self.puts.put_off(self.listed, why)
        if why in PACE:
            assert LEAST_S <= self.puts.left_s(self.listed) <= max(most for _, most in PACE.values())
        else:
            self.kept_out[self.listed] = 0

    @rule()
    def somebody_asks(self):
        self.puts.clear()
        self.kept_out.clear()

    @rule()
    def trust_has_changed(self):
        self.puts.reconsider()

    @rule(seconds=st.one_of(st.floats(0, 2), st.floats(0, 10_000)), share=st.floats(0, 1))
    def time_passes(self, seconds, share):
        self.time.now += seconds
        self.share = share

    @invariant()
    def the_next_look_is_neither_now_nor_far_off(self):
        assert 0 < self.puts.rest_s() <= AGAIN_S

    @invariant()
    def what_is_remembered_is_bounded(self):
        lately = sum(self.time.now - at <= LEAST_S for at in self.tried.values())
        assert len(self.puts._rests) <= 2 * (MOST_EACH + 1) + lately


TestSchedule = Schedule.TestCase
TestSchedule.settings = examples(60, stateful_step_count=60)

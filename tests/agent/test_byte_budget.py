"""What bounds a relay's bandwidth: how much in a time, and whose turn it is."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from agent.relay.byte_budget import FairBucket, TokenBucket
from tests.examples import examples


def test_a_bucket_is_full_at_the_start_and_fills_with_time():
    bucket = TokenBucket(10, 100)
    assert bucket.room(50) == 100
    bucket.take(130, 50)
    assert bucket.room(50) == -30, "what was begun is finished, and paid before the next"
    assert bucket.wait_s(10, 50) == 4
    assert (bucket.room(53), bucket.room(54)) == (0, 10)
    assert bucket.room(52) == 10, "a clock that goes back gives nothing twice"
    assert bucket.room(10_000) == 100
    assert bucket.wait_s(1_000, 10_000) == 0, "more than it holds is given out of a full one"


def drain(bucket: FairBucket, seconds: float, step: float = 0.1) -> list[object]:
    """Who was granted a piece, in that order."""
    found, now = [], 0.0
    while now <= seconds:
        found += [ticket.asker for ticket in bucket.grant(now)]
        now += step
    return found


def test_who_asks_most_has_no_more_than_the_others():
    bucket = FairBucket(TokenBucket(10, 10))
    for _ in range(50):
        bucket.enter("greedy", 10)
    for name in ("b", "c"):
        for _ in range(5):
            bucket.enter(name, 10)
    assert Counter(drain(bucket, 14))["greedy"] == 5
    assert bucket.waiting == 45


def test_who_comes_new_waits_for_nobodys_backlog_and_has_saved_nothing_up():
    bucket = FairBucket(TokenBucket(10, 10))
    for _ in range(20):
        bucket.enter("a", 10)
    drain(bucket, 5)
    bucket.enter("late", 10)
    bucket.enter("late", 10)
    assert [ticket.asker for at in (6, 7, 8, 9) for ticket in bucket.grant(at)] in (
        ["late", "a", "late", "a"], ["a", "late", "a", "late"],
    )  # fmt: skip


def test_who_goes_is_passed_over():
    bucket = FairBucket(TokenBucket(10, 10))
    first, second = bucket.enter("a", 10), bucket.enter("b", 10)
    bucket.leave(first)
    assert bucket.grant(0) == [second]
    assert (bucket.waiting, bucket.wait_s(0)) == (0, float("inf"))


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 300), st.floats(0, 3)), min_size=1, max_size=40),
)
def test_never_more_than_the_rate_and_everybody_has_his_turn(asked):
    """Whatever is asked in whatever order: burst and rate hold at each moment, and nothing waits for ever"""
    rate, most, now, given_out = 50.0, 100.0, 0.0, 0.0
    bucket = FairBucket(TokenBucket(rate, most))
    waiting = [(asker, size, pause) for asker, size, pause in asked]
    for asker, size, pause in waiting:
        now += pause
        bucket.enter(asker, size)
        given_out += sum(ticket.size for ticket in bucket.grant(now))
        largest = max(size for _, size, _ in waiting)
        assert given_out <= most + rate * now + largest
    for _ in range(len(waiting) + 1):
        now += min(1e6, bucket.wait_s(now)) if bucket.waiting else 0
        bucket.grant(now)
    assert bucket.waiting == 0

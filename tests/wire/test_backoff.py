"""When to ask again."""

import random

from hypothesis import given
from hypothesis import strategies as st

from wire.backoff import LEAST_S, BackOff, spread


def highest(low: float, high: float) -> float:
    return high


def test_it_grows_to_the_cap_and_success_resets_it() -> None:
    """rules X27, P14: the first try is at once; full jitter after the cap; reset by success."""
    backoff = BackOff(highest)
    assert [backoff.note_failure() for _ in range(11)] == [2, 3, 5, 9, 17, 33, 65, 129, 257, 300, 300]
    backoff.note_success()
    assert backoff.note_failure() == 2


def test_chance_is_above_the_floor() -> None:
    """Who draws nothing waits for the floor all the same, and callers that failed together do not all wait for it."""
    backoff = BackOff(lambda low, high: low)
    assert {backoff.note_failure() for _ in range(30)} == {LEAST_S}
    assert {BackOff(lambda low, high: low, cap_s=0.5).note_failure(), BackOff(highest, cap_s=0.5).note_failure()} == {
        LEAST_S
    }
    draw = random.Random(3)
    assert len({BackOff(draw.uniform).note_failure() for _ in range(100)}) == 100


@given(st.integers(0, 10_000), st.integers(0, 2**32), st.one_of(st.none(), st.floats(0, 3600)))
def test_it_never_comes_sooner_than_asked_nor_much_later(failures: int, seed: int, asked: float | None) -> None:
    """threats N10, D-48: Retry-After is honoured, and callers are spread above it."""
    backoff = BackOff(random.Random(seed).uniform, failures=failures)
    least = max(LEAST_S, asked or 0.0)
    assert least <= backoff.note_failure(asked) <= least + 300


def test_callers_are_spread() -> None:
    """Full jitter: of a thousand callers after the cap, a tenth comes in each tenth of the time."""
    draw = random.Random(7)
    delays = [BackOff(draw.uniform, failures=20).note_failure() for _ in range(1000)]
    for tenth in range(10):
        assert 60 < sum(30 * tenth <= delay < 30 * (tenth + 1) for delay in delays) < 140


def test_an_interval_with_jitter() -> None:
    assert spread(30, 0.2, highest) == 36
    assert spread(30, 0.2, lambda low, high: low) == 24

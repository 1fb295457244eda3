"""When to ask again."""

import random

from hypothesis import given
from hypothesis import strategies as st

from wire.backoff import BackOff, spread


def highest(low: float, high: float) -> float:
    return high


def test_it_grows_to_the_cap_and_success_resets_it() -> None:
    """rules X27, P14: the first try is at once; full jitter after the cap; reset by success."""
    backoff = BackOff(highest)
    assert [backoff.failed() for _ in range(11)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    backoff.succeeded()
    assert backoff.failed() == 1


@given(st.integers(0, 10_000), st.integers(0, 2**32), st.one_of(st.none(), st.floats(0, 3600)))
def test_it_never_comes_sooner_than_asked_nor_much_later(failures: int, seed: int, asked: float | None) -> None:
    """threats N10, D-48: Retry-After is honoured, and callers are spread above it."""
    backoff = BackOff(random.Random(seed).uniform, failures=failures)
    least = asked or 0.0
    assert least <= backoff.failed(asked) <= least + 300


def test_callers_are_spread() -> None:
    """Full jitter: of a thousand callers after the cap, a tenth comes in each tenth of the time."""
    draw = random.Random(7)
    delays = [BackOff(draw.uniform, failures=20).failed() for _ in range(1000)]
    for tenth in range(10):
        assert 60 < sum(30 * tenth <= delay < 30 * (tenth + 1) for delay in delays) < 140


def test_an_interval_with_jitter() -> None:
    assert spread(30, 0.2, highest) == 36
    assert spread(30, 0.2, lambda low, high: low) == 24

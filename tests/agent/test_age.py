"""The age of a document that is dated back: never less than is proved, never more than can be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.base.age import age_s
from agent.base.guarded_clock import SKEW_S

NOW = 1_900_000_000.0


@pytest.mark.parametrize(("issued_ago", "taken_ago", "expected"), [
    (300, 0, 0),  # made just now, dated back, taken at once
    (360, 60, 60),
    (1_500, 1_200, 1_200),
    (1_500, 0, 1_200),  # withheld for twenty minutes, and let through just now
    (1_500, None, 1_200),
    (60, 50, 50),  # a signer that does not date back
    (60, 500, 60),  # a clock that was set since: it cannot be older than its own date
    (-30, 0, 0),  # within the skew, in the future
    (300, -90, 0),  # taken while the clock ran ahead
])  # fmt: skip
def test_the_age(issued_ago, taken_ago, expected):
    taken_at = None if taken_ago is None else NOW - taken_ago
    assert age_s(NOW - issued_ago, taken_at, NOW) == expected


# Parts of a second that a time of today is added to without rounding.
seconds = st.integers(-86_400 << 10, 86_400 << 10).map(lambda parts: parts / 1024)


@given(seconds, st.none() | seconds, seconds)
def test_a_source_that_withholds_never_looks_fresh(issued, taken, waited):
    """However late it was taken, it is as old as its date proves; later it is never younger."""
    found = age_s(NOW + issued, None if taken is None else NOW + taken, NOW)
    assert max(0, -issued - SKEW_S - 1) <= found <= max(0, -issued)
    later = age_s(NOW + issued, None if taken is None else NOW + taken, NOW + abs(waited))
    assert later >= found

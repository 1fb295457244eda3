"""Time slots of a node, told as spans of time."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from coordinator.base.spans import SILENT, Slot, spans
from wire.operators.fleet_answers import Span

START = 1_800_000_000.0  # where a slot of 300 s begins
HOW = {"slot_s": 300, "quiet_s": 600, "known_from": START + 240}


def slot(minutes: float, state: str = "active", mode: str = "normal", grade: str = "fresh") -> Slot:
    return Slot(START + minutes * 60, state, mode, grade)


def told(*slots: Slot, now: float) -> list[tuple[str, float, float]]:
    """State, since and until in minutes, the oldest first."""
    found = spans(slots, now=START + now * 60, **HOW)[::-1]
    return [(each.state, (each.since - START) / 60, (each.until - START) / 60) for each in found]


def test_what_stays_is_one_span() -> None:
    assert told(slot(4), slot(9), slot(14), now=15) == [("active", 4, 15)]
    assert told(now=15) == []


def test_the_first_begins_with_its_slot_or_with_the_node() -> None:
    """A slot keeps the last report: the first one of a new node says no more than when it was heard last."""
    joined = {**HOW, "known_from": START + 100}
    assert [each.since for each in spans([slot(4)], now=START + 250, **joined)] == [START + 100]
    assert [each.since for each in spans([slot(9)], now=START + 550, **joined)] == [START + 300]
    assert [each.since for each in spans([slot(4)], now=START + 250, **{**HOW, "known_from": START + 900})] == [
        START + 240
    ]


def test_what_changed_begins_with_its_slot() -> None:
    """rules A4: it was degraded from the third slot on, for two of them."""
    degraded = [slot(minutes, "degraded", "degraded", "expired") for minutes in (14, 19)]
    assert told(slot(4), slot(9), *degraded, slot(24), now=26) == [
        ("active", 4, 10), ("degraded", 10, 20), ("active", 20, 26),
    ]  # fmt: skip


def test_silence_is_told_between_and_at_the_end() -> None:
    assert told(slot(4), slot(34), now=50) == [("active", 4, 4), (SILENT, 4, 30), ("active", 30, 34), (SILENT, 34, 50)]
    slow = spans([slot(4), slot(34)], now=START + 50 * 60, slot_s=300, quiet_s=5_400, known_from=START)
    assert [(each.state, each.until) for each in slow] == [("active", START + 3_000)], "it reports every half hour"


def test_the_newest_stands_first_and_a_clock_that_was_set_back_breaks_nothing() -> None:
    (newest, *_) = spans([slot(4), slot(9, "degraded")], now=START, **HOW)
    assert newest == Span(START + 300, START + 540, "degraded", "normal", "fresh")


slots = st.lists(
    st.builds(slot, st.integers(0, 240), st.sampled_from(["active", "degraded"])), max_size=20, unique_by=lambda s: s.at
)


@given(slots, st.integers(0, 400))
def test_spans_follow_one_another_without_a_gap(found, minutes) -> None:
    made = spans(found, now=START + minutes * 60, **HOW)[::-1]
    assert all(each.since <= each.until for each in made)
    assert all(one.until == other.since for one, other in pairwise(made))
    assert all((one.state, one.mode) != (other.state, other.mode) for one, other in pairwise(made))
    assert {each.state for each in found} <= {each.state for each in made}

"""How long something has lasted, whatever the wall clock is set to."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.rollout.watch import GAP_S, AgeWatch
from tests.examples import examples

NOW = 1_000_000.0


def look(watch: AgeWatch, wall: float, elapsed: float, stamp: float | None) -> float | None:
    watch.begin(wall, elapsed)
    age = watch.age("bake", stamp)
    watch.end()
    return age


def test_a_restart_goes_on_where_it_was() -> None:
    assert look(AgeWatch(), NOW, 5.0, NOW - 20) == 20


def test_a_clock_that_leaps_is_no_time_that_has_passed() -> None:
    watch = AgeWatch()
    assert look(watch, NOW, 0.0, NOW) == 0
    assert look(watch, NOW + 3_600, 1.0, NOW) == 1
    assert look(watch, NOW - 3_600, 2.0, NOW) == 2


def test_what_was_not_there_at_the_last_look_is_no_older() -> None:
    """The clock leaps between the stamp and the first look that sees it."""
    watch = AgeWatch()
    assert look(watch, NOW, 0.0, None) is None
    assert look(watch, NOW + 3_601, 1.0, NOW + 0.5) == 1
    assert look(watch, NOW + 3_602, 2.0, NOW + 3_601.5) == 0.5


def test_a_stamp_of_a_clock_that_is_ahead_counts_from_now() -> None:
    watch = AgeWatch()
    assert look(watch, NOW, 0.0, NOW + 300) == 0
    assert look(watch, NOW + 7, 7.0, NOW + 300) == 7


def test_what_was_not_looked_at_may_be_of_any_age() -> None:
    """A new change asks after nodes that were last heard of days ago."""
    watch = AgeWatch()
    watch.begin(NOW, 0.0)
    watch.end()
    assert look(watch, NOW + 1, 1.0, NOW - 3_600) == 3_601


def test_what_was_so_once_lasts_until_nobody_asks() -> None:
    watch = AgeWatch()
    for elapsed, holds, expected in ((0.0, False, None), (5.0, True, 0.0), (6.0, False, 1.0), (7.0, True, 2.0)):
        watch.begin(NOW, elapsed)
        assert watch.lasts("told", holds=holds) == expected
        watch.end()
    watch.begin(NOW, 8.0)
    watch.end()
    watch.begin(NOW, 9.0)
    assert watch.lasts("told", holds=True) == 0


def test_a_look_that_failed_is_as_none() -> None:
    watch = AgeWatch()
    assert look(watch, NOW, 0.0, NOW) == 0
    watch.begin(NOW + 2, 2.0)  # and the database is away
    assert look(watch, NOW + 4, 4.0, NOW) == 4


def test_how_long_somebody_listens() -> None:
    watch = AgeWatch()
    for elapsed, expected in ((7.0, 0.0), (8.0, 1.0), (8.0 + GAP_S, 1.0 + GAP_S), (9.0 + 2 * GAP_S, 0.0)):
        watch.begin(NOW, elapsed)
        assert watch.listening_s == expected, "nobody is heard while nothing is read"
        watch.end()


@given(st.lists(st.tuples(st.floats(0.1, GAP_S), st.floats(-1e6, 1e6)), min_size=1, max_size=20))
@examples(200)
def test_no_leap_is_ever_part_of_an_age(steps: list[tuple[float, float]]) -> None:
    watch, elapsed, wall = AgeWatch(), 0.0, NOW
    assert look(watch, wall, elapsed, NOW) == 0
    for passed, leap in steps:
        elapsed, wall = elapsed + passed, wall + passed + leap
        age = look(watch, wall, elapsed, NOW)
        assert age is not None and abs(age - elapsed) < 1e-6

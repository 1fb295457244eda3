"""The guarded clock, pure: floors, regressions, and how long a head has been gone."""

from hypothesis import given
from hypothesis import strategies as st

from agent.base.guarded_clock import SKEW_S, ClockReading, OutageClock, Regression, guard
from store.base.timefloor import Boot, TimeFloor

NOW = 1_800_000_000.0
seconds = st.integers(-(10**9), 10**9).map(float)
since_then = st.integers(0, 8 * 10**9).map(lambda eighths: eighths / 8)  # exact beside a time in a double


def reading(wall=NOW, elapsed=100.0, boot="b", synchronised=True):
    return ClockReading(wall, Boot(boot, elapsed), synchronised)


def floor(time=NOW, elapsed=100.0, boot="b"):
    return TimeFloor(1, time, boot, elapsed)


@given(seconds, since_then, st.booleans())
def test_now_is_the_wall_clock_but_never_behind_the_floor(offset, since, same_boot):
    """rules A16, X9; threats D-20"""
    wall = NOW + offset
    moment = guard(reading(wall, 100.0 + since), floor(boot="b" if same_boot else "other"))
    least = NOW + since if same_boot else NOW
    assert moment.now == max(wall, least)
    assert moment.behind_s == least - wall


def test_without_a_floor_the_wall_clock_is_believed():
    moment = guard(reading(NOW - 5), None)
    assert (moment.now, moment.behind_s) == (NOW - 5, 0)


def test_an_unknown_state_counts_as_synchronised():
    """threats D-23"""
    assert guard(reading(synchronised=None), None).may_be_synchronised
    assert not guard(reading(synchronised=False), None).may_be_synchronised


def test_a_clock_is_back_beyond_the_skew_alone():
    """rules A18: both edges"""
    assert not Regression().is_met(guard(reading(NOW - SKEW_S), floor()))
    assert Regression().is_met(guard(reading(NOW - SKEW_S - 1), floor()))


def test_a_check_in_puts_up_with_the_gap_until_the_clock_goes_back_again():
    """rules A18"""
    regression, behind = Regression(), guard(reading(NOW - 5000), floor())
    assert regression.is_met(behind)
    regression.confirm(behind)
    assert not regression.is_met(behind)
    assert regression.is_met(guard(reading(NOW - 5000 - SKEW_S - 1), floor()))
    assert not regression.is_met(guard(reading(NOW), floor())), "right again"
    assert regression.is_met(behind), "and the leave is over with it"


def test_an_outage_is_timed_by_the_boot_clock():
    """rules J38, S57: wall jumps neither stretch nor shorten it"""
    outage = OutageClock()
    assert outage.outage_s("h", NOW + 50, guard(reading(NOW, 100), None)) == 0
    assert outage.outage_s("h", NOW + 50, guard(reading(NOW + 60, 160), None)) == 10
    assert outage.outage_s("h", NOW + 50, guard(reading(NOW + 10**6, 170), None)) == 20, "jumped ahead"
    assert outage.outage_s("h", NOW + 50, guard(reading(NOW + 70, 180), None)) == 30, "set right"


def test_an_outage_that_begins_with_a_jump_begins_at_nothing():
    """rules A19, J38"""
    outage = OutageClock()
    outage.outage_s("h", NOW + 1800, guard(reading(NOW, 100), None))
    assert outage.outage_s("h", NOW + 1800, guard(reading(NOW + 10**6, 101), None)) == 0


def test_an_outage_ends_with_a_fresh_head_and_a_new_head_is_timed_anew():
    outage = OutageClock()
    assert outage.outage_s("a", NOW - 100, guard(reading(NOW, 100), None)) == 100
    assert outage.outage_s("b", NOW + 10, guard(reading(NOW, 100), None)) == 0
    assert outage.running is None
    assert outage.outage_s("b", NOW + 10, guard(reading(NOW + 15, 115), None)) == 5


def test_an_outage_goes_on_across_a_reboot_by_the_guarded_clock():
    """rules J38: the boot clock knows nothing of the time between"""
    outage = OutageClock()
    outage.outage_s("h", NOW - 100, guard(reading(NOW, 100), None))
    kept = OutageClock(running=outage.running)
    assert kept.outage_s("h", NOW - 100, guard(reading(NOW + 900, 5, boot="next"), None)) == 1000


def test_an_outage_without_a_head_is_timed_from_when_that_was_seen():
    """rules S57: a head that was lost to damage leaves no outage without an end"""
    outage = OutageClock()
    assert outage.outage_s("", None, guard(reading(NOW, 100), None)) == 0
    assert outage.outage_s("", None, guard(reading(NOW + 60, 160), None)) == 60
    kept = OutageClock(running=outage.running)
    assert kept.outage_s("", None, guard(reading(NOW + 900, 5, boot="next"), None)) == 900
    assert kept.outage_s("h", NOW + 1000, guard(reading(NOW + 901, 6, boot="next"), None)) == 0
    assert kept.running is None


def test_an_outage_goes_on_when_its_head_is_lost():
    """rules S57: nor does the loss begin it anew"""
    outage = OutageClock()
    assert outage.outage_s("h", NOW - 100, guard(reading(NOW, 100), None)) == 100
    assert outage.outage_s("", None, guard(reading(NOW + 60, 160), None)) == 160


def test_suspend_counts():
    """rules J38; threats D-22: the boot clock runs on"""
    outage = OutageClock()
    outage.outage_s("h", NOW + 10, guard(reading(NOW, 0), None))
    assert outage.outage_s("h", NOW + 10, guard(reading(NOW + 7210, 7210), None)) == 7200

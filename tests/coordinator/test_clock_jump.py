"""A wall clock that leaps ahead of the time that has passed (rules J38, K47)."""

from dataclasses import dataclass

from coordinator.base.clock_jump import HOLD_S, TOLERATED_S, Leap


@dataclass
class Clocks:
    """A wall clock, and the time since the boot."""

    wall: float = 1_800_000_000.0
    since_boot: float = 5_000.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.since_boot += seconds

    def leap(self, hold_s: float = HOLD_S) -> Leap:
        return Leap(lambda: self.wall, lambda: self.since_boot, hold_s)


def test_time_that_passes_is_no_leap() -> None:
    """Also in suspend, and while the clock is slewed or stepped by what a node tolerates."""
    clocks = Clocks()
    leap = clocks.leap()
    assert leap.fault() == ""
    clocks.pass_by(86_400)
    assert leap.fault() == ""
    clocks.wall += TOLERATED_S
    assert leap.fault() == ""
    clocks.wall += TOLERATED_S
    assert leap.fault() == ""


def test_a_leap_and_back_signs_nothing() -> None:
    """rules K47: while it lasts nothing gets a date that nodes would refuse afterwards."""
    clocks = Clocks()
    leap = clocks.leap()
    clocks.wall += 100_000
    said = leap.fault()
    assert said.startswith("clock_jumped: ") and "100000 s" in said
    clocks.pass_by(60)
    assert leap.fault() == said, "one fault is one line in the log"
    clocks.wall -= 100_000
    assert leap.fault() == ""
    clocks.wall += 100_000
    assert leap.fault().startswith("clock_jumped")


def test_a_leap_that_lasts_is_the_time() -> None:
    """rules P1: a machine that was paused, or whose clock was wrong before, needs nobody."""
    clocks = Clocks()
    leap = clocks.leap(hold_s=100)
    clocks.wall += 100_000
    assert leap.fault()
    clocks.pass_by(99)
    assert leap.fault()
    clocks.pass_by(1)
    assert leap.fault() == ""
    clocks.pass_by(1)
    assert leap.fault() == ""


def test_a_clock_that_is_set_back_is_no_leap_and_its_way_forward_is_one() -> None:
    clocks = Clocks()
    leap = clocks.leap()
    clocks.wall -= 3_600
    assert leap.fault() == ""
    clocks.wall += 3_600
    assert leap.fault().startswith("clock_jumped")


def test_a_leap_further_ahead_is_held_anew() -> None:
    """Two leaps one after the other: the time that counts is that of the clock as it is now."""
    clocks = Clocks()
    leap = clocks.leap(hold_s=100)
    clocks.wall += 1_000
    assert leap.fault()
    clocks.pass_by(90)
    clocks.wall += 50_000
    assert "51000 s" in leap.fault()
    clocks.pass_by(90)
    assert leap.fault()
    clocks.pass_by(10)
    assert leap.fault() == ""

"""Whether the wall clock has leapt ahead of the time that has passed: then nothing is dated by it (rules J38, K47).

What is signed once is signed: a date too far ahead stays the last one after the clock is right again, and every later
document would have to carry it. So a leap is held for a while. One that is taken back in that time has done nothing;
one that lasts is the time: a machine was paused, or its clock was wrong before. In suspend the time goes on.
"""

from collections.abc import Callable

from coordinator.base.settings import CLOCK_SKEW_S
from snapshot.identifiers import format_time

TOLERATED_S = CLOCK_SKEW_S  # as far as a node lets `issued_at` be ahead (format.md 7)
HOLD_S = 600.0


class Leap:
    """`wall` in Unix seconds, `elapsed` on CLOCK_BOOTTIME. Each look compares with the one before."""

    def __init__(self, wall: Callable[[], float], elapsed: Callable[[], float], hold_s: float = HOLD_S) -> None:
        self._wall = wall
        self._elapsed = elapsed
        self._hold_s = hold_s
        self._believed = self._offset()
        self._leapt_to = self._believed
        self._since = 0.0
        self._said = ""

    def fault(self) -> str:
        """Why nothing is dated now, the same words for one leap; or nothing."""
        offset = self._offset()
        if offset - self._believed <= TOLERATED_S:
            return self._believe(offset)
        if not self._said or abs(offset - self._leapt_to) > TOLERATED_S:
            return self._hold(offset)
        return self._believe(offset) if self._elapsed() - self._since >= self._hold_s else self._said

    def _offset(self) -> float:
        return self._wall() - self._elapsed()

    def _believe(self, offset: float) -> str:
        self._believed, self._said = offset, ""
        return ""

    def _hold(self, offset: float) -> str:
        self._leapt_to, self._since = offset, self._elapsed()
        until = format_time(self._wall() + self._hold_s)
        self._said = (
            f"clock_jumped: the clock is {offset - self._believed:.0f} s ahead of the time that has passed, and is not "
            f"believed until {until} (set it right; if it is right, restart the daemon, or wait)"
        )
        return self._said

"""The one place where the agent reads clocks; everything else takes a `Moment`, made from a reading of this.

The wall clock, CLOCK_BOOTTIME (it runs on in suspend, trio's does not), the boot's id, and whether the kernel says
that the wall clock is synchronised (threats D-22, D-23).
"""

import ctypes
import time
from pathlib import Path
from typing import Protocol

from agent.base.guarded_clock import ClockReading
from store.base.timefloor import Boot

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SYNCHRONISED_MARK = Path("/run/systemd/timesync/synchronized")

_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
# It does not wait, so the interpreter's lock is kept: the loop asks often, beside threads that want it.
_LIBC = ctypes.PyDLL(None)
_TIMEX = ctypes.create_string_buffer(512)  # more than it has anywhere; `modes` 0 is its first member: nothing is set


class Clock(Protocol):
    def read(self) -> ClockReading: ...


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._boot_id = BOOT_ID.read_text("ascii").strip()

    def read(self) -> ClockReading:
        elapsed = time.clock_gettime(time.CLOCK_BOOTTIME)
        return ClockReading(time.time(), Boot(self._boot_id, elapsed), is_synchronised())  # noqa: TID251 - this is the file


def monotonic_s() -> float:
    """CLOCK_MONOTONIC, in which systemd says since when a unit is active; it stands still in suspend."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def is_synchronised() -> bool | None:
    """As the kernel says; where that is refused, as the time service's own mark says; else None."""
    state = _adjtimex()
    if state is not None:
        return state != _TIME_ERROR
    return True if SYNCHRONISED_MARK.exists() else None


def _adjtimex() -> int | None:
    """The state of the kernel's clock; None where it may not be asked."""
    state = int(_LIBC.adjtimex(_TIMEX))
    return None if state < 0 else state

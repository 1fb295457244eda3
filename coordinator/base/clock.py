"""The one place where the coordinator reads clocks; everything else takes `now` as an argument."""

import time


def now() -> float:
    """Unix seconds."""
    return time.time()  # noqa: TID251 - this is the file that the rule names


def elapsed_s() -> float:
    """Seconds of CLOCK_BOOTTIME: whatever is done to the wall clock, and also in suspend (threats D-22)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

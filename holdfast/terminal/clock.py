"""The one place where the command lines read the wall clock."""

import time


def wall_clock() -> float:
    """Unix seconds."""
    return time.time()  # noqa: TID251 - this is that place

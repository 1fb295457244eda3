"""The one place where the coordinator reads the wall clock; everything else takes `now` as an argument."""

import time


def now() -> float:
    """Unix seconds."""
    return time.time()  # noqa: TID251 - this is the file that the rule names

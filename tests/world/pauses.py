"""How long to wait before looking again. Who is waited for needs the processor, too; and the longer it has taken, the
less does a moment more matter.

    pause = pauses()
    while not holds():
        time.sleep(next(pause))
"""

from collections.abc import Iterator

FIRST_S, MOST_S = 0.05, 0.5
_GROWTH = 1.5


def pauses(first_s: float = FIRST_S, most_s: float = MOST_S) -> Iterator[float]:
    """In seconds, each half as long again as the one before, up to the longest."""
    while True:
        yield first_s
        first_s = min(first_s * _GROWTH, most_s)

"""What others can make a log say, once and then in sums: a line costs them nothing, and a disk is soon full of lines.

The first of a reason is said at once; what follows is counted, and said in one line a reason and interval.
"""

from collections.abc import Callable

import trio

EVERY_S = 60.0
MOST = 32  # reasons at a time, as they may name who it was; what is beyond is counted as `OTHERS`
OTHERS = "others"


class Sampled:
    """`say` is told of a reason and how often it came in the interval that has passed."""

    def __init__(self, say: Callable[[str, int], None], every_s: float = EVERY_S) -> None:
        self._say = say
        self._every_s = every_s
        self._counts: dict[str, int] = {}
        self._came = trio.Event()

    def is_first(self, reason: str) -> bool:
        """Whether this one is to be said by itself; else it is counted."""
        self._came.set()
        if reason not in self._counts and len(self._counts) < MOST:
            self._counts[reason] = 0
            return True
        counted = reason if reason in self._counts else OTHERS
        self._counts[counted] = self._counts.get(counted, 0) + 1
        return False

    async def run(self) -> None:
        """Until cancelled; what has been counted by then is said, too."""
        try:
            while True:
                await self._came.wait()
                self._came = trio.Event()
                await trio.sleep(self._every_s)
                self._say_all()
        finally:
            self._say_all()

    def _say_all(self) -> None:
        """A reason that goes on has its next line after the next interval; one that has ended is new again."""
        said = {reason: count for reason, count in self._counts.items() if count}
        self._counts = dict.fromkeys(said, 0)
        if said:
            self._came.set()  # or what has ended would be remembered until another comes
        for reason, count in said.items():
            self._say(reason, count)

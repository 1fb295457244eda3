"""BoundedQueue at what only so many may do at once: who comes later waits a while, in a line that has an end.

A fleet that hears of a change asks for documents within the same second. Sent away, each would come back after seconds;
in line, each is served as soon as there is room.
"""

from collections import deque

import trio


class BoundedQueue:
    """`most` at once; up to `line` more wait, first come, first served."""

    def __init__(self, most: int, line: int = 0) -> None:
        self._most = most
        self._line = line
        self._waiting: deque[trio.Event] = deque()
        self.taken = 0

    async def take(self, patience_s: float) -> bool:
        """Whether a turn was had within `patience_s` seconds. `occupy(-1)` gives it back."""
        if self.taken < self._most:  # nobody waits then: what is given back goes to the first in line
            self.taken += 1
            return True
        if len(self._waiting) >= self._line:
            return False
        turn = trio.Event()
        self._waiting.append(turn)
        try:
            with trio.move_on_after(patience_s):
                await turn.wait()
        except trio.Cancelled:
            self._leave(turn)
            raise
        if not turn.is_set():
            self._leave(turn)
        return turn.is_set()

    def occupy(self, change: int) -> None:
        """Takes turns without asking, or gives them back."""
        self.taken += change
        while self.taken < self._most and self._waiting:
            self.taken += 1
            self._waiting.popleft().set()

    def _leave(self, turn: trio.Event) -> None:
        """A turn that came to who was just leaving goes to the next."""
        if turn.is_set():
            self.occupy(-1)
        else:
            self._waiting.remove(turn)

"""Whether there may be slots of a kind, known without a look: mostly there are none, and each update would ask twice.

Whoever looks and finds none says so; whoever commits one says so afterwards. A look that began before that commit says
nothing about it, whichever of the two ends first. Slots are committed by this process alone, which has a lock on the
root (rules L25). What a start finds is unknown until somebody has looked.
"""

from collections.abc import Callable, Sized
from typing import TypeVar

T = TypeVar("T", bound=Sized)


class SlotPresence:
    """Of slots that wait, or of candidates."""

    def __init__(self) -> None:
        self._committed = 0
        self._none_at = -1

    @property
    def is_possible(self) -> bool:
        """It reads nothing, so that it may be asked anywhere."""
        return self._committed != self._none_at

    def note_commit(self) -> None:
        self._committed += 1

    def look(self, find: Callable[[], T]) -> T:
        """What there is."""
        committed = self._committed
        found = find()
        if not len(found):
            self._none_at = committed
        return found

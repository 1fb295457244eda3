"""What is turned away first when there is too much to do: documents, then joins, then heartbeats; heads last.

A head is what keeps a node out of degraded mode, a heartbeat changes nothing on it, a join can wait, and a full
document can come from anywhere. Each concern is let in while less than its share of the capacity is busy, so the
more urgent always finds room that the less urgent cannot take. Waiting long polls are not busy.

Pure: time and chance are arguments.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import field
from enum import Enum

from snapshot.frozen import mutable


class Concern(Enum):
    """What a request is about: (share of the capacity, seconds after which to come again)."""

    HEAD = (1.0, 2)
    HEARTBEAT = (0.85, 15)
    JOIN = (0.7, 15)
    DOCUMENT = (0.5, 5)

    @property
    def share(self) -> float:
        return self.value[0]

    @property
    def retry_after_s(self) -> int:
        return self.value[1]


@mutable
class Gate:
    """Counts the requests being worked on. `chance` gives a number in 0..1, which spreads the returns of a storm."""

    capacity: int
    chance: Callable[[], float]
    busy: int = 0
    shed: dict[Concern, int] = field(default_factory=lambda: dict.fromkeys(Concern, 0))

    def wait_s(self, concern: Concern) -> int | None:
        """None if there is room, else the seconds after which to come again."""
        if self.busy < self.capacity * concern.share:
            return None
        self.shed[concern] += 1
        return math.ceil(concern.retry_after_s * (1 + self.chance()))

    def occupy(self, change: int) -> None:
        """Takes slots or gives them back without asking: who was let in and has waited since need not ask again."""
        self.busy += change


class Rate:
    """At most `burst` at once and `burst` in each `per_s` seconds, for each key (the join rate for an address).

    Remembers at most `keys` keys, the latest ones: who is forgotten has a full bucket again.
    """

    def __init__(self, burst: int, per_s: float, keys: int = 10_000) -> None:
        self._burst = burst
        self._per_s = per_s
        self._keys = keys
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Hashable, now: float) -> int | None:
        """None if the key has one left (and takes it), else the seconds until it has."""
        left, then = self._buckets.pop(key, (float(self._burst), now))
        left = min(self._burst, left + (now - then) * self._burst / self._per_s)
        allowed = left >= 1 - 1e-9  # shares of seconds do not add up exactly
        self._buckets[key] = (max(0.0, left - 1) if allowed else left, now)
        if len(self._buckets) > self._keys:
            self._buckets.popitem(last=False)
        return None if allowed else math.ceil((1 - left) * self._per_s / self._burst)

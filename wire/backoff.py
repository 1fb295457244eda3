"""When to ask again: a floor under every retry, above it exponential back-off with full jitter.

Pure: chance is an argument, and whoever waits reads the clock.
"""

from collections.abc import Callable
from dataclasses import dataclass

LEAST_S = 1.0  # nothing is tried twice within this for one cause, whatever else is computed, heard or asked for
BASE_S = 1.0
CAP_S = 300.0


@dataclass(slots=True)
class BackOff:
    """`uniform(low, high)` draws a number, as random.uniform does."""

    uniform: Callable[[float, float], float]
    base_s: float = BASE_S
    cap_s: float = CAP_S
    failures: int = 0

    def note_failure(self, retry_after_s: float | None = None) -> float:
        """Counts a failure; the seconds to wait. Never less than the floor, nor than the other end asked for, and
        spread above that: callers that failed together do not all come back at the floor.
        """
        # 2**60 s is beyond every cap; more would only be a large number.
        ceiling = min(self.cap_s - LEAST_S, self.base_s * 2 ** min(self.failures, 60))
        self.failures += 1
        return max(LEAST_S, retry_after_s or 0.0) + self.uniform(0, max(0.0, ceiling))

    def note_success(self) -> None:
        self.failures = 0


def spread(interval_s: float, share: float, uniform: Callable[[float, float], float]) -> float:
    """An interval with jitter: `share` of it more or less (poll and heartbeat: 0.2)."""
    return interval_s * uniform(1 - share, 1 + share)

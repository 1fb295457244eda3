"""Nodes that nothing could be published for: each rests, longer with each failure, and stands behind those that have
not failed. So however many cannot be signed, they keep nobody else waiting for more than a batch.

Who was outrun, and how often in a row, is counted apart: that is no fault of its own (publishing/locked_batch.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEAST_S = 1.0
MOST_S = 60.0  # what was mended in the declared state is found within it


@dataclass
class Resting:
    """`now` reads a monotonic clock."""

    now: Callable[[], float]
    _until: dict[str, float] = field(default_factory=dict)
    _failures: dict[str, int] = field(default_factory=dict)
    _outrun: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        now = self.now()
        return sum(until > now for until in self._until.values())

    def ready(self, due: Sequence[str]) -> list[str]:
        """Without those that rest; who has failed least often goes first. Of who is not due nothing is kept."""
        now, still = self.now(), set(due)
        self._until = {node_id: until for node_id, until in self._until.items() if until > now and node_id in still}
        self._failures = {node_id: count for node_id, count in self._failures.items() if node_id in still}
        self._outrun = {node_id: count for node_id, count in self._outrun.items() if node_id in still}
        rested = (node_id for node_id in due if node_id not in self._until)
        return sorted(rested, key=lambda node_id: self._failures.get(node_id, 0))

    def note_failure(self, node_id: str) -> None:
        count = self._failures.get(node_id, 0)
        self._until[node_id] = self.now() + min(MOST_S, LEAST_S * 2 ** min(count, 60))
        self._failures[node_id] = count + 1
        self._outrun.pop(node_id, None)

    def has_failed(self, node_id: str) -> bool:
        return node_id in self._failures

    def outrun(self, node_id: str) -> None:
        """Changed by somebody else meanwhile, which is no fault of its own: the least rest."""
        self._until[node_id] = self.now() + LEAST_S
        self._outrun[node_id] = self.times_outrun(node_id) + 1

    def times_outrun(self, node_id: str) -> int:
        """Since it was published, or failed."""
        return self._outrun.get(node_id, 0)

    def note_success(self, node_id: str) -> None:
        self._failures.pop(node_id, None)
        self._outrun.pop(node_id, None)

    def clear(self) -> None:
        self._until.clear()
        self._failures.clear()
        self._outrun.clear()

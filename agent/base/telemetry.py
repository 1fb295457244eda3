"""What the agent counts of itself (shown by the status, metrics and heartbeats); how it logs is wire/logs.py."""

from collections import Counter


class Counters:
    """Counted since the start; they only rise."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str, by: int = 1) -> None:
        self._counts[name] += by

    def of(self, name: str) -> int:
        return self._counts[name]

    def all(self) -> dict[str, int]:
        return dict(sorted(self._counts.items()))

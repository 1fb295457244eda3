"""A service that was seen running under a fresh head: the values, and how the store keeps them. Pure.

    SeenRunning     since when and until when it was seen, by the guarded clock
    KEPT_S          what was not seen for so long before the head expired counts no more: it asks far more often
    MOST            so many are kept

Nothing is ever seen in an outage, so a sight cannot be had by asking in one, whatever the clock does meanwhile.
"""

from collections.abc import Mapping

from snapshot.frozen import frozen

KEPT_S = 86_400
WRITTEN_EVERY_S = 3_600
MOST = 1_024
PREFIX = "running/"


@frozen
class SeenRunning:
    """`scope`: the one that it was asked about by where that alone could name it (a combined node_runtime)."""

    since: float
    last: float
    scope: str | None = None

    def is_old(self, now: float) -> bool:
        return self.last < now - KEPT_S

    def is_worth_writing(self, written: "SeenRunning | None") -> bool:
        """The disk need not know each minute; `written` is what it knows."""
        return written is None or written.scope != self.scope or self.last - written.last >= WRITTEN_EVERY_S


def next_sight(before: SeenRunning | None, now: float, scope: str | None = None) -> SeenRunning:
    """A gap of more than `KEPT_S` is a new beginning."""
    since = now if before is None or before.is_old(now) else min(before.since, now)
    return SeenRunning(since, now, scope)


def from_rows(rows: Mapping[str, object]) -> dict[str, SeenRunning]:
    """By service. A row that is none is passed over."""
    found = {}
    for key, row in rows.items():
        if key.startswith(PREFIX) and isinstance(row, dict):
            scope = row.get("scope")
            name = key.removeprefix(PREFIX)
            found[name] = SeenRunning(float(row["since"]), float(row["last"]), None if scope is None else str(scope))
    return found

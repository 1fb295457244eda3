"""The peer cache: which peers have worked, over restarts (seed 001 section 16; rules L5, L14, L21, S84).

    PeerCache    `row` is what is kept of it, in the store's table `peers`

It says in which order peers are asked, and nothing else (rules L3): who may be asked, where, and what it has to show
come from the signed directory and from agent.toml alone, each time anew. So a row that somebody has planted makes a
node ask in another order, and a row that is lost makes it try peers as on its first day.

Written when it matters: who has begun to fail, who works again, and once in an hour that somebody still does. A round
that asks twenty peers in vain is not a write to the disk each time.
"""

from collections.abc import Callable, Mapping

from agent.sources.peer_sets import NEVER_ASKED, PeerRecord

MOST = 512  # as many as a PeerPolicy can tell a relay of, and its neighbours
KEPT_S = 30 * 86_400
FRESH_S = 3_600  # what has worked so lately is not written again


class PeerCache:
    """`now`: Unix seconds by the guarded clock. `row`: as it was kept before; what is out of form is not known."""

    def __init__(self, row: object, now: Callable[[], float]) -> None:
        self._now = now
        self.records = _read_row(row)
        self._written = dict(self.records)
        self.is_changed = False

    def note_worked(self, node_id: str) -> None:
        before = self.records.get(node_id, NEVER_ASKED)
        self._set(node_id, PeerRecord(self._at(), min(before.failed_at, self._at() - 1)))

    def note_failed(self, node_id: str) -> None:
        before, at = self.records.get(node_id, NEVER_ASKED), self._at()
        self._set(node_id, PeerRecord(min(before.worked_at, at - 1), at))

    def to_row(self) -> dict[str, object]:
        """It is as kept from here on, unless it changes again."""
        self._forget()
        self._written, self.is_changed = dict(self.records), False
        return {
            node_id: {"worked_at": record.worked_at, "failed_at": record.failed_at}
            for node_id, record in self.records.items()
        }

    def _at(self) -> int:
        return int(self._now())

    def _set(self, node_id: str, record: PeerRecord) -> None:
        """In memory at once, so that peers have their turns; to be written when it says something new."""
        self.records[node_id] = record
        written = self._written.get(node_id)
        if (
            written is None
            or written.is_failing != record.is_failing
            or not 0 <= record.asked_at - written.asked_at < FRESH_S
        ):
            self.is_changed = True

    def _forget(self) -> None:
        """The old ones, and of too many those that were asked the longest ago."""
        now = self._at()
        newest = sorted(self.records.items(), key=lambda item: item[1].asked_at, reverse=True)[:MOST]
        self.records = {node_id: record for node_id, record in newest if now - record.asked_at <= KEPT_S}


def _read_row(row: object) -> dict[str, PeerRecord]:
    entries = list(row.items())[:MOST] if isinstance(row, Mapping) else []
    found = {node_id: _read(entry) for node_id, entry in entries if isinstance(node_id, str)}
    return {node_id: record for node_id, record in found.items() if record is not None}


def _read(entry: object) -> PeerRecord | None:
    if not isinstance(entry, Mapping):
        return None
    worked_at, failed_at = entry.get("worked_at"), entry.get("failed_at")
    if not isinstance(worked_at, int) or not isinstance(failed_at, int):
        return None
    return PeerRecord(worked_at, failed_at)

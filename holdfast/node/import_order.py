"""In which order files are handed in, so that each document meets what it is judged by (rules S60; format.md 8, 9).

Trust bundles by number, recoveries, the head, what establishes roles, everything else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from snapshot import envelope as envelopes
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts
from snapshot.envelope import KINDS, RECOVERY, SHARED, Envelope
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected

CHUNK_BYTES = 64 << 10
ESTABLISHING = ("node_bootstrap", "node_runtime")


@dataclass(frozen=True)
class Carried:
    """A file, and what it says of itself before anybody has verified it; None where it is no document."""

    path: Path
    envelope: Envelope | None

    def is_for(self, *node_ids: str) -> bool:
        """For one of these. What says nothing is for everybody: the agent says what is wrong with it."""
        return self.envelope is None or self.envelope.subject_node_id in (SHARED, *node_ids)

    def is_bundle_before(self, version: int) -> bool:
        """A snapshot of the trust bundle with a lower number."""
        envelope = self.envelope
        return envelope is not None and envelope.scope == TRUST_BUNDLE and envelope.config_version < version


def in_order(paths: Sequence[Path]) -> list[Carried]:
    """OSError for what cannot be read."""
    return sorted((Carried(path, _envelope_of(path)) for path in paths), key=_place)


def _place(carried: Carried) -> tuple[int, tuple[int, int], str]:
    envelope = carried.envelope
    if envelope is None:
        return len(ESTABLISHING) + 4, (0, 0), str(carried.path)
    return _rank(envelope), envelope.version, str(carried.path)


def _rank(envelope: Envelope) -> int:
    if envelope.kind == RECOVERY:
        return 1
    if envelope.scope_type == TRUST_BUNDLE:
        return 0
    if envelope.kind == HEAD:
        return 2
    established = envelope.scope_type in ESTABLISHING
    return 3 + (ESTABLISHING.index(envelope.scope_type) if established else len(ESTABLISHING))


def _envelope_of(path: Path) -> Envelope | None:
    with path.open("rb") as file:
        try:
            opening = ChunkParts(iter(lambda: file.read(CHUNK_BYTES), b"")).opening()
        except Rejected:
            return None
    return next(_readings(opening.envelope), None)


def _readings(data: bytes) -> Iterator[Envelope]:
    for kind in KINDS:
        try:
            yield envelopes.parse(data, kind)
        except Rejected:
            continue

"""The anti-rollback floors: two alternating checksummed files outside of LMDB (rules L32; threats D-21, D-24).

LMDB cannot hold its own floor: with a damaged meta page it opens on the previous transaction without an error. So
what was accepted is also written here, *before* the swap, and a floor never goes down: not by age, not by a fault,
not by a store that was restored. A record also names the envelopes being activated, so that a start after a crash
in between knows what to finish.

Rules: a record is merged with the one before, member by member, and only ever rises; it is durable before what it
names is; it is believed whole or not at all (magic, length, SHA-256), and only in the cluster that it names; two files
are written in turn, so that one is always whole and at most one write behind.

Example. `a.rec` has sequence 8 with `route_policy` at 1.6, `b.rec` sequence 9 at 1.7. The next write goes to `a.rec`.
If it is torn, `b.rec` still says 1.7, `faults` names `a.rec`, and the start writes it anew. If both are gone from a
node that was a member, nothing says how far it had come: the status says `floor_lost`, increments are refused, and
what the store has counts until a fresh head has confirmed all of it.

A write whose rename succeeded and whose sync failed leaves it open what the disk has. Then the higher record counts in
memory too, `uncertain` is set, and it is written once more before anything is built on it: too high a floor costs a
download, too low a one costs the guarantee.

Rejected:

- One file, swapped by rename: swapped it is always whole, but a single bad sector would be the end of every mark.
- A table in LMDB alone: what it would guard is the file that it lies in. A copy is there all the same, as a third
  witness (`reconcile.floor_of_store`).
- Floors that age: a node that was off for a year would take what was withdrawn a year ago.
- A counter in a TPM: most machines have none that may be written so often (docs/adr/0004).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from snapshot.frozen import frozen, replace_members
from snapshot.verifier_state import Mark
from store.base import sealed
from store.base.disk import Disk
from store.base.records import ProbationTerms
from store.base.timefloor import TimeFloor

MAGIC = b"HOLDFASTF1"
NAMES = "a.rec", "b.rec"


@dataclass(frozen=True)
class ScopeFloor:
    """The highest accepted mark of a scope, and the envelope that was activated last.

    `returned`: what that envelope is where a recovery led below the mark (rules S87). Without it a node whose store is
    lost afterwards would take the version at the mark again, which was given up, and refuse the one that it had.
    """

    mark: Mark
    envelope_hash: str
    returned: Mark | None = None

    @property
    def order(self) -> tuple[int, int]:
        return self.mark.authority_epoch, self.mark.config_version


@frozen
class ActivatingScope:
    """What of an activation is in no pending slot: who signed, when it was judged, which nonce it spends, and on which
    terms it is on probation.
    """

    scope: str
    envelope_hash: str
    signers: tuple[str, ...]
    judged_at: float
    nonce: str = ""
    probation: ProbationTerms | None = None


@frozen
class FloorRecord:
    """One floor record. `sequence` orders the two files, `generation` is the store's after the swap."""

    cluster_id: str
    sequence: int = 0
    generation: int = 0
    authority_epoch: int = 0
    bundle_version: int = 0
    time_floor: TimeFloor | None = None
    used_nonces: frozenset[str] = frozenset()
    scopes: Mapping[str, ScopeFloor] = field(default_factory=dict)
    activating: tuple[ActivatingScope, ...] = ()

    def merge(self, other: Self) -> Self:
        """The higher of both, member by member; what is being activated is the later record's."""
        later = max(self, other, key=lambda record: record.sequence)
        return replace_members(
            later,
            generation=max(self.generation, other.generation),
            authority_epoch=max(self.authority_epoch, other.authority_epoch),
            bundle_version=max(self.bundle_version, other.bundle_version),
            time_floor=higher(self.time_floor, other.time_floor),
            used_nonces=self.used_nonces | other.used_nonces,
            scopes=_higher_scopes(self, other),
        )

    def names_none_but(self, envelopes: Collection[tuple[str, str]]) -> bool:
        """Whether only these, by scope and hash, were being activated."""
        return all((entry.scope, entry.envelope_hash) in envelopes for entry in self.activating)

    def covers(self, other: Self) -> bool:
        """Whether nothing of `other` is above this record."""
        merged = self.merge(other)
        return replace(merged, sequence=self.sequence, activating=self.activating) == self


class Floors:
    """The pair of files of one cluster. `faults` names the files that could not be read."""

    def __init__(self, directory: Path, temporary: Path, disk: Disk, record: FloorRecord) -> None:
        self.record = record
        self.faults: tuple[str, ...] = ()
        self.found = False
        self.uncertain = False
        self._directory = directory
        self._temporary = temporary
        self._disk = disk
        self._next = NAMES[0]

    @classmethod
    def load(cls, directory: Path, temporary: Path, disk: Disk, cluster_id: str) -> Self:
        """The effective floor of both files; a damaged or foreign one counts as absent and is named."""
        records, faults = read_records(directory, cluster_id)
        floors = cls(directory, temporary, disk, FloorRecord(cluster_id))
        for record in records.values():
            floors.record = floors.record.merge(record)
        floors.found = bool(records)
        if records and not faults and len(records) < len(NAMES):
            faults = [f"floors/{name}: missing" for name in NAMES if name not in records]
        floors.faults = tuple(faults)
        floors._next = _file_to_write(records)
        return floors

    def write(self, record: FloorRecord) -> None:
        """Make `record`, never lower than the present one, durable in the file whose turn it is.

        When that fails after the rename, nobody knows what the disk has: the record counts from then on, as it would
        after a restart, and `uncertain` says that it must be written again before anything is built on it.
        """
        raised = replace_members(record, sequence=self.record.sequence + 1).merge(self.record)
        data = sealed.seal(MAGIC, raised.sequence, to_payload(raised))
        target = self._directory / self._next
        try:
            self._disk.replace_file(target, data, self._temporary / "floor.new")
        except OSError:
            if _holds(target, data):
                self.record, self.uncertain = raised, True
            raise
        self.record, self.uncertain = raised, False
        self._next = NAMES[1 - NAMES.index(self._next)]


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def higher(one: TimeFloor | None, other: TimeFloor | None) -> TimeFloor | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda floor: floor.order)


def read_records(directory: Path, cluster_id: str) -> tuple[dict[str, FloorRecord], list[str]]:
    """The readable records by file name, and a line for each one that is damaged or of another cluster."""
    records: dict[str, FloorRecord] = {}
    faults = []
    for name in NAMES:
        try:
            found = sealed.read(MAGIC, directory / name)
            if found is not None:
                records[name] = _of_cluster(from_payload(*found), cluster_id)
        except sealed.UnreadableFile as error:
            faults.append(f"floors/{name}: {error}")
    return records, faults


def _of_cluster(record: FloorRecord, cluster_id: str) -> FloorRecord:
    if record.cluster_id != cluster_id:
        raise sealed.UnreadableFile("of another cluster")
    return record


def _file_to_write(records: Mapping[str, FloorRecord]) -> str:
    """The file without a readable record, else the older one: the newer is never touched."""
    return min(NAMES, key=lambda name: records[name].sequence if name in records else -1)


def _higher_scopes(one: FloorRecord, other: FloorRecord) -> dict[str, ScopeFloor]:
    """For each scope the higher mark; of equal marks (a recovery) the one of the later record."""
    earlier, later = sorted((one, other), key=lambda record: record.sequence)
    scopes = dict(earlier.scopes)
    for scope, floor in later.scopes.items():
        if scope not in scopes or floor.order >= scopes[scope].order:
            scopes[scope] = floor
    return scopes


def to_payload(record: FloorRecord) -> dict[str, object]:
    """The record as the JSON that the floor files hold."""
    return {
        "activating": [_activating_payload(entry) for entry in record.activating],
        "authority_epoch": record.authority_epoch,
        "bundle_version": record.bundle_version,
        "cluster_id": record.cluster_id,
        "generation": record.generation,
        "scopes": {scope: _scope_payload(floor) for scope, floor in record.scopes.items()},
        "time_floor": record.time_floor.to_payload() if record.time_floor else None,
        "used_nonces": sorted(record.used_nonces),
    }


def from_payload(sequence: int, payload: dict[str, object]) -> FloorRecord:
    """The record of a payload whose checksum held; Unreadable when it is of another shape all the same."""
    try:
        return _from_payload(sequence, payload)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise sealed.UnreadableFile(f"of another shape: {error!r}") from error


def _from_payload(sequence: int, payload: dict) -> FloorRecord:  # type: ignore[type-arg]
    time_floor = payload["time_floor"]
    return FloorRecord(
        cluster_id=payload["cluster_id"],
        sequence=sequence,
        generation=int(payload["generation"]),
        authority_epoch=int(payload["authority_epoch"]),
        bundle_version=int(payload["bundle_version"]),
        time_floor=TimeFloor.from_payload(time_floor) if time_floor else None,
        used_nonces=frozenset(payload["used_nonces"]),
        scopes={scope: _scope_floor(floor) for scope, floor in payload["scopes"].items()},
        activating=tuple(_activating(entry) for entry in payload["activating"]),
    )


def _scope_payload(floor: ScopeFloor) -> dict[str, object]:
    """Files of before have no `returned`, and readers of before pass over it."""
    returned = {"returned": _mark_payload(floor.returned)} if floor.returned is not None else {}
    return {**_mark_payload(floor.mark), "envelope_hash": floor.envelope_hash, **returned}


def _mark_payload(mark: Mark) -> dict[str, object]:
    return {
        "authority_epoch": mark.authority_epoch,
        "config_version": mark.config_version,
        "content_hash": mark.content_hash,
    }


def _scope_floor(payload: Mapping[str, object]) -> ScopeFloor:
    returned = payload.get("returned")
    if returned is not None and not isinstance(returned, Mapping):
        raise TypeError("returned is a mark")
    return ScopeFloor(_mark(payload), str(payload["envelope_hash"]), _mark(returned) if returned is not None else None)


def _mark(payload: Mapping[str, object]) -> Mark:
    epoch, version = payload["authority_epoch"], payload["config_version"]
    if type(epoch) is not int or type(version) is not int:
        raise TypeError("epoch and version are integers")
    return Mark(epoch, version, str(payload["content_hash"]))


def _activating_payload(entry: ActivatingScope) -> dict[str, object]:
    """Files of before have no `probation`, and readers of before pass over it."""
    terms = entry.probation
    probation = {"probation": {"lasts_ms": int(terms.lasts_s * 1000), "way": terms.way}} if terms is not None else {}
    return {
        "envelope_hash": entry.envelope_hash,
        "judged_at_ms": int(entry.judged_at * 1000),
        "nonce": entry.nonce,
        "scope": entry.scope,
        "signers": list(entry.signers),
        **probation,
    }


def _activating(payload: Mapping[str, object]) -> ActivatingScope:
    signers, judged = payload["signers"], payload["judged_at_ms"]
    if not isinstance(signers, Iterable) or not isinstance(judged, int):
        raise TypeError("signers are a list, judged_at_ms is an integer")
    return ActivatingScope(
        str(payload["scope"]),
        str(payload["envelope_hash"]),
        tuple(map(str, signers)),
        judged / 1000,
        str(payload["nonce"]),
        _probation(payload.get("probation")),
    )


def _probation(payload: object) -> ProbationTerms | None:
    if payload is None:
        return None
    if not isinstance(payload, Mapping) or type(payload["lasts_ms"]) is not int:
        raise TypeError("probation has its milliseconds")
    return ProbationTerms(payload["lasts_ms"] / 1000, bool(payload["way"]))

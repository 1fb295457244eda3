"""From what lies on the disk to an open store: nothing here ends the process for damage (rules A14, L30..L34).

usable          size check, then a child process reads everything
rebuild         what cannot be used is set aside; a new store takes over floors and generation
reconcile       finish what the floors name, hold what is above the store, repair what is below it
leave_damaged   scopes whose active is damaged fall back to previous
"""

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from snapshot.frozen import frozen
from store.base import enrolment, journal, meta, pending, trust
from store.base.disk import Disk
from store.base.enrolment import Enrolment
from store.base.environment import Environment, LmdbTransaction, WriteRoom
from store.base.errors import StoreError
from store.base.floors import FloorRecord, Floors
from store.base.journal import Happened
from store.base.layout import ClusterPaths
from store.base.migration import FORMAT, STEPS, migrate, require_known
from store.base.timefloor import TimeFloor
from store.fsck.fallback import leave_damaged
from store.fsck.mend import mend
from store.fsck.metapage import FileState, inspect
from store.fsck.probe import Findings, probe
from store.fsck.quarantine import set_aside
from store.reconcile import behind_store, floor_of_store, hold, is_above, roll_forward, with_recovered_marks


@frozen
class StartFinding:
    """Something that the start met. It is in the journal too."""

    happened: Happened
    scope: str = ""
    detail: str = ""


@dataclass
class Start:
    """What one start works on and what it found."""

    paths: ClusterPaths
    disk: Disk
    now: float
    map_bytes: int
    probe_deadline_s: float
    found: list[StartFinding] = field(default_factory=list)
    damaged: frozenset[bytes] = frozenset()
    faults: tuple[str, ...] = ()  # what the probe met and a transaction can mend
    hashed: bool = False  # every blob, just now, and none was damaged

    def note(self, happened: Happened, scope: str = "", detail: str = "") -> None:
        self.found.append(StartFinding(happened, scope, detail))


def start(work: Start) -> tuple[Environment, Floors, Enrolment | None]:
    """The open environment and its floors. StoreError: store_format_newer, store_full, store_io."""
    _empty(work.paths.temporary, work.disk)
    enrolled = _enrolment(work)
    floors = Floors.load(work.paths.floors, work.paths.temporary, work.disk, work.paths.cluster_id)
    environment = _open(work, floors, established=_is_established(floors, enrolled))
    try:
        _migrate(work, environment)
        _settle(work, environment, floors, enrolled)
    except BaseException:
        environment.close()
        raise
    return environment, floors, enrolled


def _enrolment(work: Start) -> Enrolment | None:
    try:
        return enrolment.read(work.paths.identity)
    except StoreError as error:
        work.note(Happened.RECORD_LOST, detail=error.detail)
        return None


def _is_established(floors: Floors, enrolled: Enrolment | None) -> bool:
    """Whether this cluster was here before: then a missing store is damage, and no first start (rules L31)."""
    return floors.found or bool(floors.faults) or enrolled is not None


# ---- the environment


def _open(work: Start, floors: Floors, *, established: bool) -> Environment:
    cause = _unusable(work)
    if cause is not None:
        if work.paths.store.exists():
            established = established or inspect(work.paths.store / "data.mdb").state is not FileState.ABSENT
            set_aside(work.paths, work.disk, work.now)
        _create(work, floors.record.generation + (1 if established else 0))
        if established:
            work.note(Happened.STORE_REBUILT, detail=cause)
    return Environment(work.paths.store, work.disk, work.map_bytes)


def _unusable(work: Start) -> str | None:
    """Why the store cannot be opened as it is; None when it can. A newer format is no damage: StoreError."""
    inspection = inspect(work.paths.store / "data.mdb")
    if not inspection.opens:
        return inspection.state.value
    findings = probe(work.paths.store, work.probe_deadline_s)
    if findings.fault:
        return _with_length(findings, inspection.pages_missing)
    require_known(findings.format)
    if findings.cluster_id not in ("", work.paths.cluster_id):
        return f"it is of cluster {findings.cluster_id}"
    work.damaged = frozenset(map(bytes.fromhex, findings.damaged))
    work.faults = tuple(findings.faults)
    work.hashed = findings.format == FORMAT and not work.damaged
    return None


def _with_length(findings: Findings, pages_missing: int) -> str:
    return f"{findings.fault}; {pages_missing} pages are missing at its end" if pages_missing else findings.fault


def _create(work: Start, generation: int) -> None:
    """A new store, made aside and moved into place, so that a crash leaves none or a whole one."""
    new = work.paths.temporary / "store.new"
    work.disk.make_directory(new)
    environment = Environment(new, work.disk, work.map_bytes)
    try:
        with environment.write() as transaction:
            meta.create(transaction, work.paths.cluster_id, generation)
    finally:
        environment.close()
    work.disk.sync_directory(new)
    work.disk.rename(new, work.paths.store)


def _empty(directory: Path, disk: Disk) -> None:
    """rules L8: what a dead process left."""
    for entry in directory.iterdir():
        disk.remove(entry)


def _migrate(work: Start, environment: Environment) -> None:
    with environment.read() as transaction:
        found = meta.read_format(transaction)
    if found != FORMAT:
        with environment.write() as transaction:
            migrate(transaction.lmdb, found, STEPS)
            meta.write_format(transaction, FORMAT)
        work.note(Happened.STORE_MIGRATED, detail=f"format {found} to {FORMAT}")


# ---- floors and store


def _settle(work: Start, environment: Environment, floors: Floors, enrolled: Enrolment | None) -> None:
    """Bring floors and store together; one transaction when anything is to be changed, none when nothing is."""
    with environment.read() as transaction:
        _note_floors(work, transaction, floors, lost=_are_floors_lost(transaction, floors, enrolled))
        quiet = not (work.found or work.damaged or work.faults or _is_unsettled(transaction, floors.record))
    if not quiet:
        with environment.write() as transaction:
            _reconcile(transaction, work, floors)
    _drop_unfinished_candidates(environment)
    with environment.read() as transaction:
        effective = with_minimum(
            with_recovered_marks(transaction, floor_of_store(transaction, floors.record)), enrolled
        )
    _write_floors(floors, effective)


def _are_floors_lost(transaction: LmdbTransaction, floors: Floors, enrolled: Enrolment | None) -> bool:
    """Whether neither file can be read though there must have been one: status `floor_lost` (threats D-24)."""
    if floors.found:
        return False
    return bool(floors.faults) or enrolled is not None or transaction.count("scopes") > 0


def _is_unsettled(transaction: LmdbTransaction, record: FloorRecord) -> bool:
    """Whether the store lacks anything that the floors have."""
    if any(nonce not in set(trust.nonces(transaction)) for nonce in record.used_nonces):
        return True
    return any(is_above(transaction, scope, floor, record) for scope, floor in record.scopes.items())


def _note_floors(work: Start, transaction: LmdbTransaction, floors: Floors, *, lost: bool) -> None:
    faults = "; ".join([*floors.faults, *behind_store(transaction, floors.record)])
    if lost:
        work.note(Happened.FLOOR_LOST, detail=faults or "no floor file is there")
    elif faults:
        work.note(Happened.FLOOR_REPAIRED, detail=faults)


def _reconcile(transaction: LmdbTransaction, work: Start, floors: Floors) -> None:
    """Every change that a start makes, and its events."""
    met = {finding.happened for finding in work.found}
    if Happened.FLOOR_LOST in met:
        meta.change(transaction, floor_lost=True)
    if work.faults:
        mend(transaction, work.now)
        work.note(Happened.RECORD_LOST, detail="; ".join(work.faults))
    finished = roll_forward(transaction, floors.record, work.now)
    for scope in hold(transaction, floors.record):
        if Happened.STORE_REBUILT not in met:
            work.note(Happened.STORE_REGRESSED, scope, "the floor is above the store")
    for finding in work.found:
        journal.append(transaction, finding.happened, work.now, finding.scope, finding.detail)
    # These two have written their events themselves.
    fallen = leave_damaged(transaction, work.damaged, work.now)
    work.found += [StartFinding(Happened.ROLLED_FORWARD, scope) for scope in finished]
    work.found += [StartFinding(happened, scope) for scope, happened in fallen.items()]


def _drop_unfinished_candidates(environment: Environment) -> None:
    """They would take room from candidates that come. A full disk leaves them half received, and may refuse this as
    well: then they lie there until the next start, or until they are fetched again, and the node starts all the same.
    """
    with environment.read() as transaction:
        scopes = pending.unfinished_candidates(transaction)
    if scopes:
        with contextlib.suppress(StoreError), environment.write(WriteRoom.GARBAGE) as transaction:
            pending.discard_candidates(transaction, scopes)


def with_minimum(record: FloorRecord, enrolled: Enrolment | None) -> FloorRecord:
    """Never below what enrolment fixed (threats D-19)."""
    if enrolled is None:
        return record
    minimum = TimeFloor(enrolled.minimum_epoch, float(enrolled.minimum_time), "", 0.0)
    present = record.time_floor
    return replace(
        record,
        authority_epoch=max(record.authority_epoch, enrolled.minimum_epoch),
        bundle_version=max(record.bundle_version, enrolled.minimum_bundle_version),
        time_floor=minimum if present is None or present.order < minimum.order else present,
    )


def _write_floors(floors: Floors, effective: FloorRecord) -> None:
    """Write what the files lack. A new pair is written twice, so that both are there from the first day."""
    created = not floors.found
    if created or floors.faults or not floors.record.covers(effective):
        floors.write(effective)
    if created:
        floors.write(effective)

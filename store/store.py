"""The durable store of one cluster: what is kept, and the one way to change it.

    with Root.open(path) as root:
        store = Store.open(root, cluster_id, now=now)
        slot = store.receive(scope)                 bytes into the pending slot
        verified = verify(slot.parts(), holder, ...)
        store.activate(verified, now=now, boot=boot)    floors raised, then one transaction
        with store.read() as reading: ...           one consistent view, with its generation

Synchronous and for one writing thread; reads may come from any. Nothing here reads a clock. Reading the source:
`activation.py` (the swap), `startup.py` (from the disk to an open store), `reconcile.py` (floors and store),
`probation.py` (the way back), `pending.py` (a document on its way in), `fallback.py` (damage), `garbage.py`.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Self, TypeVar

from snapshot.envelope import RECOVERY, SNAPSHOT
from snapshot.frozen import frozen
from snapshot.identifiers import HEAD
from snapshot.limits import DEFAULT, Limits
from snapshot.verifier_state import Mark
from snapshot.verify import Verified
from store import activation, eviction, leftovers, probation, reconcile
from store.activation import BundleFacts
from store.base import blobs, enrolment, failed_content, meta, pending, trust
from store.base.disk import refusal
from store.base.documents import StoredDocument, StoreReading, document, put_scope, scope_record
from store.base.enrolment import Enrolment
from store.base.environment import MAP_BYTES, Environment, LmdbTransaction, WriteRoom
from store.base.errors import StoreError, StoreFault
from store.base.floors import FloorRecord, Floors
from store.base.journal import Happened, Journal, append
from store.base.layout import ClusterPaths, Root
from store.base.pending import HeldCandidate, HeldCandidates, Pending, SlotContent, Waiting
from store.base.presence import SlotPresence
from store.base.probation import after_start, probations, put_probation, start_fault
from store.base.records import (
    FailedContent,
    PendingRecord,
    ProbationRecord,
    ProbationTerms,
    ScopeRecord,
    digest_from_name,
    name_of,
)
from store.base.rejections import Rejections
from store.base.tables import Name, Table
from store.base.timefloor import Boot, TimeFloor
from store.fsck import fallback
from store.fsck.probe import DEADLINE_S
from store.fsck.scrub import Scrubber
from store.garbage import GarbageCollector
from store.startup import Start, StartFinding, start, with_minimum
from store.watch import GenerationChange, Watch

T = TypeVar("T")

MOST_PARSED = 256
TIME_FLOOR_S = 1.0  # that a time floor may be behind: all times that are compared with it are whole seconds
NO_PROBATIONS: Mapping[str, ProbationTerms] = {}
NO_ROWS: Mapping[str, object] = {}
REPAIR_SCOPES = frozenset({HEAD, activation.BUNDLE_SCOPE})  # what takes a stolen key away


@frozen
class HolderState:
    """What `snapshot.verifier_state.VerifierState` asks of a store, read in one transaction."""

    generation: int
    marks: Mapping[str, Mark]
    active: Mapping[str, StoredDocument]
    recoveries: tuple[bytes, ...]
    used_nonces: frozenset[str]
    lost: frozenset[str]
    returned: Mapping[str, Mark] = field(default_factory=dict)
    probations: Mapping[str, ProbationRecord] = field(default_factory=dict)
    reverted: frozenset[str] = frozenset()  # what serves is what they went back to
    quarantine: Mapping[str, frozenset[str]] = field(default_factory=dict)  # content hashes by scope


class Store:
    """The public face. Made by `Store.open`; `findings` says what the start met."""

    def __init__(self, root: Root, paths: ClusterPaths, environment: Environment, floors: Floors) -> None:
        self.paths = paths
        self.findings: tuple[StartFinding, ...] = ()
        self.hashed_at_start = False  # every blob, by the child that looked first (fsck/walk.py); none was damaged
        self._root = root
        self._environment = environment
        self._floors = floors
        self._documents: dict[bytes, StoredDocument] = {}
        self._slots: dict[str, Pending] = {}  # the last one that was opened in each scope
        self._waiting, self._candidates = SlotPresence(), SlotPresence()
        self._finished: FloorRecord | None = None  # floors that name nothing that is not made
        self.journal = Journal(environment)
        self.rejections = Rejections(environment)
        self.garbage = GarbageCollector(environment)
        self.scrub = Scrubber(environment)
        with self.read() as reading:
            self.incarnation = reading.incarnation
            self.watch = Watch(reading.generation)

    @classmethod
    def open(
        cls,
        root: Root,
        cluster_id: str,
        *,
        now: float,
        map_bytes: int = MAP_BYTES,
        probe_deadline_s: float = DEADLINE_S,
    ) -> Self:
        """The store, whatever state the disk is in. StoreError: bad_identifier, bad_permissions, store_locked,
        store_format_newer, probe_failed, store_full, store_io; damage is no error but a finding.
        """
        paths = root.make_cluster(cluster_id)
        root.enter(cluster_id)
        try:
            work = Start(paths, root.disk, now, map_bytes, probe_deadline_s)
            environment, floors, _ = start(work)
        except OSError as error:
            root.leave(cluster_id)
            raise refusal(error) from error
        except BaseException:
            root.leave(cluster_id)
            raise
        store = cls(root, paths, environment, floors)
        store.findings, store.hashed_at_start = tuple(work.found), work.hashed
        return store

    def close(self) -> None:
        self._environment.close()
        self._root.leave(self.paths.cluster_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- reading

    @contextlib.contextmanager
    def read(self) -> Iterator[StoreReading]:
        """One consistent view. Keep the block short, on one thread, without an `await`."""
        with self._environment.read() as transaction:
            yield StoreReading(transaction)

    @property
    def commit_number(self) -> int:
        """The number of the last commit: what was read at that number is what a reading would give now. Begins none."""
        return self._environment.commit_number

    def active(self, scope: str) -> StoredDocument | None:
        """The active document; it may be kept and read from after the next swap, until its blobs are garbage."""
        with self.read() as reading:
            record = reading.scope(scope)
            return self._document(reading, record.active) if record and record.active else None

    def standing(self) -> HolderState:
        """Marks, active documents, recoveries, nonces and lost scopes at one moment.

        A mark is the higher of store and floors, so one whose swap failed counts as accepted: `resume` finishes it.
        """
        with self._environment.read() as transaction:
            reading = StoreReading(transaction)
            scopes = reading.scopes()
            floors = reconcile.floor_of_store(transaction, self._floors.record)
            return HolderState(
                reading.generation,
                {scope: floor.mark for scope, floor in floors.scopes.items()},
                self._active_documents(reading, scopes.values()),
                trust.containers(transaction),
                floors.used_nonces,
                reading.lost_scopes(),
                {scope: floor.returned for scope, floor in floors.scopes.items() if floor.returned is not None},
                {row.scope: row for row in probations(transaction)},
                reading.reverted_scopes(),
                _by_scope(reading.in_quarantine()),
            )

    def get(self, content_hash: str) -> bytes:
        """A blob by `sha256:<hex>`, hashed now. StoreError: not_found, store_corrupt."""
        return self._blob(digest_from_name(content_hash))

    def set(self, data: bytes) -> str:
        """Keep bytes durably under their hash. Garbage unless a document or slot refers to them."""
        return name_of(self._write(lambda transaction: blobs.put(transaction, data), WriteRoom.SCOPES))

    def table(self, name: Name) -> Table:
        return Table(self._environment, name)

    def fill_level(self) -> float:
        """The share of the map in use, 0..1; garbage is collected from 0.8 (rules, Numbers)."""
        return self._environment.fill_level()

    # ---- pending

    def receive(self, scope: str, *, now: float, limits: Limits = DEFAULT, kind: str = SNAPSHOT) -> Pending:
        """A fresh slot. An activation that the floors name is finished first, so that its slot is not lost."""
        if self.is_unfinished:
            self.resume(now)
        return self._open_slot(None, PendingRecord(scope, repair=scope in REPAIR_SCOPES or kind == RECOVERY), limits)

    def receive_candidate(self, scope: str, *, room: int, limits: Limits = DEFAULT) -> Pending:
        """A fresh slot beside those of what is to run. `room`: how many bytes are left for candidates."""
        record = PendingRecord(scope, candidate=True)
        return Pending(self._environment, self._write_candidate, None, record, limits, room, self._waiting.note_commit)

    def pending(self) -> list[SlotContent]:
        with self._environment.read() as transaction:
            return pending.slot_contents(transaction)

    def waiting(self) -> Mapping[str, Waiting]:
        """The snapshots that wait for their `valid_from`, by scope, for who only looks."""
        return self._waiting.look(lambda: pending.waiting(self._environment))

    @property
    def may_have_waiting(self) -> bool:
        """False: none waits. It reads nothing, so that it may be asked anywhere."""
        return self._waiting.is_possible

    def candidates(self) -> HeldCandidates:
        """What the head lists as coming and lies here."""
        return self._candidates.look(lambda: pending.candidates(self._environment))

    @property
    def may_have_candidates(self) -> bool:
        """Likewise."""
        return self._candidates.is_possible

    def candidate(self, scope: str) -> HeldCandidate | None:
        """Likewise, of one scope."""
        return pending.candidate(self._environment, scope)

    def drop_candidates(self, scopes: Collection[str]) -> None:
        """What nobody lists any more, neither to come nor to run."""
        if scopes:
            self._write(lambda transaction: pending.discard_candidates(transaction, scopes))

    def slot(self, scope: str, envelope_hash: str, limits: Limits = DEFAULT) -> Pending | None:
        """The durable slot that holds that envelope, for a second verification; None when none does."""
        with self._environment.read() as transaction:
            found = pending.find(transaction, scope, digest_from_name(envelope_hash))
        return self._open_slot(found[0], found[1], limits) if found else None

    def _open_slot(self, slot: int | None, record: PendingRecord, limits: Limits) -> Pending:
        write = self._write_candidate if record.candidate else self._write_slot
        opened = Pending(self._environment, write, slot, record, limits, note_waiting=self._waiting.note_commit)
        if not record.candidate:
            self._slots[record.scope] = opened
        return opened

    # ---- changing what is active

    def activate(
        self,
        *verified: Verified,
        now: float,
        boot: Boot,
        probations: Mapping[str, ProbationTerms] = NO_PROBATIONS,
        beside: Mapping[str, object] = NO_ROWS,
    ) -> int:
        """Make one or several documents active, all or none; returns the new generation. `probations`: by scope, on
        which terms new content is on probation. `beside`: rows of the health table that are written with it, for
        people; one that is too large stays as it was.

        StoreError: conflict, not_durable, store_full, store_io; then active, previous and marks are as before, and
        if only the last step failed, `is_unfinished` is true and `resume` finishes it.
        """
        if not verified or not all(isinstance(document, Verified) for document in verified):
            raise TypeError("the store activates what snapshot.verify has verified, and nothing else")
        promotions = [activation.promotion_of(document, probations.get(document.scope)) for document in verified]
        facts = next((activation.bundle_facts(document.bundle) for document in verified if document.bundle), None)
        again = {(promotion.scope, name_of(promotion.digest)) for promotion in promotions}
        if self.is_unfinished and not self._floors.record.names_none_but(again):
            self.resume(now)  # the floors name one activation alone, and are about to name this one
        for brought in verified:
            self._seal(brought, now)

        def swap(transaction: LmdbTransaction) -> int:
            generation = activation.swap(
                transaction, promotions, self._floors.record, now, Happened.APPLIED, self.document_at_hand, boot
            )
            leftovers.leave(transaction, verified)
            self.table(Name.HEALTH).put_beside(transaction, beside)
            ceiling = facts or self._bundle_facts(transaction)
            record = activation.floors_after(self._floors.record, promotions, generation, ceiling, boot)
            meta.write_floor(transaction, record)
            transaction.refuse_full()
            self._raise_floors(record)
            return generation

        is_repair = all(document.scope in REPAIR_SCOPES for document in verified)
        room = WriteRoom.REPAIR if is_repair else WriteRoom.SCOPES
        generation = self._write(swap, room, {promotion.digest for promotion in promotions})
        self._finished = self._floors.record
        for promotion in promotions:
            self._slots.pop(promotion.scope, None)
            self._remember(StoredDocument.of(promotion.record, self._blob, promotion.state, promotion.envelope))
        return self._announce(generation, tuple(promotion.scope for promotion in promotions))

    @property
    def is_unfinished(self) -> bool:
        """The floors name an activation that the store could not make: its slots wait for `resume`. What was finished
        once stays so, until the floors are raised again.
        """
        record = self._floors.record
        if record is self._finished:
            return False
        with self._environment.read() as transaction:
            is_unfinished = reconcile.is_unfinished(transaction, record)
        if not is_unfinished:
            self._finished = record
        return is_unfinished

    def resume(self, now: float) -> tuple[str, ...]:
        """Finish what the floors name, if its slots are whole; the scopes that are active now because of it."""
        if self._floors.uncertain:
            self._raise_floors(self._floors.record)
        scopes = self._write(lambda transaction: reconcile.roll_forward(transaction, self._floors.record, now))
        if scopes:
            with self.read() as reading:
                self._announce(reading.generation, scopes)
        return scopes

    def withdraw(self, *scopes: str, now: float) -> int:
        """The head no longer lists them: gone in one transaction, marks stay (rules S3). The generation then."""

        if self.is_unfinished:
            self.resume(now)

        def leave(transaction: LmdbTransaction) -> tuple[int, tuple[str, ...]]:
            for scope in scopes:
                pending.discard_scope(transaction, scope)
            records = [record for scope in scopes if (record := scope_record(transaction, scope)) is not None]
            held = [record for record in records if not record.withdrawn]
            if not held:
                return meta.read(transaction).generation, ()
            generation = meta.read(transaction).generation + 1
            meta.change(transaction, generation=generation)
            for record in held:
                gone = replace(record, active=None, previous=None, generation=generation, withdrawn=True)
                put_scope(transaction, replace(gone, on_previous=False))
                probation.forget(transaction, record.scope)
                append(transaction, Happened.WITHDRAWN, now, record.scope)
            return generation, tuple(record.scope for record in held)

        return self._announce(*self._write(leave))

    def fall_back(self, scope: str, *, now: float, cause: str) -> Happened | None:
        """The active document turned out to be damaged: previous serves by rules L34, or nothing does."""
        happened = self._write(lambda transaction: fallback.fall_back(transaction, scope, now, cause))
        if happened is not None:
            with self.read() as reading:
                self._announce(reading.generation, (scope,))
        return happened

    # ---- probation, and the way back

    def note_start(self, boot: Boot, now: float) -> dict[str, str]:
        """The agent has started: probations go on by this boot's clock. By scope, why so many starts fail one."""

        def note(transaction: LmdbTransaction) -> dict[str, str]:
            rows = [after_start(row, boot, now) for row in list(probations(transaction))]
            for row in rows:
                put_probation(transaction, row)
            return {row.scope: fault for row in rows if (fault := start_fault(row))}

        return self._write(note) if self._has_probations() else {}

    def note_stop(self) -> None:
        """The agent ends in order: its next start shows nothing bad of what is on probation."""

        def note(transaction: LmdbTransaction) -> None:
            for row in list(probations(transaction)):
                put_probation(transaction, replace(row, is_stopped=True))

        if self._has_probations():
            self._write(note)

    def pass_probation(self, *scopes: str, now: float) -> tuple[str, ...]:
        """Their time is over: what is active of them is good. Those that were on probation."""
        return self._write(
            lambda transaction: tuple(scope for scope in scopes if probation.pass_probation(transaction, scope, now))
        )

    def revert(
        self, *scopes: str, check: str, detail: str, now: float, serves: probation.Serves = lambda _: True
    ) -> dict[str, Happened]:
        """What `check` says has failed: the newest good content serves again, in one transaction, or stays where there
        is none. By scope, of those that were on probation. An activation that the floors name comes first.
        """
        if self.is_unfinished:
            with contextlib.suppress(StoreError):
                self.resume(now)

        def go_back(transaction: LmdbTransaction) -> tuple[dict[str, Happened], int]:
            happened = probation.revert(transaction, scopes, check, detail, now, serves)
            return happened, meta.read(transaction).generation

        happened, generation = self._write(go_back)
        back = tuple(scope for scope, what in happened.items() if what is Happened.REVERTED)
        if back:
            self._announce(generation, back)
        return happened

    def is_good(self, scope: str, content_hash: str) -> bool:
        """Whether that content is among what of the scope has proved itself here."""
        with self.read() as reading:
            return any(name_of(entry.content) == content_hash for entry in reading.good(scope))

    def clear_quarantine(self, scope: str, *, now: float, by: str) -> tuple[FailedContent, ...]:
        """A person says that what is in it may be tried again, which the journal keeps. What was in it."""

        def clear(transaction: LmdbTransaction) -> tuple[FailedContent, ...]:
            held = tuple(failed_content.clear_quarantine(transaction, scope))
            for failed in held:
                words = f"epoch {failed.authority_epoch} version {failed.config_version}, by {by}"
                append(transaction, Happened.QUARANTINE_CLEARED, now, scope, words)
            return held

        return self._write(clear)

    # ---- trust, time and floors

    def keep_recovery(self, verified: Verified, *, now: float) -> None:
        """A verified recovery is kept as it came, for the swap that it allows and the check at start (rules S87)."""
        if verified.kind != RECOVERY:
            raise TypeError("only a recovery is kept; other documents are activated")
        self._write(lambda transaction: trust.keep_recovery(transaction, verified, now))

    @property
    def floors(self) -> FloorRecord:
        return self._floors.record

    @property
    def time_floor(self) -> TimeFloor | None:
        return self._floors.record.time_floor

    def save_time_floor(self, boot: Boot) -> None:
        """At each check-in: how far the floor has come in this boot (rules A17)."""
        floor = self._floors.record.time_floor
        if floor is not None and self.is_time_floor_behind(boot):
            reached = TimeFloor(floor.epoch, floor.at(boot), boot.boot_id, boot.elapsed)
            self._raise_floors(replace(self._floors.record, time_floor=reached))

    def is_time_floor_behind(self, boot: Boot) -> bool:
        """A swap has often written it a moment ago: what is less than a second behind is not written again. It reads
        nothing, so that it may be asked anywhere.
        """
        floor = self._floors.record.time_floor
        return floor is not None and (floor.boot_id != boot.boot_id or floor.at(boot) - floor.time >= TIME_FLOOR_S)

    @property
    def is_floor_lost(self) -> bool:
        """Both floor files were lost: no increments until a full snapshot has been confirmed (threats D-24)."""
        with self.read() as reading:
            return reading.meta.floor_lost

    def confirm_floors(self) -> None:
        """The coordinator has confirmed what is active."""
        self._write(lambda transaction: meta.change(transaction, floor_lost=False))

    @property
    def enrolment(self) -> Enrolment | None:
        """StoreError store_corrupt when it is damaged."""
        return enrolment.read(self.paths.identity)

    def enrol(self, enrolled: Enrolment) -> None:
        """Keep what enrolment fixed, once, outside of LMDB. StoreError conflict where another stands."""
        if enrolled.cluster_id != self.paths.cluster_id:
            raise StoreError(StoreFault.CONFLICT, f"an enrolment in {enrolled.cluster_id}")
        try:
            enrolment.write(self.paths.identity, self.paths.temporary, self._root.disk, enrolled)
        except OSError as error:
            raise refusal(error) from error
        self._raise_floors(with_minimum(self._floors.record, enrolled))

    # ---- inside

    def _write(
        self,
        change: Callable[[LmdbTransaction], T],
        room: WriteRoom = WriteRoom.REPAIR,
        spared: Collection[bytes] = (),
    ) -> T:
        """One transaction. When it finds no room, garbage goes, then what gives way; each time it is tried again.

        `spared`: the digests of envelopes whose slots are what it is about.
        """
        let_go = partial(self._drop_all_candidates, spared)
        return self._write_after(
            change, room, (self._collect_garbage, let_go, self._drop_good, self._drop_previous, self._drop_active)
        )

    def _write_slot(self, change: Callable[[LmdbTransaction], None], room: WriteRoom) -> None:
        """Likewise, and with it the head that waits for what it lists."""
        head = self._slots.get(HEAD)
        if head is None or not head.is_waiting_for_next or change == head.put:
            self._write(change, room)
            return

        def change_both(transaction: LmdbTransaction) -> None:
            change(transaction)
            head.put(transaction)

        self._write(change_both, room)
        head.mark_flushed()

    def _write_candidate(self, change: Callable[[LmdbTransaction], T], room: WriteRoom) -> T:
        """Likewise, and nothing gives way for it."""
        try:
            return self._write_after(change, room, (self._collect_garbage,))
        finally:
            self._candidates.note_commit()

    def _write_after(
        self, change: Callable[[LmdbTransaction], T], room: WriteRoom, making_room: Iterable[Callable[[], bool]]
    ) -> T:
        ways = iter(making_room)
        while True:
            try:
                with self._environment.write(room) as transaction:
                    return change(transaction)
            except StoreError as error:
                if error.fault is not StoreFault.STORE_FULL or not any(made_room() for made_room in ways):
                    raise

    def _collect_garbage(self) -> bool:
        try:
            if not self.garbage.run().removed:
                return False
            # LMDB gives the pages that a transaction freed to the next but one.
            with self._environment.write(WriteRoom.GARBAGE) as transaction:
                meta.change(transaction)
        except StoreError:
            return False
        return True

    def _drop_all_candidates(self, spared: Collection[bytes]) -> bool:
        return bool(self._give_way(partial(pending.let_candidates_go, spared=spared))) and self._collect_garbage()

    def _drop_good(self) -> bool:
        return bool(self._give_way(eviction.let_good_go)) and self._collect_garbage()

    def _drop_previous(self) -> bool:
        """By what the roots have announced: the floor of the epoch is no word of a config key."""
        gone = self._give_way(partial(eviction.let_previous_go, epoch=self._floors.record.authority_epoch))
        return bool(gone) and self._collect_garbage()

    def _drop_active(self) -> bool:
        gone = self._give_way(partial(eviction.let_active_go, epoch=self._floors.record.authority_epoch))
        if gone:
            with self.read() as reading:
                self._announce(reading.generation, gone)
        return bool(gone) and self._collect_garbage()

    def _give_way(self, let_go: Callable[[LmdbTransaction], tuple[str, ...]]) -> tuple[str, ...]:
        try:
            with self._environment.write(WriteRoom.GARBAGE) as transaction:
                return let_go(transaction)
        except StoreError:
            return ()

    def _raise_floors(self, record: FloorRecord) -> None:
        try:
            self._floors.write(record)
        except OSError as error:
            raise refusal(error) from error

    def _seal(self, verified: Verified, now: float) -> None:
        """What is promoted lies in a slot, whole and durable, before the floors name it."""
        slot = self._slots.get(verified.scope)
        if slot is not None and slot.envelope_hash == verified.envelope_hash and slot.record.sealed:
            slot.flush()
        elif slot is not None and slot.envelope_hash in ("", verified.envelope_hash):
            slot.complete(verified)
        with self._environment.read() as transaction:
            if slot is not None and slot.envelope_hash == verified.envelope_hash and slot.lies_durable(transaction):
                return
            found = pending.find(transaction, verified.scope, digest_from_name(verified.envelope_hash))
        if found is None or not found[1].sealed:
            self.receive(verified.scope, now=now).complete(verified)

    def _bundle_facts(self, transaction: LmdbTransaction) -> BundleFacts | None:
        record = scope_record(transaction, activation.BUNDLE_SCOPE)
        if record is None or record.active is None:
            return None
        known = self.document_at_hand(record.active) or document(transaction, record.active, self._blob)
        held = known.envelope
        return BundleFacts(held.config_version, 0, held.issued_at, held.expires_at)

    def _has_probations(self) -> bool:
        with self._environment.read() as transaction:
            return any(True for _ in probations(transaction))

    def _announce(self, generation: int, scopes: tuple[str, ...]) -> int:
        self.watch.tell(GenerationChange(generation, scopes))
        return generation

    def _active_documents(self, reading: StoreReading, scopes: Iterable[ScopeRecord]) -> dict[str, StoredDocument]:
        """By scope. What is active no more is not kept: a large one would stay in memory with all that followed it."""
        found = {scope.scope: self._document(reading, scope.active) for scope in scopes if scope.active}
        self._documents = {document.digest: document for document in found.values()}
        return found

    def _document(self, reading: StoreReading, digest: bytes) -> StoredDocument:
        """Documents are immutable, so what was parsed once is kept."""
        held = self._documents.get(digest)
        if held is None:
            held = replace(reading.document(digest), fetch=self._blob)
            self._remember(held)
        return held

    def document_at_hand(self, digest: bytes) -> StoredDocument | None:
        """What was parsed already; nothing is read for it. A manifest of 20,000 sections takes a tenth of a second and
        8 MiB, so all who read share one.
        """
        return self._documents.get(digest)

    def _remember(self, held: StoredDocument) -> None:
        if len(self._documents) >= MOST_PARSED:
            self._documents = {}
        self._documents[held.digest] = held

    def _blob(self, digest: bytes) -> bytes:
        with self._environment.read() as transaction:
            return blobs.get(transaction, digest)


def _by_scope(failed: Iterable[FailedContent]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for entry in failed:
        found[entry.scope] = found.get(entry.scope, frozenset()) | {entry.content_hash}
    return found

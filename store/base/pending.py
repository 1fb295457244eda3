"""The pending slot: where a document lies from its first byte until it is activated (rules S66, L39).

One slot for each scope receives; one more may hold a snapshot that waits for its `valid_from` (rules X26), and one
more a candidate: what the head says is coming, which is judged and stays until it is listed to be run. A
download that fails evicts neither what is active nor what waits. Sections go to the content-addressed blobs in
batches, so a document of any size passes in bounded memory; what was flushed survives a crash. One that fits into a
transaction is judged as it came, from memory: to read it back costs as much as to write it. It is durable before, but
for one that is to be activated with another (`seal`): its rows go into the next slot's transaction, or into one of
their own before the floors name it (`Store.activate`). A head waits so for what it lists, and spares a commit.

A batch is written in the order of its digests, so many sections a transaction. LMDB keeps the memory of every page that
a transaction has written to for the next one, as long as the store is open: 16,000 small sections in the order of
their names write to every page of the table, and an agent was 15 MiB larger for good. In order, neighbours share
pages, of which there are fewer, and the largest transaction has a MiB or two of them.

Slots are counted, and what waits is, in number and bytes: a key that signs scopes could fill any of them. What takes
that key away again (trust bundle, recovery, head) has slots and bytes that no scope can take (`PendingRecord.repair`).
Candidates are counted by themselves, so that they take nothing from what is to run; where the store is full they are
the first to go (`let_candidates_go`), since all of them can be fetched again.
Rejected: one count for all, with the oldest evicted: what waits was verified, and a newer lie would throw it out.
"""

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from snapshot import envelope as envelopes
from snapshot.container import End, ManifestRead, Opening, SectionRead
from snapshot.envelope import INCREMENT, SNAPSHOT, Envelope
from snapshot.frozen import frozen, mutable, replace_members
from snapshot.limits import MIB, Limits
from snapshot.reasons import Reason, Rejected
from store.base import blobs, meta
from store.base.environment import Environment, LmdbTransaction, WriteRoom
from store.base.errors import StoreError, StoreFault
from store.base.records import PendingRecord, name_of, pack, scope_key, unpack

if TYPE_CHECKING:
    from snapshot.verify import Verified

Write = Callable[[Callable[[LmdbTransaction], None], WriteRoom], None]  # a change, made in one transaction

FLUSH_BYTES = 4 << 20  # in memory
ROW_BYTES = 768  # that a section counts for beside its bytes: what is small stays with the process when it goes
SECTIONS_AT_ONCE = 1024  # in a transaction
TOGETHER_BYTES = 64 << 10  # that are read from a slot at once
MOST_SLOTS = 1024
MOST_WAITING = MOST_SLOTS // 2
WAITING_SHARE = 4  # of the map, one part in so many
MOST_CANDIDATES = 1024
CANDIDATES_SHARE = 4  # of the map, one part in so many
REPAIR_SLOTS = 64  # beyond the others, for trust bundles, recoveries and heads
REPAIR_SECTION_BYTES = 2 * MIB  # a bundle has at most 1 MiB, the others have none

_TABLE = "pending"
_SLOT = struct.Struct(">Q")
_ROW = struct.Struct(">I")
_HEADER, _SECTION, _KEPT = b"h", b"s", b"k"
_RECEIVING, _WAITING, _CANDIDATE = b"receiving/", b"waiting/", b"candidate/"
_NAMES = (_RECEIVING, _WAITING, _CANDIDATE)


@frozen
class SlotContent:
    """What a slot holds, for lists and reports."""

    scope: str
    envelope_hash: str
    sealed: bool
    waiting_until: int
    received_at: float
    candidate: bool


class _Row(NamedTuple):
    """A section and its place: the so many-th that was received, or was kept."""

    digest: bytes
    data: bytes
    kind: bytes
    place: int


@mutable
class _Unflushed:
    """What was handed over and is not durable yet; `rows` but for those that are written ahead."""

    rows: list[_Row] = field(default_factory=list)
    sections: int = 0
    kept: int = 0
    size: int = 0


@mutable
class _AtHand:
    """A document of one transaction, as it came."""

    manifest: bytes = b""
    sections: list[bytes] = field(default_factory=list)


class Pending:
    """One slot. Fed with the container's parts, or by a verifier that keeps results in it while it reads."""

    def __init__(
        self,
        environment: Environment,
        write: Write,
        slot: int | None,
        record: PendingRecord,
        limits: Limits,
        room: int | None = None,
        note_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        """`room`: how many bytes it may take at most, where that is less than the limits allow. `note_waiting`: called
        once it waits.
        """
        self.slot = slot  # None until something of it is durable
        self.record = record
        self._environment = environment
        self._write = write
        self._limits = limits
        self._note_waiting = note_waiting
        # Received bytes and, apart from them, the results of patches: each at most the content limit.
        most = 2 * (REPAIR_SECTION_BYTES if record.repair else limits.content_bytes)
        self._most_bytes = most if room is None else min(most, room)
        self._unflushed = _Unflushed()
        self._at_hand: _AtHand | None = _AtHand() if slot is None else None
        self._digests: set[bytes] = set()  # of this process, to keep nothing twice
        self._held: frozenset[bytes] = frozenset()  # of one before, where the slot is opened again
        self._manifest = b""
        self._kept_rows = 0
        self._before = record.size  # what it held when it was opened
        self._beside = 0  # envelope and manifest
        self._size = 0
        self._dirty = slot is None
        self._reserved = 0
        if slot is not None:
            with environment.read() as transaction:
                self._held = frozenset(digests(transaction, slot, record))
                self._kept_rows = _next_place(transaction, slot, _KEPT)

    @property
    def scope(self) -> str:
        return self.record.scope

    @property
    def envelope_hash(self) -> str:
        return name_of(blobs.digest_of(self.record.envelope)) if self.record.envelope else ""

    # ---- what comes in

    def receive(self, part: Opening | ManifestRead | SectionRead | End) -> None:
        """The next part of the container, as `snapshot.container.Reader` gives it; `End` does not seal."""
        match part:
            case Opening():
                self._change(envelope=part.envelope, signatures=part.signatures)
            case ManifestRead():
                self._manifest = part.manifest
                if self._at_hand is not None:
                    self._at_hand.manifest = part.manifest
            case SectionRead():
                self._take(part.data)
            case End():
                pass

    def keep(self, name: str, data: bytes) -> None:
        """The final bytes of a section, as the verifier hands them over: a patch's result is new, the rest is here.

        The verifier has checked the hash; the store addresses by its own all the same.
        """
        del name  # content-addressed: the manifest has the names
        digest = blobs.digest_of(data)
        if digest not in self._digests and not self._is_held(digest):
            self._unflushed.kept += 1
            self._add(_Row(digest, data, _KEPT, self._kept_rows + self._unflushed.kept - 1))

    def _is_held(self, digest: bytes) -> bool:
        """Since it was judged before; what is damaged meanwhile is written again."""
        if digest not in self._held:
            return False
        with self._environment.read() as transaction:
            return blobs.is_whole(transaction, digest)

    def seal(self, received_at: float, *, with_next: bool = False) -> None:
        """The document is whole and durable now; it can be handed back as parts, also after a restart. `with_next`: it
        becomes durable with the next slot, or as soon as anybody asks for that.
        """
        if not self.record.envelope:
            raise StoreError(StoreFault.NOT_DURABLE, f"the slot of {self.scope} has no envelope yet")
        self._change(sealed=True, received_at=received_at)
        if not with_next or self._at_hand is None:
            self.flush()

    @property
    def is_waiting_for_next(self) -> bool:
        """Whole, and not durable yet."""
        return self.record.sealed and self.slot is None and self._dirty

    def complete(self, verified: "Verified") -> None:
        """What a verifier read straight from the stream and did not hand over: all but the sections it kept."""
        self._change(envelope=verified.envelope_bytes, signatures=verified.signatures)
        self._manifest = verified.manifest_bytes
        self._at_hand = None
        self.seal(verified.judged_at)

    def flush(self) -> None:
        """Everything handed over so far is durable when this returns."""
        if not self._dirty and not self._unflushed.size and not self._unflushed.sections:
            return
        rows = self._unflushed.rows = sorted(self._unflushed.rows, key=itemgetter(0))
        while len(rows) > SECTIONS_AT_ONCE:
            self._write(partial(self._put_ahead, rows[:SECTIONS_AT_ONCE]), self._room)
            self.slot = self._reserved
            del rows[:SECTIONS_AT_ONCE]
        self._write(self.put, self._room)
        self.mark_flushed()

    def lies_durable(self, transaction: LmdbTransaction) -> bool:
        """Whether all of it does, in the slot that is the scope's now."""
        is_written = self.record.sealed and self.slot is not None and not self._dirty and not self._unflushed.rows
        return is_written and transaction.get(_TABLE, _RECEIVING + scope_key(self.scope)) == _SLOT.pack(self.slot or 0)

    @property
    def _room(self) -> WriteRoom:
        return WriteRoom.REPAIR if self.record.repair else WriteRoom.SCOPES

    def put(self, transaction: LmdbTransaction) -> None:
        """Put what is unflushed; `mark_flushed` follows once the transaction is committed."""
        self._reserve(transaction)
        if self._manifest:
            self._beside = len(self.record.envelope) + len(self._manifest)
            self.record = replace_members(self.record, manifest=blobs.put(transaction, self._manifest))
        self._put_rows(transaction, self._unflushed.rows)
        self._put_header(transaction, self._with_what_was_unflushed())

    def _put_ahead(self, rows: Sequence[_Row], transaction: LmdbTransaction) -> None:
        """Some of what is unflushed. The slot says nothing of it before the last is there: a death in between leaves
        one that receives, or what it was before.
        """
        self._reserve(transaction)
        self._put_rows(transaction, rows)
        if self.slot is None:
            self._put_header(transaction, replace_members(self.record, sealed=False))

    def _reserve(self, transaction: LmdbTransaction) -> None:
        if self.record.candidate and self.slot is not None and not _is_named(transaction, self.scope, self.slot):
            raise StoreError(StoreFault.STORE_FULL, f"the candidate {self.scope} has given way to what is to run")
        self._reserved = self.slot if self.slot is not None else begin(transaction, self.record)

    def _put_rows(self, transaction: LmdbTransaction, rows: Sequence[_Row]) -> None:
        for digest, data, kind, place in rows:
            blobs.put_known(transaction, digest, data)
            transaction.put(_TABLE, _row(self._reserved, kind, place), digest)

    def _put_header(self, transaction: LmdbTransaction, record: PendingRecord) -> None:
        transaction.put(_TABLE, _SLOT.pack(self._reserved) + _HEADER, pack(record))

    def _with_what_was_unflushed(self) -> PendingRecord:
        sections = self.record.sections + self._unflushed.sections
        return replace_members(self.record, sections=sections, size=self._before + self._beside + self._size)

    def mark_flushed(self) -> None:
        self.slot = self._reserved
        self.record = self._with_what_was_unflushed()
        self._kept_rows += self._unflushed.kept
        self._unflushed = _Unflushed()
        self._manifest = b""
        self._dirty = False

    def _take(self, data: bytes) -> None:
        index = self.record.sections + self._unflushed.sections
        if index >= self._limits.sections:
            raise StoreError(StoreFault.TOO_LARGE, f"a slot takes at most {self._limits.sections} sections")
        self._unflushed.sections += 1
        self._add(_Row(blobs.digest_of(data), data, _SECTION, index))
        if index >= SECTIONS_AT_ONCE:
            self._at_hand = None
        elif self._at_hand is not None:
            self._at_hand.sections.append(data)

    def _add(self, row: _Row) -> None:
        self._digests.add(row.digest)
        self._size += len(row.data)
        if self._size > self._most_bytes:
            raise StoreError(StoreFault.TOO_LARGE, f"this slot takes at most {self._most_bytes} bytes")
        self._unflushed.rows.append(row)
        self._unflushed.size += len(row.data) + ROW_BYTES
        if self._unflushed.size >= FLUSH_BYTES:
            self._at_hand = None
            self.flush()

    def _change(self, **changes: object) -> None:
        self.record = replace_members(self.record, **changes)
        self._dirty = True

    # ---- what goes out

    def parts(self) -> "PendingParts":
        """The document for the verifier, read back one section at a time; for who asks first, of a small one, as it
        came.
        """
        if not self.record.sealed or (self.slot is None and not self.is_waiting_for_next):
            raise StoreError(StoreFault.NOT_DURABLE, f"the slot of {self.scope} is not sealed")
        if self._at_hand is None:
            self.flush()
        at_hand, self._at_hand = self._at_hand, None
        return PendingParts(self._environment, self.slot, self._with_what_was_unflushed(), at_hand)

    def wait(self, until: int) -> None:
        """Verified but for its `valid_from`: it stays, in place of what waited before (rules X26). StoreError
        too_large where too many wait already, or too much.
        """
        self._change(waiting_until=until, candidate=False)
        self._write(self._put_in_waiting, self._room)
        self.mark_flushed()
        self._note_waiting()

    def _put_in_waiting(self, transaction: LmdbTransaction) -> None:
        self.put(transaction)
        before = transaction.get(_TABLE, _WAITING + scope_key(self.scope))
        if before is not None and before != _SLOT.pack(self._reserved):
            forget(transaction, _SLOT.unpack(before)[0])
        if not self.record.repair:
            self._refuse_too_many(transaction)
        transaction.put(_TABLE, _WAITING + scope_key(self.scope), _SLOT.pack(self._reserved))
        for name in (_RECEIVING, _CANDIDATE):
            _release(transaction, name, self.scope, self._reserved)

    def _refuse_too_many(self, transaction: LmdbTransaction) -> None:
        waiting = [record for _, record in _headers(transaction, _WAITING) if record.scope != self.scope]
        most_bytes = self._environment.map_bytes // WAITING_SHARE
        if len(waiting) >= MOST_WAITING:
            raise StoreError(StoreFault.TOO_LARGE, f"at most {MOST_WAITING} documents wait")
        if sum(record.size for record in waiting) + self.record.size > most_bytes:
            raise StoreError(StoreFault.TOO_LARGE, f"what waits for its time has at most {most_bytes} bytes")

    def drop(self) -> None:
        """Forget it: refused, or no longer wanted. Its bytes go with the garbage."""
        self._unflushed, self._at_hand, self._dirty, slot = _Unflushed(), None, False, self.slot
        if slot is not None:
            self._write(lambda transaction: discard(transaction, self.scope, slot), WriteRoom.REPAIR)


class PendingParts:
    """`snapshot.container.Parts` of a sealed slot. `at_hand`: what lies in it, as it came."""

    def __init__(
        self, environment: Environment, slot: int | None, record: PendingRecord, at_hand: _AtHand | None = None
    ) -> None:
        self._environment = environment
        self._slot = slot
        self._record = record
        self._at_hand = at_hand

    def opening(self) -> Opening:
        return Opening(self._record.envelope, self._record.signatures)

    def manifest(self) -> bytes:
        if self._at_hand is not None:
            return self._at_hand.manifest
        with self._environment.read() as transaction:
            return blobs.get(transaction, self._record.manifest)

    def sections(self, sizes: Sequence[int]) -> Iterator[bytes]:
        """The sections as received; another number or size than signed is the verifier's step 6."""
        if len(sizes) != self._record.sections:
            raise _mismatch(f"{len(sizes)} sections", self._record.sections)
        index = 0
        while index < len(sizes):
            for data in self._read_some(index, sizes):
                if len(data) != sizes[index]:
                    raise _mismatch(f"a section of {sizes[index]} bytes", len(data))
                yield data
                index += 1

    def _read_some(self, index: int, sizes: Sequence[int]) -> Sequence[bytes]:
        """From there on, small ones together: a transaction for each costs as much as to read it. None is left open
        while they are judged.
        """
        if self._at_hand is not None:
            return self._at_hand.sections[index:]
        found: list[bytes] = []
        together = 0
        with self._environment.read() as transaction:
            while not found or (index < len(sizes) and together + sizes[index] <= TOGETHER_BYTES):
                found.append(self._section(transaction, index))
                together += len(found[-1])
                index += 1
        return found

    def _section(self, transaction: LmdbTransaction, index: int) -> bytes:
        digest = None if self._slot is None else transaction.get(_TABLE, _row(self._slot, _SECTION, index))
        if digest is None:
            raise StoreError(StoreFault.STORE_CORRUPT, f"section {index} of a pending document is missing")
        return blobs.get(transaction, digest)


@frozen
class Waiting:
    """A snapshot that has passed all steps but that its time has not come, to be looked at (rules X26)."""

    scope: str
    envelope_hash: str
    until: int
    envelope: bytes
    parts: PendingParts = field(compare=False)


def waiting(environment: Environment) -> dict[str, Waiting]:
    """By scope. Who looks changes nothing: what is judged again is opened by `Store.slot`."""
    with environment.read() as transaction:
        return {
            record.scope: Waiting(
                record.scope,
                name_of(blobs.digest_of(record.envelope)),
                record.waiting_until,
                record.envelope,
                PendingParts(environment, slot, record),
            )
            for slot, record in _headers(transaction, _WAITING)
            if record.sealed
        }


@frozen
class HeldCandidate:
    """A candidate that lies whole in its slot, verified once."""

    scope: str
    envelope_hash: str
    envelope: bytes

    @property
    def document(self) -> Envelope | None:
        return read_envelope(self.envelope)


@frozen
class HeldCandidates:
    """By scope; how many bytes there is still room for; and the scopes of those that are not whole: one that comes in
    now, or what is left of one that failed where the disk did not let it go.
    """

    by_scope: Mapping[str, HeldCandidate]
    room: int
    unfinished: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.by_scope) + len(self.unfinished)


def candidates(environment: Environment) -> HeldCandidates:
    """Those that are whole."""
    with environment.read() as transaction:
        records = [record for _, record in _headers(transaction, _CANDIDATE)]
    held = {record.scope: _candidate_of(record) for record in records if record.sealed}
    room = environment.map_bytes // CANDIDATES_SHARE - sum(record.size for record in records)
    return HeldCandidates(held, room, tuple(record.scope for record in records if not record.sealed))


def candidate(environment: Environment, scope: str) -> HeldCandidate | None:
    """The whole one of that scope. No other slot is looked at: a head may release a thousand scopes, one by one."""
    with environment.read() as transaction:
        found = _slot_by_name(transaction, _CANDIDATE, scope)
    return _candidate_of(found[1]) if found is not None and found[1].sealed else None


def _candidate_of(record: PendingRecord) -> HeldCandidate:
    return HeldCandidate(record.scope, name_of(blobs.digest_of(record.envelope)), record.envelope)


def read_envelope(data: bytes) -> Envelope | None:
    """Of a snapshot or an increment, as it lies in a slot."""
    for kind in (SNAPSHOT, INCREMENT):
        try:
            return envelopes.parse(data, kind)
        except Rejected:
            continue
    return None


def let_candidates_go(transaction: LmdbTransaction, spared: Collection[bytes] = ()) -> tuple[str, ...]:
    """The scopes whose candidates are forgotten; `spared`: digests of envelopes that are not."""
    found = [
        (slot, record.scope)
        for slot, record in _headers(transaction, _CANDIDATE)
        if not record.envelope or blobs.digest_of(record.envelope) not in spared
    ]
    for slot, scope in found:
        discard(transaction, scope, slot)
    return tuple(scope for _, scope in found)


def unfinished_candidates(transaction: LmdbTransaction) -> list[str]:
    """The scopes of those that are not whole: a process that died left them, and none goes on with another one's."""
    return [record.scope for _, record in _headers(transaction, _CANDIDATE) if not record.sealed]


def discard_candidates(transaction: LmdbTransaction, scopes: Iterable[str]) -> None:
    for scope in scopes:
        for slot, record in list(_slots_of(transaction, scope)):
            if record.candidate:
                discard(transaction, scope, slot)


def begin(transaction: LmdbTransaction, record: PendingRecord) -> int:
    """A new receiving slot of the scope, or one of a candidate; one of its kind before it is forgotten, others not."""
    name = (_CANDIDATE if record.candidate else _RECEIVING) + scope_key(record.scope)
    before = transaction.get(_TABLE, name)
    if before is not None:
        forget(transaction, _SLOT.unpack(before)[0])
        transaction.delete(_TABLE, name)
    _refuse_too_many_slots(transaction, record)
    slot = meta.read(transaction).next_slot
    meta.change(transaction, next_slot=slot + 1)
    transaction.put(_TABLE, name, _SLOT.pack(slot))
    return slot


def _refuse_too_many_slots(transaction: LmdbTransaction, record: PendingRecord) -> None:
    names = (_CANDIDATE,) if record.candidate else (_RECEIVING, _WAITING)
    most = MOST_CANDIDATES if record.candidate else MOST_SLOTS + REPAIR_SLOTS * record.repair
    if sum(1 for name in names for _ in transaction.items(_TABLE, name)) >= most:
        raise StoreError(
            StoreFault.TOO_LARGE, f"at most {most} {'candidates' if record.candidate else 'pending slots'}"
        )


def headers(transaction: LmdbTransaction) -> Iterator[tuple[int, PendingRecord]]:
    """Every slot: in use, waiting, or of a candidate."""
    for prefix in _NAMES:
        yield from _headers(transaction, prefix)


def _headers(transaction: LmdbTransaction, prefix: bytes) -> Iterator[tuple[int, PendingRecord]]:
    for _, slot in transaction.items(_TABLE, prefix):
        data = transaction.get(_TABLE, slot + _HEADER)
        if data is not None:
            yield _SLOT.unpack(slot)[0], unpack(PendingRecord, data)


def slot_contents(transaction: LmdbTransaction) -> list[SlotContent]:
    """What lies in each pending slot, without reading a chunk."""
    return [
        SlotContent(
            record.scope,
            name_of(blobs.digest_of(record.envelope)) if record.envelope else "",
            record.sealed,
            record.waiting_until,
            record.received_at,
            record.candidate,
        )
        for _, record in headers(transaction)
    ]


def digests(transaction: LmdbTransaction, slot: int, record: PendingRecord) -> Iterator[bytes]:
    """Every blob that a slot refers to."""
    if record.manifest:
        yield record.manifest
    for kind in (_SECTION, _KEPT):
        for _, digest in transaction.items(_TABLE, _SLOT.pack(slot) + kind):
            yield digest


def forget(transaction: LmdbTransaction, slot: int) -> None:
    """The header goes; the rows follow with the garbage, in bounded steps."""
    transaction.delete(_TABLE, _SLOT.pack(slot) + _HEADER)


def discard(transaction: LmdbTransaction, scope: str, slot: int) -> None:
    forget(transaction, slot)
    for name in _NAMES:
        _release(transaction, name, scope, slot)


def discard_promoted(transaction: LmdbTransaction, scope: str, envelope: bytes) -> None:
    """The slots of a document that is active now; `envelope` is the digest of its envelope."""
    for slot, _ in list(_holding(transaction, scope, envelope)):
        discard(transaction, scope, slot)


def find(transaction: LmdbTransaction, scope: str, envelope: bytes) -> tuple[int, PendingRecord] | None:
    """The first slot of that scope that holds the envelope with that digest, a whole one before others."""
    found = sorted(_holding(transaction, scope, envelope), key=lambda held: not held[1].sealed)
    return found[0] if found else None


def _holding(transaction: LmdbTransaction, scope: str, envelope: bytes) -> Iterator[tuple[int, PendingRecord]]:
    for slot, record in _slots_of(transaction, scope):
        if record.envelope and blobs.digest_of(record.envelope) == envelope:
            yield slot, record


def _slots_of(transaction: LmdbTransaction, scope: str) -> Iterator[tuple[int, PendingRecord]]:
    """By their names: with a thousand scopes in slots nobody goes through all of them for each."""
    for name in _NAMES:
        found = _slot_by_name(transaction, name, scope)
        if found is not None:
            yield found


def _slot_by_name(transaction: LmdbTransaction, name: bytes, scope: str) -> tuple[int, PendingRecord] | None:
    slot = transaction.get(_TABLE, name + scope_key(scope))
    data = transaction.get(_TABLE, slot + _HEADER) if slot is not None else None
    return None if slot is None or data is None else (_SLOT.unpack(slot)[0], unpack(PendingRecord, data))


def discard_scope(transaction: LmdbTransaction, scope: str) -> None:
    """All slots of a scope."""
    for slot, _ in list(_slots_of(transaction, scope)):
        discard(transaction, scope, slot)


def damaged_keys(transaction: LmdbTransaction) -> Iterator[bytes]:
    """The keys of slots whose header cannot be read, or which refer to a blob that is not there."""
    for prefix in _NAMES:
        for key, slot in list(transaction.items(_TABLE, prefix)):
            data = transaction.get(_TABLE, slot + _HEADER)
            if len(slot) != _SLOT.size or data is None or not _is_whole(transaction, slot, data):
                yield key
                if data is not None:
                    yield slot + _HEADER


def _is_whole(transaction: LmdbTransaction, slot: bytes, data: bytes) -> bool:
    try:
        record = unpack(PendingRecord, data)
    except StoreError:
        return False
    return all(blobs.has(transaction, digest) for digest in digests(transaction, _SLOT.unpack(slot)[0], record))


def orphan_rows(transaction: LmdbTransaction, most: int) -> list[bytes]:
    """Rows of slots that were forgotten, at most `most` of them."""
    known = {_SLOT.pack(slot) for slot, _ in headers(transaction)}
    found: list[bytes] = []
    for key in transaction.keys(_TABLE):
        if len(found) == most:
            break
        if not key.startswith(_NAMES) and key[: _SLOT.size] not in known:
            found.append(key)
    return found


def _next_place(transaction: LmdbTransaction, slot: int, kind: bytes) -> int:
    """Behind the last row, whatever is missing before it: a death within a flush leaves those of the least digests."""
    places = [key[-_ROW.size :] for key, _ in transaction.items(_TABLE, _SLOT.pack(slot) + kind)]
    return _ROW.unpack(places[-1])[0] + 1 if places else 0


def _row(slot: int, kind: bytes, index: int) -> bytes:
    return _SLOT.pack(slot) + kind + _ROW.pack(index)


def _release(transaction: LmdbTransaction, prefix: bytes, scope: str, slot: int) -> None:
    if transaction.get(_TABLE, prefix + scope_key(scope)) == _SLOT.pack(slot):
        transaction.delete(_TABLE, prefix + scope_key(scope))


def _is_named(transaction: LmdbTransaction, scope: str, slot: int) -> bool:
    return transaction.get(_TABLE, _CANDIDATE + scope_key(scope)) == _SLOT.pack(slot)


def _mismatch(expected: str, found: int) -> Rejected:
    return Rejected(6, Reason.CONTENT_MISMATCH, expected=expected, found=f"{found}", where="sections")

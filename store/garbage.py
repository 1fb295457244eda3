"""Garbage goes in bounded steps, and nothing that anything refers to ever does (rules L36).

Mark and sweep. A cycle marks what active, previous, good, slots and floors refer to when it begins, one document a
step, and every blob that is put while it runs (`Environment.put_blobs`); then it sweeps, so many blobs a step, each
step one transaction. Marks live in memory alone: a death in between loses nothing, and the next cycle begins anew.
"""

from collections.abc import Iterator
from dataclasses import field
from functools import partial
from itertools import islice

from snapshot.frozen import frozen, mutable
from store.base import blobs, pending
from store.base.documents import document, scope_records
from store.base.environment import Environment, LmdbTransaction, WriteRoom
from store.base.errors import StoreError
from store.base.probation import good

SWEPT_AT_ONCE = 1000
BYTES_AT_ONCE = 64 << 20


@frozen
class GarbageStep:
    """What one step did. `done`: the cycle is over, and nothing unreferenced is left."""

    removed: int
    bytes: int
    done: bool


@mutable
class _Cycle:
    todo: list[bytes]  # documents still to be marked
    put: set[bytes]  # blobs put since the cycle began
    marked: set[bytes] = field(default_factory=set)
    position: bytes = b""
    rows_swept: bool = False


class GarbageCollector:
    """The garbage of an open store. Call `step` now and then; it is cheap when there is nothing to do."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._cycle: _Cycle | None = None

    def step(self, most: int = SWEPT_AT_ONCE) -> GarbageStep:
        """A bounded piece of the cycle; StoreError when the disk refuses, and nothing is lost."""
        if self._cycle is None:
            self._cycle = self._begin()
        if self._cycle.todo:
            self._mark_one(self._cycle)
            return GarbageStep(0, 0, done=False)
        try:
            with self._environment.write(WriteRoom.GARBAGE) as transaction:
                step = self._sweep(transaction, self._cycle, most)
        except BaseException:
            self._end()
            raise
        if step.done:
            self._end()
        return step

    def run(self) -> GarbageStep:
        """A whole cycle, from its beginning."""
        self._end()
        removed = size = 0
        while True:
            step = self.step()
            removed, size = removed + step.removed, size + step.bytes
            if step.done:
                return GarbageStep(removed, size, done=True)

    def _end(self) -> None:
        self._cycle = self._environment.put_blobs = None

    def _begin(self) -> _Cycle:
        put: set[bytes] = set()
        self._environment.put_blobs = put
        self._environment.forget_dead_readers()
        with self._environment.read() as transaction:
            cycle = _Cycle(sorted(set(_documents(transaction))), put)
            for slot, record in pending.headers(transaction):
                cycle.marked.update(pending.digests(transaction, slot, record))
        return cycle

    def _mark_one(self, cycle: _Cycle) -> None:
        digest = cycle.todo.pop()
        with self._environment.read() as transaction:
            try:
                held = document(transaction, digest, partial(blobs.get, transaction))
                cycle.marked.update((held.record.manifest, held.record.state))
                cycle.marked.update(bytes.fromhex(entry.sha256) for entry in held.sections.values())
            except StoreError:
                # What it refers to cannot be told, so nothing may go until it is repaired or replaced.
                self._cycle = _Cycle([], cycle.put, position=_NOWHERE, rows_swept=True)

    def _sweep(self, transaction: LmdbTransaction, cycle: _Cycle, most: int) -> GarbageStep:
        if not cycle.rows_swept:
            rows = pending.orphan_rows(transaction, most)
            for key in rows:
                transaction.delete("pending", key)
            _drop_documents(transaction)
            cycle.rows_swept = len(rows) < most
            return GarbageStep(len(rows), 0, done=False)
        return self._sweep_blobs(transaction, cycle, most)

    def _sweep_blobs(self, transaction: LmdbTransaction, cycle: _Cycle, most: int) -> GarbageStep:
        before = transaction.used_bytes()
        seen = list(islice(blobs.digests(transaction, cycle.position), most))
        doomed = [digest for digest in seen if digest not in cycle.marked and digest not in cycle.put]
        removed = _remove(transaction, doomed)
        done = len(seen) < most and removed == len(doomed)
        if not done:
            cycle.position = doomed[removed] if removed < len(doomed) else _after(seen[-1])
        return GarbageStep(removed, max(0, before - transaction.used_bytes()), done)


_NOWHERE = b"\xff" * blobs.DIGEST_BYTES


def _remove(transaction: LmdbTransaction, doomed: list[bytes]) -> int:
    """Remove blobs until the step is large enough; how many went."""
    start = transaction.used_bytes()
    for count, digest in enumerate(doomed, 1):
        blobs.remove(transaction, digest)
        if count % 16 == 0 and start - transaction.used_bytes() >= BYTES_AT_ONCE:
            return count
    return len(doomed)


def _after(digest: bytes) -> bytes:
    """The first key behind a blob and its chunks."""
    return digest + b"\xff\xff\xff\xff"


def _documents(transaction: LmdbTransaction) -> Iterator[bytes]:
    for record in scope_records(transaction):
        yield from (digest for digest in (record.active, record.previous) if digest is not None)
        yield from (entry.document for entry in good(transaction, record))


def _drop_documents(transaction: LmdbTransaction) -> None:
    """The records of documents that are neither active nor previous nor good."""
    held = set(_documents(transaction))
    for digest in [key for key in transaction.keys("snapshots") if key not in held]:
        transaction.delete("snapshots", digest)

"""What is wrong inside an environment: every fault, found by reading all of it.

examine           all, every blob hashed; in a child process (`store.fsck.check`), which damage may kill
examine_records   what the records say, once a child has walked all of it (`store.fsck.probe`)
"""

from collections.abc import Iterator
from functools import partial

from snapshot.frozen import frozen
from store.base import blobs, failed_content, meta, pending, probation, rejections, trust
from store.base.documents import StoredDocument, document
from store.base.environment import DATABASES, LmdbTransaction
from store.base.errors import StoreError
from store.base.floors import FloorRecord, ScopeFloor
from store.base.journal import MOST_EVENTS, Event
from store.base.migration import FORMAT
from store.base.probation import good
from store.base.records import (
    DocumentRecord,
    Evidence,
    FailedContent,
    GoodRecord,
    KeptRecovery,
    ProbationRecord,
    Rejection,
    ScopeRecord,
    name_of,
    scope_key,
    unpack,
)
from store.fsck.fallback import missing
from store.fsck.walk import ends


@frozen
class ExamineFault:
    """`code` is stable; `where` names the thing, `detail` says what is wrong with it."""

    code: str
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.code}: {self.where}: {self.detail}"


def examine(transaction: LmdbTransaction, cluster_id: str, floors: FloorRecord | None = None) -> Iterator[ExamineFault]:
    """Every fault inside the environment; with `floors` also those between the two."""
    for name in DATABASES:
        if not ends(transaction, name):
            yield ExamineFault("store_corrupt", name, "more entries than it counts")
    for digest in blobs.digests(transaction):
        if not blobs.is_whole(transaction, digest):
            yield ExamineFault("blob_damaged", digest.hex(), "other bytes than its hash says")
    yield from examine_records(transaction, cluster_id, floors)


def examine_records(
    transaction: LmdbTransaction, cluster_id: str, floors: FloorRecord | None = None
) -> Iterator[ExamineFault]:
    """The same without the bytes of sections."""
    yield from _own_record(transaction, cluster_id)
    yield from _documents(transaction)
    yield from _scopes(transaction, floors)
    yield from _slots(transaction)
    yield from _journal(transaction)
    yield from _records(transaction)


def _own_record(transaction: LmdbTransaction, cluster_id: str) -> Iterator[ExamineFault]:
    try:
        own, found = meta.read(transaction), meta.read_format(transaction)
    except StoreError as error:
        yield ExamineFault("record_damaged", "meta", error.detail)
        return
    if own.cluster_id != cluster_id:
        yield ExamineFault("other_cluster", "meta", f"the store is of {own.cluster_id}")
    if found != FORMAT:
        yield ExamineFault("other_format", "meta", f"format {found}, we know {FORMAT}")


def _documents(transaction: LmdbTransaction) -> Iterator[ExamineFault]:
    for key, data in transaction.items("snapshots"):
        try:
            held = StoredDocument(unpack(DocumentRecord, data), key, partial(blobs.get, transaction))
            if blobs.digest_of(held.record.envelope) != key:
                yield ExamineFault("document_damaged", name_of(key), "another envelope than its hash says")
            if held.content_hash != held.envelope.state_hash:
                yield ExamineFault("document_damaged", name_of(key), "another state than its envelope says")
        except StoreError as error:
            yield ExamineFault("document_damaged", name_of(key), error.detail)


def _scopes(transaction: LmdbTransaction, floors: FloorRecord | None) -> Iterator[ExamineFault]:
    for key, data in transaction.items("scopes"):
        try:
            record = unpack(ScopeRecord, data)
        except StoreError as error:
            yield ExamineFault("record_damaged", f"scope {key.hex()}", error.detail)
            continue
        if scope_key(record.scope) != key:
            yield ExamineFault("record_damaged", f"scope {record.scope}", "under another scope's key")
        yield from _pointers(transaction, record)
        if floors is not None:
            yield from _floor(record, floors.scopes.get(record.scope))


def _pointers(transaction: LmdbTransaction, record: ScopeRecord) -> Iterator[ExamineFault]:
    served = record.active, record.previous
    of_good = (("good", entry.document) for entry in good(transaction, record) if entry.document not in served)
    for name, digest in (("active", record.active), ("previous", record.previous), *of_good):
        if digest is None:
            continue
        where = f"{record.scope} {name}"
        try:
            held = document(transaction, digest, partial(blobs.get, transaction))
            yield from (
                ExamineFault("document_incomplete", where, lack)
                for lack in missing(held, partial(blobs.has, transaction))
            )
            if held.scope != record.scope or held.envelope.scope != record.scope:
                yield ExamineFault("pointer_wrong", where, f"a document of {held.scope}")
            if held.version > record.order:
                yield ExamineFault("pointer_wrong", where, f"{held.version} is above the mark {record.order}")
        except StoreError as error:
            yield ExamineFault("document_damaged", where, error.detail)


def _floor(record: ScopeRecord, floor: ScopeFloor | None) -> Iterator[ExamineFault]:
    """Ahead is lawful in the middle of an activation; behind is not, at any time."""
    if record.mark is not None and (floor is None or floor.order < record.order):
        yield ExamineFault("floor_behind", record.scope, f"below the mark {record.order}")


def _slots(transaction: LmdbTransaction) -> Iterator[ExamineFault]:
    try:
        for slot, record in pending.headers(transaction):
            for digest in pending.digests(transaction, slot, record):
                if not blobs.has(transaction, digest):
                    yield ExamineFault(
                        "slot_incomplete", f"{record.scope} slot {slot}", f"blob {digest.hex()} is missing"
                    )
    except StoreError as error:
        yield ExamineFault("record_damaged", "pending", error.detail)


def _journal(transaction: LmdbTransaction) -> Iterator[ExamineFault]:
    before = None
    for key, data in transaction.items("journal"):
        number = int.from_bytes(key, "big")
        if before is not None and number != before + 1:
            yield ExamineFault("journal_gap", f"event {number}", f"follows {before}")
        before = number
        try:
            if unpack(Event, data).sequence != number:
                yield ExamineFault("record_damaged", f"event {number}", "another number inside")
        except StoreError as error:
            yield ExamineFault("record_damaged", f"event {number}", error.detail)
    if transaction.count("journal") > MOST_EVENTS:
        yield ExamineFault("journal_bound", "journal", f"more than {MOST_EVENTS} events")


def _records(transaction: LmdbTransaction) -> Iterator[ExamineFault]:
    """Whatever else is kept can be read."""
    kinds = (
        ("updates", rejections.RING_PREFIX, Rejection),
        ("updates", rejections.LAST_PREFIX, Rejection),
        ("updates", rejections.EVIDENCE_PREFIX, Evidence),
        ("updates", probation.GOOD_PREFIX, GoodRecord),
        ("updates", probation.PROBATION_PREFIX, ProbationRecord),
        ("updates", failed_content.LAST_PREFIX, FailedContent),
        ("updates", failed_content.QUARANTINE_PREFIX, FailedContent),
        ("trust", trust.RECOVERY_PREFIX, KeptRecovery),
    )
    for database, prefix, kind in kinds:
        for key, data in transaction.items(database, prefix):
            try:
                unpack(kind, data)
            except StoreError as error:
                yield ExamineFault("record_damaged", f"{database} {key!r}"[:128], error.detail)

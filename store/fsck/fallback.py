"""A damaged active falls back to previous (rules L34, X18); what neither can serve is lost and asked for again."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from store.base import blobs, journal, meta
from store.base.documents import StoredDocument, document, put_scope, scope_record, scope_records
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.journal import Happened
from store.base.probation import end_probation, good, put_good
from store.base.records import ScopeRecord


def fall_back(transaction: LmdbTransaction, scope: str, now: float, cause: str) -> Happened | None:
    """Previous serves if it is whole, unexpired and of the mark's epoch, else what is good, else nothing. The mark
    stays, and what is damaged is on probation no more.

    None when nothing was active. That previous verifies is for the caller's start check, as for any active.
    """
    record = scope_record(transaction, scope)
    if record is None or record.active is None:
        return None
    successor = next(_serviceable_documents(transaction, record, now), None)
    put_good(transaction, scope, [entry for entry in good(transaction, record) if entry.document != record.active])
    end_probation(transaction, scope)
    generation = meta.read(transaction).generation + 1
    meta.change(transaction, generation=generation)
    put_scope(
        transaction,
        replace(
            record,
            active=successor.digest if successor else None,
            previous=None,
            generation=generation,
            on_previous=successor is not None,
            refresh_after=successor.envelope.refresh_after if successor else 0,
            expires_at=successor.envelope.expires_at if successor else 0,
        ),
    )
    happened = Happened.RUNNING_ON_PREVIOUS if successor else Happened.ACTIVE_LOST
    journal.append(transaction, happened, now, scope, cause)
    return happened


def leave_damaged(transaction: LmdbTransaction, damaged: Collection[bytes], now: float) -> dict[str, Happened]:
    """Take every scope off documents that are damaged or refer to a damaged blob; the blobs go, to come anew."""
    happened = {}
    for record in list(scope_records(transaction)):
        while (cause := _damage(transaction, scope_record(transaction, record.scope), damaged)) is not None:
            outcome = fall_back(transaction, record.scope, now, cause)
            if outcome is None:
                break
            happened[record.scope] = outcome
        _drop_damaged_previous(transaction, record.scope, damaged)
        _drop_damaged_good(transaction, record.scope, damaged)
    for digest in damaged:
        blobs.remove(transaction, digest)
    if damaged:
        named = ", ".join(digest.hex()[:16] for digest in sorted(damaged)[:8])
        journal.append(transaction, Happened.SECTION_DAMAGED, now, detail=f"{len(damaged)} blobs: {named}")
    return happened


def fault_of(transaction: LmdbTransaction, digest: bytes, damaged: Collection[bytes] = ()) -> str:
    """Why the document cannot be served, in words; empty when it can. Blobs in `damaged` count as missing."""
    try:
        held = document(transaction, digest, partial(blobs.get, transaction))
        return next(missing(held, lambda wanted: wanted not in damaged and blobs.has(transaction, wanted)), "")
    except StoreError as error:
        return error.detail


def missing(held: StoredDocument, present: Callable[[bytes], bool]) -> Iterator[str]:
    """What a document refers to and the store lacks, in words."""
    record, lacks = held.record, False
    for blob, what in ((record.manifest, "manifest"), (record.state, "state")):
        if not present(blob):
            lacks = True
            yield f"its {what} is damaged"
    if lacks:
        return
    for name, entry in held.sections.items():
        if not present(bytes.fromhex(entry.sha256)):
            yield f"section {name} is damaged"


def _damage(transaction: LmdbTransaction, record: ScopeRecord | None, damaged: Collection[bytes]) -> str | None:
    if record is None or record.active is None:
        return None
    return fault_of(transaction, record.active, damaged) or None


def _serviceable_documents(transaction: LmdbTransaction, record: ScopeRecord, now: float) -> Iterator[StoredDocument]:
    """Previous first; what is good was active before it, or is what a revert went back to."""
    others = [record.previous, *(entry.document for entry in good(transaction, record))]
    for digest in dict.fromkeys(others):
        if digest is None or digest == record.active or fault_of(transaction, digest):
            continue
        held = document(transaction, digest, partial(blobs.get, transaction))
        same_epoch = held.envelope.authority_epoch == record.epoch
        if same_epoch and now < held.envelope.expires_at:
            yield held


def _drop_damaged_previous(transaction: LmdbTransaction, scope: str, damaged: Collection[bytes]) -> None:
    record = scope_record(transaction, scope)
    if record is not None and record.previous is not None and fault_of(transaction, record.previous, damaged):
        put_scope(transaction, replace(record, previous=None))


def _drop_damaged_good(transaction: LmdbTransaction, scope: str, damaged: Collection[bytes]) -> None:
    record = scope_record(transaction, scope)
    held = good(transaction, record) if record is not None else ()
    whole = [entry for entry in held if not fault_of(transaction, entry.document, damaged)]
    if len(whole) < len(held):
        put_good(transaction, scope, whole)

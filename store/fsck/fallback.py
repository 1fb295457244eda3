"""A damaged active falls back to previous (rules L34, X18); what neither can serve is lost and asked for again."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial

from store.base import blobs, journal, meta
from store.base.documents import StoredDocument, document, put_scope, scope_record, scope_records
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.journal import Happened
from store.base.records import ScopeRecord


def fall_back(transaction: LmdbTransaction, scope: str, now: float, cause: str) -> Happened | None:
    """Previous serves if it is whole, unexpired and of the mark's epoch, else nothing does. The mark stays.

    None when nothing was active. That previous verifies is for the caller's start check, as for any active.
    """
    record = scope_record(transaction, scope)
    if record is None or record.active is None:
        return None
    successor = _serviceable_previous(transaction, record, now)
    generation = meta.read(transaction).generation + 1
    meta.change(transaction, generation=generation)
    put_scope(
        transaction,
        replace(
            record,
            active=record.previous if successor else None,
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


def _serviceable_previous(transaction: LmdbTransaction, record: ScopeRecord, now: float) -> StoredDocument | None:
    if record.previous is None or fault_of(transaction, record.previous):
        return None
    held = document(transaction, record.previous, partial(blobs.get, transaction))
    same_epoch = held.envelope.authority_epoch == record.epoch
    return held if same_epoch and now < held.envelope.expires_at else None


def _drop_damaged_previous(transaction: LmdbTransaction, scope: str, damaged: Collection[bytes]) -> None:
    record = scope_record(transaction, scope)
    if record is not None and record.previous is not None and fault_of(transaction, record.previous, damaged):
        put_scope(transaction, replace(record, previous=None))

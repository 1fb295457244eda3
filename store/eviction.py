"""What gives way when the store is full: documents of an epoch that the roots have ended (rules L35).

Whoever had a config key may have made what the coordinator lists itself as large as there is room for, active and
previous: nothing of that is garbage, and what replaces it finds no room. A bundle that announces a higher epoch says
that all of it is to be replaced. So previous documents of before go first, then active ones: their marks stay, the head
lists them, and they come again at once. Before both goes what is good beyond the newest of each scope, of whichever
epoch. Rejected: room beside the others for what replaces them, which he could fill in the next epoch.
"""

from collections.abc import Iterator
from dataclasses import replace

from snapshot import envelope as envelopes
from snapshot.identifiers import HEAD
from store.activation import BUNDLE_SCOPE
from store.base import journal, meta
from store.base.documents import put_scope, scope_records
from store.base.environment import LmdbTransaction
from store.base.journal import Happened
from store.base.probation import end_probation, forget_good, good, put_good
from store.base.records import DocumentRecord, ScopeRecord, unpack

IN_WORDS = "of an ended epoch: the store is full"


def let_good_go(transaction: LmdbTransaction) -> tuple[str, ...]:
    """The scopes of which all that is good but the newest is forgotten: the newest is the way back."""
    found = [record for record in _scopes(transaction) if len(good(transaction, record)) > 1]
    for record in found:
        put_good(transaction, record.scope, good(transaction, record)[:1])
    return tuple(record.scope for record in found)


def let_previous_go(transaction: LmdbTransaction, epoch: int) -> tuple[str, ...]:
    """The scopes whose previous document was of a lower epoch than is announced, and is forgotten; so is what of it is
    good, and does not serve.
    """
    found = [scope for scope in _scopes(transaction) if _is_before(transaction, scope.previous, epoch)]
    for record in found:
        put_scope(transaction, replace(record, previous=None))
    return tuple(dict.fromkeys([*(record.scope for record in found), *_forget_good(transaction, epoch)]))


def _forget_good(transaction: LmdbTransaction, epoch: int) -> Iterator[str]:
    for record in _scopes(transaction):
        held = good(transaction, record)
        kept = [
            entry
            for entry in held
            if entry.document == record.active or not _is_before(transaction, entry.document, epoch)
        ]
        if len(kept) < len(held):
            put_good(transaction, record.scope, kept)
            yield record.scope


def let_active_go(transaction: LmdbTransaction, epoch: int) -> tuple[str, ...]:
    """The scopes whose active document was of a lower epoch, and is withdrawn in a new generation."""
    found = [scope for scope in _scopes(transaction) if _is_before(transaction, scope.active, epoch)]
    if not found:
        return ()
    generation = meta.read(transaction).generation + 1
    # No clock is read here: as late as anything that became active, so not before the bundle.
    at = max(record.activated_at for record in scope_records(transaction))
    meta.change(transaction, generation=generation)
    for record in found:
        forget_good(transaction, record.scope)
        end_probation(transaction, record.scope)
        gone = replace(record, active=None, previous=None, generation=generation, withdrawn=True, on_previous=False)
        put_scope(transaction, gone)
        journal.append(transaction, Happened.WITHDRAWN, at, record.scope, IN_WORDS)
    return tuple(record.scope for record in found)


def _scopes(transaction: LmdbTransaction) -> Iterator[ScopeRecord]:
    return (record for record in list(scope_records(transaction)) if record.scope not in (HEAD, BUNDLE_SCOPE))


def _is_before(transaction: LmdbTransaction, digest: bytes | None, epoch: int) -> bool:
    data = transaction.get("snapshots", digest) if digest is not None else None
    if data is None:
        return False
    record = unpack(DocumentRecord, data)
    return envelopes.parse(record.envelope, record.kind).authority_epoch < epoch

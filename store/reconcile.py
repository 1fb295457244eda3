"""Floors and store brought together: what is unfinished is finished, what is above is held (rules L32).

roll_forward    an activation that the floors name and the store has not made, from its pending slots
hold            a floor above the store stays: the store was restored from an old backup, or is new
floor_of_store  the floors, raised by what the store has accepted

At a start there are two witnesses of what was accepted, the floor files and the store, and either may have been put
back or lost. For each scope the higher one counts:

    floor and store agree              nothing is written
    the floor is above, a slot has it  a crash came between floor and commit: the swap is made now   `roll_forward`
    the floor is above, no slot has it the store is an old copy, or new: the mark stays             `hold`
    the store is above                 the floor files are an old copy: they are raised             `floor_of_store`

Example. Somebody restores yesterday's disk image of the store alone: `route_policy` stands at 1.5, the floors say 1.7.
`hold` takes over the mark 1.7 and the hash of its envelope and leaves 1.5 active, so that `is_lost` is true of the
scope: the node says RECOVERING, and takes 1.7 with exactly that content, or something newer, and never 1.6.

A recovery that has led from 1.7 down to 1.6 makes the mark and what serves two different things; `returned` of a floor
says so. Without it a node that loses its store afterwards would take 1.7 again, which was given up, and refuse 1.6.

Nothing here asks anybody, and nothing is compared by time of day. A slot is believed as far as its bytes go: it was
verified before the floors named it, and all of it is hashed again. It may lie there damaged: then nothing is rolled
forward, and the mark holds.

Rejected:

- Lowering the floor to what the store has: the one thing that a floor is for.
- Not starting: services would have no configuration because a disk was restored; what is active still passes the
  verifier's second look at each start, and the mark keeps anything older out.
- Asking the coordinator which one is right: the case to be solved is that it does not answer (docs/adr/0004).
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from snapshot import envelope as envelopes
from snapshot.verifier_state import Mark
from store.activation import Promotion, swap
from store.base import blobs, meta, pending, trust
from store.base.documents import document, is_lost, known_good, put_scope, scope_record, scope_records, state_after
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.floors import ActivatingScope, FloorRecord, ScopeFloor
from store.base.journal import Happened
from store.base.probation import end_probation
from store.base.records import DocumentRecord, PendingRecord, ScopeRecord, digest_from_name, name_of


def roll_forward(transaction: LmdbTransaction, record: FloorRecord, now: float) -> tuple[str, ...]:
    """Finish the activation that the floors name, if it is unfinished and all of it lies in slots; else nothing."""
    if not is_unfinished(transaction, record):
        return ()
    try:
        promotions = [_promotion(transaction, entry) for entry in record.activating]
        swap(transaction, promotions, record, now, Happened.ROLLED_FORWARD)
    except StoreError as error:
        if error.fault is StoreFault.STORE_FULL:
            raise
        return ()
    return tuple(entry.scope for entry in record.activating)


def is_unfinished(transaction: LmdbTransaction, record: FloorRecord) -> bool:
    """Whether the floors name an activation that the store has not made."""
    return bool(record.activating) and all(
        entry.scope in record.scopes and is_above(transaction, entry.scope, record.scopes[entry.scope], record)
        for entry in record.activating
    )


def _promotion(transaction: LmdbTransaction, entry: ActivatingScope) -> Promotion:
    """The promotion of a slot that the floors name: it was verified, and everything in it is hashed again."""
    slot = pending.find(transaction, entry.scope, digest_from_name(entry.envelope_hash))
    if slot is None:
        raise StoreError(StoreFault.NOT_DURABLE, f"no slot of {entry.scope} holds {entry.envelope_hash}")
    promotion = _promotion_of(transaction, slot[1], entry)
    for section in promotion.state.values():
        blobs.get(transaction, bytes.fromhex(section.sha256))
    return promotion


def _promotion_of(transaction: LmdbTransaction, record: PendingRecord, entry: ActivatingScope) -> Promotion:
    kind = _kind(record.envelope)
    envelope = known_good(lambda: envelopes.parse(record.envelope, kind), entry.scope)
    manifest = blobs.get(transaction, record.manifest)
    scope = scope_record(transaction, entry.scope)
    base = None
    if scope is not None and scope.active is not None:
        base = document(transaction, scope.active, partial(blobs.get, transaction))
    state, data = state_after(kind, manifest, base, entry.scope)
    if name_of(blobs.digest_of(data)) != envelope.state_hash:
        raise StoreError(StoreFault.STORE_CORRUPT, f"{entry.scope}: the pending state is not the signed one")
    document_record = DocumentRecord(
        entry.scope,
        kind,
        record.envelope,
        record.signatures,
        record.manifest,
        blobs.digest_of(data),
        entry.signers,
        entry.judged_at,
    )
    return Promotion(entry.scope, envelope, document_record, manifest, state, data, entry.nonce, entry.probation)


def _kind(envelope: bytes) -> str:
    """The kind that a verified envelope names."""
    for kind in envelopes.KINDS:
        if f'"kind":"{kind}"'.encode() in envelope:
            return kind
    raise StoreError(StoreFault.STORE_CORRUPT, "an envelope without a kind")


def hold(transaction: LmdbTransaction, record: FloorRecord) -> list[str]:
    """Take over every mark and nonce of the floors that is above the store; the scopes that it concerns."""
    regressed = []
    for scope, floor in record.scopes.items():
        if is_above(transaction, scope, floor, record):
            present = scope_record(transaction, scope) or ScopeRecord(scope)
            accepted = digest_from_name(floor.envelope_hash)
            put_scope(
                transaction,
                replace(
                    present,
                    epoch=floor.mark.authority_epoch,
                    version=floor.mark.config_version,
                    content_hash=floor.mark.content_hash,
                    accepted=accepted,
                ),
            )
            end_probation(transaction, scope)  # of what was active in that store: nobody has seen it through
            regressed.append(scope)
    for nonce in record.used_nonces.difference(trust.nonces(transaction)):
        trust.spend(transaction, "", nonce)
    present_generation = meta.read(transaction).generation
    if record.generation > present_generation:
        meta.change(transaction, generation=record.generation + 1)
    return regressed


def is_above(transaction: LmdbTransaction, scope: str, floor: ScopeFloor, record: FloorRecord) -> bool:
    """Whether the floor of a scope is ahead of the store: by its mark, or by a recovery that the store lacks."""
    try:
        present = scope_record(transaction, scope)
    except StoreError:
        return True
    if present is None or floor.order > present.order:
        return True
    other = present.accepted is None or name_of(present.accepted) != floor.envelope_hash
    return floor.order == present.order and other and record.generation > meta.read(transaction).generation


def floor_of_store(transaction: LmdbTransaction, floors: FloorRecord) -> FloorRecord:
    """The floors, raised by what the store has accepted."""
    own = meta.read(transaction)
    floors = floors.merge(meta.read_floor(transaction, floors.cluster_id))
    scopes = dict(floors.scopes)
    for record in scope_records(transaction):
        present = scopes.get(record.scope)
        if present is not None and present.order > record.order:
            continue
        if (mark := record.mark) is not None and record.accepted is not None:
            same = present is not None and present.order == record.order
            returned = present.returned if present is not None and same else None
            scopes[record.scope] = ScopeFloor(mark, name_of(record.accepted), returned)
    return replace(
        floors,
        generation=max(own.generation, floors.generation),
        scopes=scopes,
        used_nonces=floors.used_nonces | frozenset(trust.nonces(transaction)),
    )


def with_recovered_marks(transaction: LmdbTransaction, floors: FloorRecord) -> FloorRecord:
    """The floors, with what recoveries have led to: files that were written before they said so do not have it."""
    scopes = dict(floors.scopes)
    with suppress(StoreError):  # what cannot be read is damage, which is met where it is looked for
        for scope in {recovery.scope for recovery in trust.recoveries(transaction)} & scopes.keys():
            scopes[scope] = replace(scopes[scope], returned=_recovered_mark(transaction, scope, scopes[scope]))
    return replace(floors, scopes=scopes)


def _recovered_mark(transaction: LmdbTransaction, scope: str, floor: ScopeFloor) -> Mark | None:
    """What serves below the mark because a recovery has led there."""
    record = scope_record(transaction, scope)
    if floor.returned is not None or record is None or record.active is None or is_lost(record):
        return floor.returned
    held = document(transaction, record.active, partial(blobs.get, transaction))
    return Mark(*held.version, held.content_hash) if floor.order == record.order > held.version else None


def behind_store(transaction: LmdbTransaction, floors: FloorRecord) -> list[str]:
    """The scopes whose floor is below what the store has accepted, in words: the files were restored."""
    return [
        f"the floor of {record.scope} is below the store"
        for record in scope_records(transaction)
        if record.mark is not None
        and (record.scope not in floors.scopes or floors.scopes[record.scope].order < record.order)
    ]

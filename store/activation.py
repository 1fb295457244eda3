"""Pending becomes active: floors first, then one transaction (rules S67, L28, L32; threats D-24).

    1  everything that the new state needs is durable in the pending slot
    2  the floors name the new envelopes                    `raise_floors`
    3  one transaction: active -> previous, new -> active, mark, nonce, pending cleared, journal   `swap`

A crash before 2 leaves the old one, a crash after 2 goes forward at the next start: the floor names an envelope that
lies in a slot. The puts of 3 are made before 2 and committed after it, so that a full map refuses before anything
is raised.

What is decided here is whether a verified document may replace what is active, and which rows say so. What is not:
whether a document is good (a `Promotion` comes of a `Verified`, or of a slot that the floors name, verified before);
when the transaction is committed, and that the floor files are written before (`store/store.py`).

Example. 1.6 of `route_policy` is active and 1.7 lies sealed in its slot. `swap` makes 1.7 active and 1.6 previous,
sets the mark to 1.7 with its hash, drops the slot and the recoveries that were kept for it, and appends a row to the
journal; `floors_after` gives the record with the mark 1.7, whose `activating` names the envelope. The floor file is
written, the power fails: the next start finds the floor 1.7 above the store's 1.6, and `reconcile.roll_forward` makes
the same swap of the same slot. Had it failed before the floor was written, 1.6 would be active and the slot would wait
for the next round. There is no third outcome.

Why floors come first: what is behind its floor can be brought up to it, from the slot or from the network; what is
ahead of it could be taken back by restoring a disk, and nothing would show that. The order is fixed in
`Store.activate`.

Rejected:

- The commit first, and then the floor: a crash between the two, and a store that is lost afterwards, let in the
  version before.
- A transaction a scope: the scopes of one head belong together, and readers would see half of it.
- Any former active as the previous one: what a recovery leaves was given up, and a renewal of equal content is nothing
  to fall back to (`_previous_after`).
- Believing that the caller still has the state against which a document was verified: what is active is compared again
  inside the transaction (`_refuse_conflict`), since between verdict and swap another may have become active.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial

from snapshot.bundle import TrustBundle
from snapshot.envelope import INCREMENT, RECOVERY, Envelope
from snapshot.frozen import frozen, replace_members
from snapshot.identifiers import HEAD
from snapshot.manifest import SectionEntry, parse_head
from snapshot.section_table import differing
from snapshot.verifier_state import Mark
from snapshot.verify import Verified
from store.base import blobs, journal, meta, pending, trust
from store.base.documents import StoredDocument, document, is_lost, put_document, put_scope, scope_record
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.failed_content import is_quarantined
from store.base.floors import ActivatingScope, FloorRecord, ScopeFloor
from store.base.records import DocumentRecord, ProbationTerms, ScopeRecord, digest_from_name, name_of
from store.base.timefloor import Boot, TimeFloor, floor_after, reset
from store.probation import begin_or_inherit

BUNDLE_SCOPE = "trust_bundle"
Parsed = Callable[[bytes], StoredDocument | None]


@frozen
class Promotion:
    """What one document changes; made of a `Verified`, or at start of a slot that the floors name."""

    scope: str
    envelope: Envelope
    record: DocumentRecord
    manifest_bytes: bytes
    state: Mapping[str, SectionEntry]
    state_bytes: bytes
    nonce: str = ""  # of the recovery that allowed to go back
    probation: ProbationTerms | None = None

    @cached_property
    def digest(self) -> bytes:
        return blobs.digest_of(self.record.envelope)

    @property
    def mark(self) -> Mark:
        return Mark(*self.envelope.version, self.record.content_hash)


def promotion_of(verified: Verified, probation: ProbationTerms | None = None) -> Promotion:
    """StoreError conflict for a recovery, which is kept and never active."""
    if verified.kind == RECOVERY:
        raise StoreError(StoreFault.CONFLICT, f"a recovery of {verified.scope} is kept, not activated")
    record = DocumentRecord(
        scope=verified.scope,
        kind=verified.kind,
        envelope=verified.envelope_bytes,
        signatures=verified.signatures,
        manifest=blobs.digest_of(verified.manifest_bytes),
        state=digest_from_name(verified.content_hash),
        signers=verified.signers,
        judged_at=verified.judged_at,
    )
    nonce = verified.recovery.nonce if verified.recovery else ""
    return Promotion(
        verified.scope,
        verified.envelope,
        record,
        verified.manifest_bytes,
        verified.state,
        verified.state_bytes,
        nonce,
        probation,
    )


def swap(
    transaction: LmdbTransaction,
    promotions: Sequence[Promotion],
    floors: FloorRecord,
    now: float,
    event: str,
    parsed: Parsed | None = None,
    boot: Boot | None = None,
) -> int:
    """Put everything that the promotions change; returns the new generation. Nothing is durable before the commit.

    `floors` say what recoveries have led to. `parsed` gives documents that the caller has read already, so that a large
    manifest is not read again. `boot` is None at a start, where nobody has read its clock.
    """
    parsed = parsed or (lambda _: None)
    for promotion in promotions:
        _refuse_conflict(transaction, promotion, floors, parsed)
        _require_sections(transaction, promotion, parsed)
    news = not all(_repeats_the_head(transaction, promotion, parsed) for promotion in promotions)
    generation = meta.read(transaction).generation + news
    meta.change(transaction, generation=generation)
    for promotion in promotions:
        _promote(transaction, promotion, generation, now, parsed, boot)
        journal.append(transaction, event, now, promotion.scope, _in_words(promotion))
    return generation


def _repeats_the_head(transaction: LmdbTransaction, promotion: Promotion, parsed: Parsed) -> bool:
    """A head issued again, without a change, raises no generation (protocol.md 4): readers have nothing to read."""
    held = _active(transaction, scope_record(transaction, HEAD), parsed) if promotion.scope == HEAD else None
    if held is None:
        return False
    before, after = parse_head(held.manifest_bytes), parse_head(promotion.manifest_bytes)
    return (before.scopes, before.revocations) == (after.scopes, after.revocations)


def _promote(
    transaction: LmdbTransaction, promotion: Promotion, generation: int, now: float, parsed: Parsed, boot: Boot | None
) -> None:
    before = scope_record(transaction, promotion.scope) or ScopeRecord(promotion.scope)
    previous = _previous_after(transaction, before, promotion, parsed)
    record = promotion.record  # its hashes were compared when it was verified, and 1 MiB of names is not hashed again
    blobs.put_known(transaction, record.manifest, promotion.manifest_bytes)
    blobs.put_known(transaction, record.state, promotion.state_bytes)
    digest = put_document(transaction, record)
    mark = _higher(before, promotion)
    after = ScopeRecord(
        scope=promotion.scope,
        active=digest,
        previous=previous,
        accepted=digest,
        epoch=mark.authority_epoch,
        version=mark.config_version,
        content_hash=mark.content_hash,
        generation=generation,
        activated_at=now,
        refresh_after=promotion.envelope.refresh_after,
        expires_at=promotion.envelope.expires_at,
    )
    gave_up = bool(promotion.nonce)
    begin_or_inherit(transaction, before, after, promotion.probation, now=now, boot=boot, gave_up=gave_up)
    put_scope(transaction, after)
    if promotion.nonce:
        trust.spend(transaction, promotion.scope, promotion.nonce)
    elif promotion.envelope.version > before.order:
        trust.drop_recoveries(transaction, promotion.scope)
    pending.discard_promoted(transaction, promotion.scope, digest)


def _previous_after(
    transaction: LmdbTransaction, before: ScopeRecord, promotion: Promotion, parsed: Parsed
) -> bytes | None:
    """The last *other* content, so that there is something to fall back to: a renewal of equal content is none, nor is
    an active that cannot be read. What a recovery leaves was given up, and must not serve again (rules S87, L34).
    """
    if promotion.nonce:
        return None
    if before.active is None:
        return before.previous
    try:
        held = parsed(before.active) or document(transaction, before.active, partial(blobs.get, transaction))
    except StoreError:
        return before.previous
    return before.previous if held.content_hash == promotion.record.content_hash else before.active


def _higher(before: ScopeRecord, promotion: Promotion) -> Mark:
    """The mark stays where a recovery went below it (rules S87)."""
    if before.mark is not None and before.order > promotion.envelope.version:
        return before.mark
    return promotion.mark


def _refuse_conflict(transaction: LmdbTransaction, promotion: Promotion, floors: FloorRecord, parsed: Parsed) -> None:
    """What is active is what the document was verified against, or nothing is swapped (rules L28)."""
    record = scope_record(transaction, promotion.scope)
    floor = floors.scopes.get(promotion.scope)
    returned = floor.returned if floor is not None else None
    is_again = record is not None and is_lost(record) and returned == promotion.mark
    if record is not None and promotion.envelope.version < record.order and not promotion.nonce and not is_again:
        raise StoreError(
            StoreFault.CONFLICT, f"{promotion.scope}: {promotion.envelope.version} is below {record.order}"
        )
    if record is not None and promotion.envelope.version == record.order:
        if not is_lost(record):
            raise StoreError(StoreFault.CONFLICT, f"{promotion.scope}: {record.order} is accepted already")
        if returned is not None:
            raise StoreError(StoreFault.CONFLICT, f"{promotion.scope}: {record.order} was given up by a recovery")
        if record.content_hash != promotion.record.content_hash:
            raise StoreError(StoreFault.CONFLICT, f"{promotion.scope}: {record.order} was accepted with other content")
    if promotion.record.kind == INCREMENT:
        _refuse_other_base(promotion, _active(transaction, record, parsed))
    if is_quarantined(transaction, promotion.scope, promotion.record.content_hash):
        raise StoreError(StoreFault.CONFLICT, f"{promotion.scope}: {promotion.record.content_hash} is in quarantine")


def _refuse_other_base(promotion: Promotion, held: StoredDocument | None) -> None:
    wanted = promotion.envelope.base_content_hash
    if held is None or held.content_hash != wanted:
        raise StoreError(StoreFault.CONFLICT, f"{promotion.scope}: the increment's base {wanted} is not active")


def _active(transaction: LmdbTransaction, record: ScopeRecord | None, parsed: Parsed) -> StoredDocument | None:
    if record is None or record.active is None:
        return None
    return parsed(record.active) or document(transaction, record.active, partial(blobs.get, transaction))


def _require_sections(transaction: LmdbTransaction, promotion: Promotion, parsed: Parsed) -> None:
    """Every section of the new state is there. What an increment leaves as it is was there when its base came."""
    state: Mapping[str, SectionEntry] = promotion.state
    if promotion.record.kind == INCREMENT:
        base = _active(transaction, scope_record(transaction, promotion.scope), parsed)
        changed = differing(base.sections, state) if base else state.keys()
        state = {name: state[name] for name in changed if name in state}
    lacking = blobs.lacking(transaction, (bytes.fromhex(entry.sha256) for entry in state.values()))
    if lacking:
        name = next(name for name, entry in state.items() if entry.sha256 == lacking[0].hex())
        raise StoreError(StoreFault.NOT_DURABLE, f"{promotion.scope}: section {name} is not in the store")


@frozen
class BundleFacts:
    """What the floors need to know of a trust bundle: of the one being activated, else of the active one."""

    version: int
    announced_epoch: int
    issued_at: int
    expires_at: int


def floors_after(
    floors: FloorRecord, promotions: Iterable[Promotion], generation: int, bundle: BundleFacts | None, boot: Boot
) -> FloorRecord:
    """The floors that must be durable before the promotions are: marks, envelopes, nonces, bundle, time."""
    promoted = tuple(promotions)
    scopes = dict(floors.scopes)
    for promotion in promoted:
        scopes[promotion.scope] = _scope_floor(scopes.get(promotion.scope), promotion)
    return replace_members(
        floors,
        generation=generation,
        authority_epoch=max(floors.authority_epoch, bundle.announced_epoch if bundle else 0),
        bundle_version=max(floors.bundle_version, bundle.version if bundle else 0),
        time_floor=_time_floor(floors, promoted, bundle, boot),
        used_nonces=floors.used_nonces | {promotion.nonce for promotion in promoted if promotion.nonce},
        scopes=scopes,
        activating=tuple(_activating(promotion) for promotion in promoted),
    )


def bundle_facts(bundle: TrustBundle) -> BundleFacts:
    return BundleFacts(bundle.version, bundle.authority_epoch, bundle.issued_at, bundle.expires_at)


def _scope_floor(present: ScopeFloor | None, promotion: Promotion) -> ScopeFloor:
    if present is not None and present.order > promotion.envelope.version:
        return ScopeFloor(present.mark, name_of(promotion.digest), promotion.mark)
    return ScopeFloor(promotion.mark, name_of(promotion.digest))


def _time_floor(
    floors: FloorRecord, promotions: Iterable[Promotion], bundle: BundleFacts | None, boot: Boot
) -> TimeFloor | None:
    """rules A16: raised by each `issued_at`, at most to the bundle's end; a bundle of a higher epoch sets it back."""
    floor = floors.time_floor
    if bundle is not None and bundle.announced_epoch > max(floors.authority_epoch, floor.epoch if floor else 0):
        floor = reset(bundle.issued_at, bundle.announced_epoch, boot)
    ceiling = bundle.expires_at if bundle else None
    for promotion in promotions:
        floor = floor_after(floor, promotion.envelope.issued_at, ceiling, boot)
    return floor


def _activating(promotion: Promotion) -> ActivatingScope:
    record = promotion.record
    return ActivatingScope(
        promotion.scope,
        name_of(promotion.digest),
        record.signers,
        record.judged_at,
        promotion.nonce,
        promotion.probation,
    )


def _in_words(promotion: Promotion) -> str:
    epoch, version = promotion.envelope.version
    return f"{promotion.record.kind} {promotion.envelope.snapshot_id} epoch {epoch} version {version}"

"""When to believe a document: the twelve steps of format.md 7, in their order.

    verify          the verdict on a document: Verified, AlreadyApplied, NotYetValid, or Rejected is raised
    follow          the verdicts on a run of trust bundles
    judge_opening   steps 1..5 alone, before a section is fetched
    judge_claims    steps 3..5 and 7..10 alone, over an envelope that was made here
    STEPS           the steps, each named as the statement that must be true

A step returns nothing, or rejects; none of them writes. `now` is one reading, in Unix seconds. Steps 1..4 read claims
that nobody has vouched for yet: they may refuse, and nothing else. A section is read once, when step 6 compares its
hash; what steps 11 and 12 have to say of it is gathered then, and said when their turn comes.

The order is what makes the reasons stable and the work small. What costs nothing comes first (form, size, whose it is),
then the signatures, then the one long reading of the content; what only a believed document may say (its epoch, its
version, its times) is looked at after the signatures, so nobody learns by unsigned bytes what a node holds. The first
statement that is not true is the verdict: two readers of one document give one reason, which the conformance vectors
hold.

Example. A node runs `route_policy` 1.6 and is given 1.5, well signed, by a mirror that was restored from an old
backup. Steps 1..7 are content: it is a snapshot of this cluster, for this node, signed by enough keys, whole, in its
time. Step 9 compares it with the mark 1.6 and says `rollback`. Nothing has been written; the pending slot that took the
sections is thrown away; 1.6 goes on. With one bit of a section changed the same document ends at step 6, and signed by
an unknown key at step 4: in neither case does the version matter.

What is decided here is belief. What is not: whether it is wanted (`agent/state/plan.py`), whether it may replace
what is active at this moment (`store/activation.py`, which compares again), whether consumers take it (validators).

Rejected:

- To gather all faults and report them together: later steps would judge what earlier ones have not yet vouched for.
- To verify while the bytes arrive and act on the first good section: half a document is none (rules L28).
- Exceptions of libraries as verdicts: a bug of ours would read as somebody's bad document. They are `verifier_fault`,
  which refuses as well and says whose fault it is.
- A `Verified` that callers can make: the store would have to trust each of them to have asked.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from cryptography.exceptions import InternalError, UnsupportedAlgorithm

from snapshot import bundle as trust_bundle
from snapshot import content_reader, envelope, section_table
from snapshot.bundle import TrustBundle
from snapshot.container import ChunkParts, Opening, Parts
from snapshot.content import DocumentContent
from snapshot.envelope import INCREMENT, RECOVERY, SHARED, SNAPSHOT, Envelope
from snapshot.frozen import frozen
from snapshot.identifiers import CONFIG, HEAD, SCOPE_TYPES, SHAREABLE, format_time
from snapshot.manifest import Head, RecoveryManifest, SectionEntry
from snapshot.reasons import Reason, Rejected
from snapshot.roles import ESTABLISHING, allowed_scope_types
from snapshot.signature import VerifySignature, verify_signature
from snapshot.verification import Keep, Verification, digest_is, reject
from snapshot.verifier_state import Mark, VerifierState

MOST_BUNDLES = 256
ISSUED_AHEAD_S = 300  # rules, Numbers: clock skew

# A fault of ours. What the caller's own parts raise (a full disk, a broken file) is none, and passes.
_OUR_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
    InternalError,
    UnsupportedAlgorithm,
)


class Verified:
    """A document that has passed every step. Only `verify` makes one, and a store activates nothing else."""

    kind: str
    scope: str
    envelope: Envelope
    envelope_bytes: bytes
    envelope_hash: str
    signatures: tuple[tuple[str, bytes], ...]
    manifest_bytes: bytes
    state: Mapping[str, SectionEntry]  # the full state that it leads to
    state_bytes: bytes  # the canonical manifest of that state
    content_hash: str  # of state_bytes
    mark: Mark
    signers: tuple[str, ...]  # whose signatures counted
    judged_at: float
    recovery: (
        RecoveryManifest | None
    )  # a recovery's own content, or the one that step 9 needed: its nonce is spent with it
    bundle: TrustBundle | None
    head: Head | None

    def __init__(self) -> None:
        raise TypeError("only snapshot.verify.verify makes a Verified")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Verified does not change: {name}")

    def __repr__(self) -> str:
        return f"<Verified {self.kind} {self.scope} {self.envelope.version}>"


@frozen
class AlreadyApplied:
    """The accepted version with the accepted content: a success without effect."""

    envelope: Envelope
    mark: Mark


@frozen
class NotYetValid:
    """A good snapshot whose time has not come: it stays pending, and is verified again, whole, at `valid_from`."""

    envelope: Envelope


Verdict = Verified | AlreadyApplied | NotYetValid


def verify(
    parts: Parts, holder: VerifierState, *, kind: str, now: float, keep: Keep | None = None, superseded: bool = False
) -> Verdict:
    """The verdict on a document of the kind that was asked for; `Rejected` and nothing else for any bytes.

    `keep(name, data)` is given the final bytes of each section that the document sets or patches, hash checked, in the
    order of the manifest, before the verdict is known. `superseded` says that the document is a trust bundle which
    another one follows in the same run, so that it may have expired (format.md 8).
    """
    case = Verification(holder, kind, now, parts, keep, superseded)
    try:
        for number, holds in STEPS:
            case.step = number
            holds(case)
    except _AlreadyAppliedError:
        return AlreadyApplied(case.envelope, holder.marks[case.envelope.scope])
    except Rejected as verdict:
        if verdict.reason is Reason.NOT_YET_VALID and kind == SNAPSHOT:
            return NotYetValid(case.envelope)
        raise
    except _OUR_FAULTS as fault:
        raise _verifier_fault(case.step, fault) from fault
    return _proof(case)


def follow(
    bundles: Sequence[Parts], holder: VerifierState, *, now: float, keep: Keep | None = None
) -> Iterator[Verified | NotYetValid]:
    """The bundles N+1.. of a run, in order, at most 256; each must be durable before the next is asked for.

    Every one but the last may have expired. The first that is refused, or whose time has not come, ends the run: what
    came before it stands. `keep` is given the sections of a bundle before the bundle itself.
    """
    for number, parts in enumerate(bundles[:MOST_BUNDLES], start=1):
        verdict = verify(parts, holder, kind=SNAPSHOT, now=now, keep=keep, superseded=number < len(bundles))
        if verdict.envelope.scope != trust_bundle.SCOPE:
            reject(3, Reason.UNKNOWN_SCOPE, trust_bundle.SCOPE, verdict.envelope.scope, "scope_type")
        if isinstance(verdict, NotYetValid):
            yield verdict
            return
        if isinstance(verdict, Verified):
            yield verdict
            holder = replace(holder, bundle=verdict.bundle, marks={**holder.marks, verdict.scope: verdict.mark})


def judge_opening(opening: Opening, holder: VerifierState, *, kind: str, now: float) -> Envelope:
    """Steps 1..5 over what comes before the manifest, so that nothing is fetched that nobody vouches for."""
    case = Verification(holder, kind, now, _OpeningOnly(opening), None)
    try:
        for number, holds in STEPS[:5]:
            case.step = number
            holds(case)
    except _OUR_FAULTS as fault:
        raise _verifier_fault(case.step, fault) from fault
    return case.envelope


def judge_claims(
    claims: Envelope,
    opening: Opening,
    holder: VerifierState,
    *,
    now: float,
    verifies: VerifySignature = verify_signature,
) -> bool:
    """Steps 3..5 and 7..10: the signatures, and all that depends on the time, on whom a document is for, and on what he
    holds; Rejected, or whether it says anything new. Its cluster and content were judged already: nothing is parsed or
    hashed. `verifies`: of another library, which judges as strictly.
    """
    case = Verification(holder, claims.kind, now, _OpeningOnly(opening), None, verifies=verifies)
    case.envelope, case.opening = claims, opening
    try:
        for number, holds in STEPS_OF_CLAIMS:
            case.step = number
            holds(case)
    except _AlreadyAppliedError:
        return False
    except _OUR_FAULTS as fault:
        raise _verifier_fault(case.step, fault) from fault
    return True


def signed_sizes(judged: Envelope, manifest_bytes: bytes, holder: VerifierState) -> list[int]:
    """Of the sections that a judged document carries, in their order, in bytes; Rejected at step 6."""
    case = Verification(holder, judged.kind, 0, _OpeningOnly(None), None)
    case.envelope, case.step = judged, 6
    try:
        content_reader.read_manifest(case, manifest_bytes)
    except _OUR_FAULTS as fault:
        raise _verifier_fault(case.step, fault) from fault
    return section_table.sizes_of(case.carried)


# 1


def envelope_is_canonical_and_closed(case: Verification) -> None:
    """Pulls what comes before the manifest, which is step 0's to read."""
    case.step = 0
    case.opening = case.parts.opening()
    case.step = 1
    case.envelope = envelope.parse(case.opening.envelope, case.kind, case.holder.limits)
    case.content = DocumentContent(case.envelope, case.holder.limits)


# 2


def cluster_is_ours(case: Verification) -> None:
    if case.envelope.cluster_id != case.holder.cluster_id:
        reject(2, Reason.WRONG_CLUSTER, case.holder.cluster_id, case.envelope.cluster_id, "cluster_id")


# 3


def subject_is_us_and_scope_type_known(case: Verification) -> None:
    """The subject before the type (format.md 7)."""
    document = case.envelope
    if document.subject_node_id == SHARED:
        _check_shared(document, case.holder)
    elif document.subject_node_id != case.holder.node_id:
        reject(3, Reason.WRONG_NODE, case.holder.node_id, document.subject_node_id, "subject_node_id")
    if document.scope_type not in SCOPE_TYPES and case.kind != HEAD:
        reject(3, Reason.UNKNOWN_SCOPE, "a scope type of version 1", document.scope_type, "scope_type")


def _check_shared(document: Envelope, holder: VerifierState) -> None:
    if document.scope_type not in SHAREABLE:
        reject(3, Reason.WRONG_NODE, "a scope type that may be shared", document.scope_type, "scope_type")
    needs_none = document.scope_type == trust_bundle.SCOPE or (document.scope_type == CONFIG and not document.roles)
    if not needs_none and not holder.roles.intersection(document.roles):
        reject(3, Reason.WRONG_NODE, "a role of ours", ", ".join(document.roles) or "none", "roles")


# 4


def a_signer_is_trusted(case: Verification) -> None:
    """A key of the bundle may sign this scope type now; otherwise the first signer's own fault is told."""
    document, authority = case.envelope, case.authority
    faults = [authority.fault(key_id, document.scope_type) for key_id in document.signers]
    if None not in faults and faults[0] is not None:
        reject(4, faults[0], "a key that may sign this now", document.signer_key_id, "signer_key_id")
    primary = authority.keys.get(document.signer_key_id)
    known = primary is not None and primary.cluster_id == case.holder.cluster_id
    if primary and known and primary.algorithm != document.signature_algorithm:
        reject(4, Reason.ALGORITHM_MISMATCH, primary.algorithm, document.signature_algorithm, "signature_algorithm")
    _our_bundle_is_new_enough(case)


def _our_bundle_is_new_enough(case: Verification) -> None:
    document, held = case.envelope, case.holder.bundle
    if held is None:
        if not case.is_bundle:
            reject(4, Reason.TRUST_BUNDLE_TOO_OLD, "a trust bundle", "none", "trust bundle")
    elif document.min_trust_bundle_version > held.version:
        wanted = f"version {document.min_trust_bundle_version} or later"
        reject(4, Reason.TRUST_BUNDLE_TOO_OLD, wanted, f"ours, version {held.version}", "trust bundle")
    elif case.now >= held.expires_at and not case.is_bundle:
        expired = f"ours, expired at {format_time(held.expires_at)}"
        reject(4, Reason.TRUST_BUNDLE_TOO_OLD, "one that has not expired", expired, "trust bundle")


# 5


def enough_signatures_count(case: Verification) -> None:
    """Good signatures, as many as the scope type's threshold asks for."""
    authority = case.authority
    case.signers = authority.counted_signers(case.envelope, case.opening)
    if not case.signers:
        reject(5, Reason.BAD_SIGNATURE, "a listed signer's good signature", "none", "signatures")
    content_reader.threshold_is_met(case.signers, authority)


# 6


def content_is_what_was_signed(case: Verification) -> None:
    """Reads the manifest, and every section once."""
    content_reader.read_manifest(case, case.parts.manifest())
    _revocations_do_not_go_back(case)
    sizes = section_table.sizes_of(case.carried)
    for data, (name, entry) in zip(case.parts.sections(sizes), case.carried.items(), strict=True):
        if len(data) != entry.size or not digest_is(data, entry.sha256):
            reject(6, Reason.CONTENT_MISMATCH, entry.sha256, "other bytes", name)
        content_reader.take_section(case, name, entry, data)
    if case.is_bundle:
        content_reader.take_bundle(case)


def _revocations_do_not_go_back(case: Verification) -> None:
    """Of step 9, and met as soon as it can be: an expired head that goes back is a rollback, and no late one (T24).

    Within one epoch: a head of a higher one begins anew, and is judged by whether the bundle announces that.
    """
    if case.mark is not None and case.envelope.authority_epoch > case.mark.authority_epoch:
        return
    if case.head and case.head.revocations.version < case.holder.revocations.version:
        least = f"{case.holder.revocations.version} or later"
        reject(9, Reason.ROLLBACK, least, case.head.revocations.version, "revocations")


# 7


def the_time_is_right(case: Verification) -> None:
    """Between `valid_from` and `expires_at`, by our clock, which what is signed may have lifted."""
    document = case.envelope
    envelope.refuse_bad_validity(document)
    case.now = _lift_clock(case)
    if document.issued_at > case.now + ISSUED_AHEAD_S:
        _reject_time(Reason.ISSUED_IN_FUTURE, "at most 300 s ahead", document.issued_at, case.now, "issued_at")
    if case.now < document.valid_from:
        _reject_time(Reason.NOT_YET_VALID, "reached", document.valid_from, case.now, "valid_from")
    if case.now >= document.expires_at and not (case.superseded and case.is_bundle):
        _reject_time(Reason.EXPIRED, "ahead", document.expires_at, case.now, "expires_at")


def _lift_clock(case: Verification) -> float:
    """A clock known to be wrong follows `issued_at`, never beyond the bundle's end."""
    if case.holder.clock_synchronised or case.holder.bundle is None:
        return case.now
    return max(case.now, min(case.envelope.issued_at, case.holder.bundle.expires_at))


# 8


def epoch_is_not_stale(case: Verification) -> None:
    """Neither below the scope's own floor, nor above the epoch that a bundle has announced."""
    epoch = case.envelope.authority_epoch
    if case.mark is not None and epoch < case.mark.authority_epoch:  # the scope's own floor (rules S89)
        reject(8, Reason.STALE_EPOCH, f"{case.mark.authority_epoch} or later", epoch, "authority_epoch")
    announced = _announced_epoch(case)
    if announced is not None and epoch > announced:
        reject(8, Reason.EPOCH_AHEAD, f"at most {announced}, the epoch announced", epoch, "authority_epoch")
    if case.kind == INCREMENT:
        _base_is_kept(case)


def _announced_epoch(case: Verification) -> int | None:
    """By our bundle; a new bundle announces its own, which never goes back (format.md 8)."""
    held = case.holder.bundle
    if not case.is_bundle:
        return held.authority_epoch if held else None
    if case.bundle and held and case.bundle.authority_epoch < held.authority_epoch:
        found = case.bundle.authority_epoch
        reject(8, Reason.STALE_EPOCH, f"an announced epoch of {held.authority_epoch} or later", found, "authority")
    return case.bundle.authority_epoch if case.bundle else None


def _base_is_kept(case: Verification) -> None:
    """An increment changes neither epoch nor subject nor audience of what it changes (rules S32)."""
    active = case.holder.active.get(case.envelope.scope)
    if active is None:
        return
    document, held = case.envelope, active.envelope
    if document.authority_epoch != held.authority_epoch:
        reject(8, Reason.EPOCH_NEEDS_SNAPSHOT, held.authority_epoch, document.authority_epoch, "authority_epoch")
    for name in ("cluster_id", "subject_node_id", "scope_type", "scope_ids", "roles", "organization_ids"):
        expected, found = getattr(held, name), getattr(document, name)
        if expected != found:
            reject(8, Reason.BAD_ENVELOPE, f"the base's {expected}", found, name)


# 9


def version_is_newer(case: Verification) -> None:
    """Above what was accepted of this scope before; an increment stands on the base that is active."""
    if case.kind == RECOVERY:
        return
    _compare_with_mark(case)
    _bundle_is_next(case)
    if case.kind == INCREMENT and case.base is None:
        active = case.holder.active.get(case.envelope.scope)
        held = f"{active.envelope.config_version} {active.content_hash}" if active else "no active document"
        wanted = f"the base {case.envelope.base_config_version} {case.envelope.base_content_hash}"
        reject(9, Reason.BASE_MISMATCH, wanted, held, "base_config_version")


def _compare_with_mark(case: Verification) -> None:
    document, mark = case.envelope, case.mark
    if mark is None:
        return
    if document.version == mark.version:
        if document.state_hash != mark.content_hash:
            reject(9, Reason.VERSION_CONFLICT, mark.content_hash, document.state_hash, "content_hash")
        if document.scope not in case.holder.lost:
            raise _AlreadyAppliedError
        _is_not_given_up(case)
    elif document.version < mark.version and not _is_taken_again(case):
        case.recovery = _recovery_for(case, mark)
        if case.recovery is None:
            reject(9, Reason.ROLLBACK, f"later than {mark.version}", str(document.version), "config_version")


def _is_not_given_up(case: Verification) -> None:
    """What a recovery has left behind does not come back because its successor was lost (rules S87)."""
    returned = case.holder.returned.get(case.envelope.scope)
    if returned is not None:
        wanted = f"{returned.version}, to which a recovery led, or later"
        reject(9, Reason.ROLLBACK, wanted, f"{case.envelope.version}, which was given up", "config_version")


def _is_taken_again(case: Verification) -> bool:
    """What a recovery has led to and was lost since; its nonce is spent, and this is no second step back."""
    scope = case.envelope.scope
    returned = case.holder.returned.get(scope) if scope in case.holder.lost else None
    return returned == Mark(*case.envelope.version, case.envelope.state_hash)


def _bundle_is_next(case: Verification) -> None:
    """N+1 exactly, of the bundle that is held, whatever the mark says (format.md 8)."""
    held, found = case.holder.bundle, case.envelope.config_version
    if case.is_bundle and held is not None and found != held.version + 1:
        reason = Reason.ROLLBACK if found <= held.version else Reason.BASE_MISMATCH
        reject(9, reason, f"version {held.version + 1}", found, "config_version")


def _recovery_for(case: Verification, mark: Mark) -> RecoveryManifest | None:
    """The recovery at hand that allows exactly this step back, once (rules S87)."""
    alone = replace(case.holder, recoveries=())
    for container in case.holder.recoveries:
        try:
            verdict = verify(ChunkParts([container], alone.limits), alone, kind=RECOVERY, now=case.now)
        except Rejected:
            continue
        if isinstance(verdict, Verified) and verdict.scope == case.envelope.scope and verdict.recovery:
            allowed = verdict.recovery
            wanted = (mark.config_version, case.envelope.config_version, case.envelope.state_hash)
            offered = (allowed.from_config_version, allowed.to_config_version, allowed.to_content_hash)
            if offered == wanted and allowed.nonce not in case.holder.used_nonces:
                return allowed
    return None


# 10


def scope_is_within_what_we_may_hold(case: Verification) -> None:
    """Roles, organizations and the type of the scope are among our own."""
    document, holder = case.envelope, case.holder
    if document.scope_type in ESTABLISHING:  # these say what our roles and organizations are
        return
    for role in document.roles:
        if role not in holder.roles:
            reject(10, Reason.ROLE_NOT_ALLOWED, "roles of ours", role, "roles")
    for organization in document.organization_ids:
        if organization not in holder.organization_ids:
            reject(10, Reason.ORGANIZATION_NOT_ALLOWED, "organizations of ours", organization, "organization_ids")
    if case.kind != HEAD and document.scope_type not in allowed_scope_types(holder.roles):
        reject(10, Reason.ROLE_NOT_ALLOWED, "a scope type that a role of ours may hold", document.scope_type, "scope")


# 11


def content_is_well_formed(case: Verification) -> None:
    """Nothing was wrong in the content, increments applied; the earliest fault is the one that is told."""
    if case.kind == INCREMENT:
        content_reader.apply_changes(case)
    content_reader.topology_is_bounded(case)
    content_reader.files_are_whole(case)
    if case.content.fault is not None:
        raise case.content.fault


# 12


def no_secret_is_raw(case: Verification) -> None:
    if case.content.secret is not None:
        raise case.content.secret
    content_reader.refuse_secret_in_files(case)


STEPS: tuple[tuple[int, Callable[[Verification], None]], ...] = (
    (1, envelope_is_canonical_and_closed),
    (2, cluster_is_ours),
    (3, subject_is_us_and_scope_type_known),
    (4, a_signer_is_trusted),
    (5, enough_signatures_count),
    (6, content_is_what_was_signed),
    (7, the_time_is_right),
    (8, epoch_is_not_stale),
    (9, version_is_newer),
    (10, scope_is_within_what_we_may_hold),
    (11, content_is_well_formed),
    (12, no_secret_is_raw),
)
STEPS_OF_CLAIMS = tuple(step for step in STEPS if step[0] in (3, 4, 5, 7, 8, 9, 10))


def _proof(case: Verification) -> Verified:
    document = case.envelope
    verified = object.__new__(Verified)
    verified.__dict__.update(
        kind=case.kind,
        scope=document.scope,
        envelope=document,
        envelope_bytes=case.opening.envelope,
        envelope_hash="sha256:" + hashlib.sha256(case.opening.envelope).hexdigest(),
        signatures=case.opening.signatures,
        manifest_bytes=case.manifest_bytes,
        state=case.state,
        state_bytes=case.state_bytes,
        content_hash=document.state_hash,
        mark=Mark(document.authority_epoch, document.config_version, document.state_hash),
        signers=case.signers,
        judged_at=case.now,
        recovery=case.recovery,
        bundle=case.bundle,
        head=case.head,
    )
    return verified


class _AlreadyAppliedError(Exception):
    """Ends the run at step 9, as a success."""


class _OpeningOnly:
    """`Parts` of which only the opening is there."""

    def __init__(self, opening: Opening | None) -> None:
        self._opening = opening

    def opening(self) -> Opening:
        if self._opening is None:
            raise RuntimeError("no opening")
        return self._opening

    def manifest(self) -> bytes:
        raise RuntimeError("no manifest")

    def sections(self, sizes: Sequence[int]) -> NoReturn:
        raise RuntimeError(f"no sections, {len(sizes)} wanted")


def _reject_time(reason: Reason, expected: str, found: int, now: float, where: str) -> NoReturn:
    reject(7, reason, f"{expected} at {format_time(now)}", format_time(found), where)


def _verifier_fault(step: int, fault: BaseException) -> Rejected:
    return Rejected(step, Reason.VERIFIER_FAULT, expected="a verdict", found=type(fault).__name__)

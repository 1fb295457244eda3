"""What is active is judged again at every start (format.md 7, last part of the table's details; threats D-26).

judge_again     the standing of a kept document now; Rejected means damage (rules L34)
is_accepted     step 9 for what is active: the accepted version, or one that a kept recovery allows
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NoReturn, Protocol

from snapshot import content_reader, envelope, manifest, section_table, trust
from snapshot.container import ChunkParts, Opening
from snapshot.envelope import INCREMENT, RECOVERY, SNAPSHOT
from snapshot.manifest import RecoveryManifest
from snapshot.reasons import Reason, Rejected
from snapshot.verification import Verification, digest_is, reject
from snapshot.verifier_state import Mark, VerifierState
from snapshot.verify import cluster_is_ours, epoch_is_not_stale, scope_is_within_what_we_may_hold
from snapshot.verify import subject_is_us_and_scope_type_known as subject_is_us


class Reverdict(StrEnum):
    """What a kept document is good for."""

    ACTIVE = "active"
    SIGNER_REVOKED = "signer_revoked"  # readable; nothing new is authorised on it
    EXPIRED = "expired"  # readable as expired; its authority is over


class KeptDocument(Protocol):
    """A document as a store holds it: the envelope and its signatures, and the full state."""

    @property
    def kind(self) -> str: ...

    @property
    def envelope_bytes(self) -> bytes: ...

    @property
    def signatures(self) -> tuple[tuple[str, bytes], ...]: ...

    @property
    def state_bytes(self) -> bytes:
        """The canonical manifest of the full state."""

    def holds(self, name: str, sha256: str) -> bool:
        """Whether the bytes of a section, read and hashed now, are those of this hash."""


def judge_again(kept: KeptDocument, holder: VerifierState, *, now: float) -> Reverdict:
    """Steps 1..3, 5, 6, 8 and 10 as ever; what 4 and 7 find becomes the standing. 11 and 12 need not run again."""
    opening = Opening(kept.envelope_bytes, kept.signatures)
    case = Verification(replace(holder, active={}), kept.kind, now, _Nothing(), None)
    case.opening = opening
    case.envelope = envelope.parse(opening.envelope, kept.kind, holder.limits)
    for holds in AT_START:
        holds(case)
    trusted = _enough_signers_are_trusted(case)
    _state_is_whole(case, kept)
    if now >= case.envelope.expires_at:
        return Reverdict.EXPIRED
    return Reverdict.ACTIVE if trusted else Reverdict.SIGNER_REVOKED


AT_START: tuple[Callable[[Verification], None], ...] = (
    cluster_is_ours,
    subject_is_us,
    epoch_is_not_stale,
    scope_is_within_what_we_may_hold,
)


def is_accepted(kept: KeptDocument, holder: VerifierState, recoveries: Sequence[bytes] = ()) -> bool:
    """Whether what is active is the scope's accepted version, or stands below it by a recovery, taken or kept.

    The recovery was judged when it was used, and its root key may be gone since: only what it says is read again.
    """
    document = envelope.parse(kept.envelope_bytes, kept.kind, holder.limits)
    mark = holder.marks.get(document.scope)
    if mark is None or document.version == mark.version:
        return mark is not None and document.state_hash == mark.content_hash
    if holder.returned.get(document.scope) == Mark(*document.version, document.state_hash):
        return True
    wanted = (mark.config_version, document.config_version, document.state_hash)
    said = [_read_recovery(container, document.scope, holder) for container in recoveries]
    return any(r and (r.from_config_version, r.to_config_version, r.to_content_hash) == wanted for r in said)


def _enough_signers_are_trusted(case: Verification) -> bool:
    """A bad signature by a key that we know is damage; a signer that is trusted no more only marks the scope."""
    # A key past its end, or a bundle past its own, takes nothing from what was accepted in time.
    authority = replace(trust.authority_over(case.envelope, case.holder, case.now), at_any_time=True)
    case.signers = authority.counted_signers(case.envelope, case.opening)
    if not case.signers and authority.verifying(case.envelope, case.opening) is False:
        reject(5, Reason.BAD_SIGNATURE, "a listed signer's good signature", "none", "signatures")
    return len(case.signers) >= max(1, authority.threshold)


def _state_is_whole(case: Verification, kept: KeptDocument) -> None:
    if kept.kind not in (SNAPSHOT, INCREMENT):
        content_reader.read_manifest(case, kept.state_bytes)
        return
    if not digest_is(kept.state_bytes, case.envelope.state_hash.removeprefix("sha256:")):
        reject(6, Reason.CONTENT_MISMATCH, case.envelope.state_hash, "another state", "manifest")
    for name, entry in section_table.read_state(kept.state_bytes, case.holder.limits).items():
        if not kept.holds(name, entry.sha256):
            reject(6, Reason.CONTENT_MISMATCH, entry.sha256, "other bytes", name)


def _read_recovery(container: bytes, scope: str, holder: VerifierState) -> RecoveryManifest | None:
    parts = ChunkParts([container], holder.limits)
    try:
        document = envelope.parse(parts.opening().envelope, RECOVERY, holder.limits)
        content = parts.manifest()
        if document.scope != scope or not digest_is(content, document.content_hash.removeprefix("sha256:")):
            return None
        return manifest.parse_recovery(content, holder.limits)
    except Rejected:
        return None


class _Nothing:
    """`Parts` that are not asked for: what is judged again has been read already."""

    def opening(self) -> NoReturn:
        raise RuntimeError("no opening")

    def manifest(self) -> NoReturn:
        raise RuntimeError("no manifest")

    def sections(self, sizes: Sequence[int]) -> NoReturn:
        raise RuntimeError(f"no sections, {len(sizes)} wanted")

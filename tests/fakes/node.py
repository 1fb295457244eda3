"""A node that follows a cluster: it keeps in memory what it has verified, as a store would on disk.

judge       the verdict, nothing kept
take        judged good, and kept
refuses     judged bad for this reason, nothing changed, and the next good document goes through
accepted    a holder after a verdict
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from coordinator.keys.signer import SignedDocument
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.container import ChunkParts, encode
from snapshot.envelope import RECOVERY, Envelope
from snapshot.identifiers import HEAD
from snapshot.manifest import SectionEntry
from snapshot.reasons import Reason, Rejected
from snapshot.roles import ESTABLISHING
from snapshot.verifier_state import VerifierState
from snapshot.verify import AlreadyApplied, Verdict, Verified, verify

if TYPE_CHECKING:
    from tests.fakes.cluster import Cluster


@dataclass(frozen=True)
class Held:
    """An accepted document, its sections by content address."""

    envelope: Envelope
    content_hash: str
    sections: Mapping[str, SectionEntry]
    blobs: Mapping[str, bytes]

    def read(self, name: str) -> bytes:
        return self.blobs[self.sections[name].sha256]


@dataclass(repr=False)
class Node:
    cluster: "Cluster"
    holder: VerifierState

    def __post_init__(self) -> None:
        self.kept: list[tuple[str, bytes]] = []
        """What the last verification handed to `keep`, in its order."""

    def judge(
        self, document: SignedDocument | Iterable[bytes], *, kind: str | None = None, now: float | None = None
    ) -> Verdict:
        """`document` may be the chunks of a container; the kind asked for is then `snapshot`, unless given."""
        if isinstance(document, SignedDocument):
            asked, chunks = kind or document.envelope.kind, document.chunks()
        else:
            asked, chunks = kind or "snapshot", iter(document)
        self.kept = []
        parts = ChunkParts(chunks, self.holder.limits)
        return verify(
            parts,
            self.holder,
            kind=asked,
            now=self.cluster.now if now is None else now,
            keep=lambda name, data: self.kept.append((name, data)),
        )

    def accept(self, verdict: Verdict) -> VerifierState:
        """The holder after it: changed by a Verified, by nothing else."""
        if isinstance(verdict, Verified):
            self.holder = accepted(self.holder, verdict, dict(self.kept))
        return self.holder

    def take(self, document: SignedDocument, *, kind: str | None = None, now: float | None = None) -> Verified:
        verdict = self.judge(document, kind=kind, now=now)
        assert isinstance(verdict, Verified), verdict
        self.accept(verdict)
        return verdict

    def applied_already(self, document: SignedDocument) -> bool:
        return isinstance(self.judge(document), AlreadyApplied)

    def refusal(
        self, document: SignedDocument | Iterable[bytes], *, kind: str | None = None, now: float | None = None
    ) -> tuple[int, Reason]:
        """Why it is refused; the holder is as before."""
        before = copy.deepcopy(self.holder)
        try:
            verdict = self.judge(document, kind=kind, now=now)
        except Rejected as refused:
            assert self.holder == before, "a check changed what the reader knows"
            return refused.step, refused.reason
        raise AssertionError(f"not refused: {verdict}")

    def refuses(
        self,
        document: SignedDocument | Iterable[bytes],
        step: int,
        reason: Reason,
        *,
        then: SignedDocument | None = None,
        kind: str | None = None,
        now: float | None = None,
    ) -> None:
        """Refused for this; `then`, or a new degraded_mode_policy, is taken all the same (rules S53)."""
        found = self.refusal(document, kind=kind, now=now)
        assert found == (step, reason), f"{found} instead of {(step, reason)}"
        self.take(then or self.cluster.snapshot(scope="degraded_mode_policy"))


def accepted(holder: VerifierState, verdict: Verified, sections: Mapping[str, bytes]) -> VerifierState:
    """After the swap. `sections` are those that `keep` was given, by name."""
    if verdict.kind == RECOVERY:
        container = b"".join(encode(verdict.envelope_bytes, verdict.signatures, verdict.manifest_bytes, ()))
        return replace(holder, recoveries=(*holder.recoveries, container))
    scope = verdict.scope
    mark = max(verdict.mark, holder.marks.get(scope, verdict.mark), key=lambda one: one.version)
    active = dict(holder.active)
    if verdict.head is not None:  # the only way in which a scope is withdrawn
        kept = (*verdict.head.scopes, HEAD, TRUST_BUNDLE)
        active = {name: held for name, held in active.items() if name in kept}
    active[scope] = Held(verdict.envelope, verdict.content_hash, verdict.state, _blobs(holder, verdict, sections))
    roles, organizations = _standing(holder, verdict)
    return replace(
        holder,
        roles=roles,
        organization_ids=organizations,
        marks={**holder.marks, scope: mark},
        active=active,
        bundle=verdict.bundle or holder.bundle,
        revocations=verdict.head.revocations if verdict.head else holder.revocations,
        used_nonces=holder.used_nonces | ({verdict.recovery.nonce} if verdict.recovery else set()),
        lost=holder.lost - {scope} if verdict.mark.version == mark.version else holder.lost,
    )


def _blobs(holder: VerifierState, verdict: Verified, sections: Mapping[str, bytes]) -> dict[str, bytes]:
    before = holder.active.get(verdict.scope)
    return {
        entry.sha256: sections[name] if name in sections else before.read(name)  # type: ignore[union-attr]
        for name, entry in verdict.state.items()
    }


def _standing(holder: VerifierState, verdict: Verified) -> tuple[frozenset[str], frozenset[str]]:
    """Roles and organizations are those of the accepted node_runtime, else of node_bootstrap (format.md 9)."""
    speaks = verdict.envelope.scope_type in ESTABLISHING and (
        verdict.scope == "node_runtime" or "node_runtime" not in holder.active
    )
    if not speaks:
        return holder.roles, holder.organization_ids
    return frozenset(verdict.envelope.roles), frozenset(verdict.envelope.organization_ids)

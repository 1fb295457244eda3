"""The agent's own verifier, run on everything that was signed, before it is given out (rules S69).

    review(document, holder, now)            all of its twelve steps
    Reviewer().review(document, ...)         the same verdicts for many; of documents that say the same, once

A fleet's heads, and the documents of one content, differ in few words, and most of what the verifier does is to read:
two thirds of what a head cost were our own bytes, parsed and verified as a stranger's. So the first of its kind is
judged by all twelve steps, from its bytes. Who comes after it, in its batch or in a later one, is its twin where, read
back from the bytes that were signed, it

- has the members of that one's envelope, but for its id, its subject, its version and its times, which are in their
  form what was meant;
- has its content: the same manifest, which names the sections by their hashes; or, of a head, just the members that
  were meant, with the same revocations and the same kinds of marks, and no more bytes;

and is then asked by its signatures, and by the steps that depend on whose it is and on the time: 3..5 and 7..10
(`verify.judge_claims`).

Why that suffices. Form, cluster, hashes, audience and content of a twin are those of what has passed, by the same trust
bundle and the same revocations: with others nothing has passed yet (`begin`). Its id is random digits of ours, its
subject a member's id, and the numbers are written by the writer that wrote the first one's. Whether its signers may
sign now, and whether its dates are right, is asked of each. What a head lists are envelopes that were read, or judged
here. The signature of each is verified: that costs a tenth of a millisecond, and one that a faulty machine has spoilt
must not go out, since from it and a good one the key can be worked out.

Nodes that join come a few at a time, so that in a batch of theirs nothing is the second of its kind: to judge each of
their documents whole was a third of what a join cost.

Increments, recoveries' targets and what is larger are judged whole, each.
"""

import hashlib
import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from coordinator.keys.signer import SignedDocument
from coordinator.publishing.remembered import Recent
from coordinator.publishing.signing_context import Unpublishable
from snapshot.bundle import TrustBundle
from snapshot.container import ChunkParts, Opening
from snapshot.envelope import INCREMENT, Envelope
from snapshot.identifiers import format_time, is_id
from snapshot.manifest import Revocations
from snapshot.reasons import Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import AlreadyApplied, Verified, judge_claims, verify

MOST_PASSED = 4_096  # of those that were met last
_TIMES = ("issued_at", "valid_from", "refresh_after", "expires_at")
_OF_EACH = ("snapshot_id", "subject_node_id", "config_version", *_TIMES)
_OF_EACH_HEAD = (*_OF_EACH, "content_hash")


def review(document: SignedDocument, holder: VerifierState, now: float) -> Verified:
    """`holder`: the node as it stands when it holds what was published last. Unpublishable with the node's reason."""
    kind = document.envelope.kind
    try:
        verdict = verify(ChunkParts(document.chunks(), holder.limits), holder, kind=kind, now=now)
    except Rejected as rejected:
        raise _refusal_of(document, holder, rejected) from rejected
    if not isinstance(verdict, Verified):
        raise _without_effect(document, holder, type(verdict).__name__)
    return verdict


@dataclass(frozen=True)
class MeantHead:
    """What a head is to say. `marks`: all that its entries say of changes, which have a form of their own."""

    manifest: Mapping[str, object]
    marks: Hashable


@dataclass(frozen=True)
class _Passed:
    """What has passed all steps: the members of its envelope that its twins share with it, and its manifest's."""

    members: Mapping[str, object]
    manifest_hash: bytes
    manifest_size: int


@dataclass
class Reviewer:
    """`_by`: the trust bundle and the revocations by which all of it has passed."""

    _passed: Recent[Hashable, _Passed] = field(default_factory=lambda: Recent(MOST_PASSED))
    _by: tuple[TrustBundle, Revocations] | None = None

    def begin(self, bundle: TrustBundle, revocations: Revocations) -> None:
        """A batch that is judged by these."""
        if self._by != (bundle, revocations):
            self._by, self._passed = (bundle, revocations), Recent(MOST_PASSED)

    def review(
        self, document: SignedDocument, holder: VerifierState, now: float, meant: MeantHead | None = None
    ) -> None:
        """`meant`: of a head. Unpublishable as of `review`."""
        one = document.envelope
        if one.kind == INCREMENT or holder.recoveries:
            review(document, holder, now)
            return
        members = json.loads(document.envelope_bytes)
        own = {name: members.pop(name) for name in (_OF_EACH if meant is None else _OF_EACH_HEAD)}
        key = (one.scope, holder.roles, one.content_hash if meant is None else meant.marks)
        passed = self._passed.get(key)
        if passed is None or not (_says_own(own, one) and _is_like(document, members, passed, meant)):
            review(document, holder, now)
            manifest = document.manifest_bytes
            self._passed.put(key, _Passed(members, hashlib.sha256(manifest).digest(), len(manifest)))
        else:
            _judge_claims(document, holder, now)


def _says_own(own: Mapping[str, object], meant: Envelope) -> bool:
    members = vars(meant)
    wanted = {name: format_time(members[name]) if name in _TIMES else members[name] for name in own}
    return own == wanted and is_id(own["subject_node_id"])


def _is_like(document: SignedDocument, members: Mapping[str, object], passed: _Passed, meant: MeantHead | None) -> bool:
    if members != passed.members:
        return False
    if meant is None:
        return hashlib.sha256(document.manifest_bytes).digest() == passed.manifest_hash
    is_no_larger = len(document.manifest_bytes) <= passed.manifest_size
    return is_no_larger and bool(json.loads(document.manifest_bytes) == meant.manifest)


def _judge_claims(document: SignedDocument, holder: VerifierState, now: float) -> None:
    try:
        opening = Opening(document.envelope_bytes, document.signatures)
        is_new = judge_claims(document.envelope, opening, holder, now=now)
    except Rejected as rejected:
        raise _refusal_of(document, holder, rejected) from rejected
    if not is_new:
        raise _without_effect(document, holder, AlreadyApplied.__name__)


def _refusal_of(document: SignedDocument, holder: VerifierState, rejected: Rejected) -> Unpublishable:
    detail = f"{document.envelope.scope} of {holder.node_id}: step {rejected.step}, {rejected.detail}"
    return Unpublishable(rejected.reason.value, detail)


def _without_effect(document: SignedDocument, holder: VerifierState, found: str) -> Unpublishable:
    return Unpublishable("no_effect", f"{document.envelope.scope} of {holder.node_id} would be {found}")

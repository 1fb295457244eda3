"""The agent's own verifier, run on everything that was signed, before it is given out (rules S69).

    review(document, holder, now)            all of its twelve steps
    Reviewer().review(document, ...)         the same verdicts for many; of documents that say the same, once

A fleet's heads, and the documents of one content, differ in few words, and most of what the verifier does is to read:
two thirds of what a head cost were our own bytes, parsed and verified as a stranger's. So the first of its kind is
judged by all twelve steps, from its bytes. Who comes after it, in its batch or in a later one, is its twin where, read
back from the bytes that were signed, it

- is the envelope of that one, byte for byte, but for its id, its subject, its version and its times (and a head's
  content hash), which are what was meant;
- has its content: the same manifest, which names the sections by their hashes; or, of a head, just the members that
  were meant, with the same revocations and the same kinds of marks, and no more bytes. Of a head that is renewed as it
  is, all behind its two first numbers is what a head of this node has passed with before; of one that is amended that
  is so once each line that is new, which says what was meant, is taken back to what it was;

and is then asked by its signatures, and by the steps that depend on whose it is and on the time: 3..5 and 7..10
(`verify.judge_claims`).

A head that was written from the text of the one before it, as the database has it, says just what was meant, or it is
judged no further: nobody's alteration of that text is signed (`OtherThanMeant`).

Why that suffices. Form, cluster, hashes, audience and content of a twin are those of what has passed, by the same trust
bundle and the same revocations: with others nothing has passed yet (`begin`). Its id is random digits of ours, its
subject a member's id, and the numbers are written by the writer that wrote the first one's. Whether its signers may
sign now, and whether its dates are right, is asked of each. What a head lists are envelopes that were read, or judged
here. The signature of each is verified, by another library than the one that made it (keys/own_signatures.py): one that
a faulty machine has spoilt must not go out, since from it and a good one the key can be worked out.

Nodes that join come a few at a time, so that in a batch of theirs nothing is the second of its kind: to judge each of
their documents whole was a third of what a join cost.

Increments, recoveries' targets and what is larger are judged whole, each.
"""

import hashlib
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from coordinator.keys import signer
from coordinator.keys.envelope_form import EnvelopeForm
from coordinator.keys.own_signatures import verify_own
from coordinator.keys.signer import SignedDocument
from coordinator.publishing.remembered import Recent
from coordinator.publishing.signing_context import Unpublishable
from snapshot.bundle import TrustBundle
from snapshot.container import ChunkParts, Opening
from snapshot.envelope import INCREMENT, Envelope
from snapshot.identifiers import HEAD, is_id
from snapshot.manifest import Revocations
from snapshot.reasons import Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import AlreadyApplied, Verified, judge_claims, verify

MOST_PASSED = 4_096  # of those that were met last
_OF_EACH = (
    *("snapshot_id", "subject_node_id", "config_version"),
    *("issued_at", "valid_from", "refresh_after", "expires_at"),
)
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


class OtherThanMeant(Exception):
    """A head that was written from the one before it says something else: the text of that has been altered."""


class MeantLine(NamedTuple):
    """A member of what a head lists: its text in the head before, its text now, and what it is to say."""

    before: bytes
    after: bytes
    members: Mapping[str, Mapping[str, object]]

    @property
    def is_as_meant(self) -> bool:
        return bool(json.loads(b"{%b}" % self.after) == self.members)


@dataclass(frozen=True)
class MeantHead:
    """What a head is to say: `numbers` are its generation and its poll interval, `members` all of it. `marks`: all that
    its entries say of changes, which have a form of their own. `said`: the digest of all but the numbers, where that
    has passed with the node's head before it, and is to be the same but for `lines`.
    """

    numbers: tuple[int, int]
    members: Callable[[], Mapping[str, object]]
    marks: Hashable
    said: bytes | None = None
    lines: Sequence[MeantLine] = ()

    def is_said(self, manifest: bytes, digest: bytes) -> bool:
        """Whether that is so, of a manifest with this digest."""
        for line in self.lines if self.said is not None else ():
            if manifest.count(line.after) != 1 or not line.is_as_meant:
                return False
            manifest = manifest.replace(line.after, line.before)
        return (self.digest(manifest) if self.lines else digest) == self.said

    def is_content(self, manifest: bytes, digest: bytes) -> bool:
        """Whether it says just what was meant, however that is known."""
        return self.is_said(manifest, digest) or bool(json.loads(manifest) == self.members())

    def digest(self, manifest: bytes) -> bytes:
        """Of all but the numbers; of all of it, where they are not what was meant, or something comes before them."""
        return hashlib.sha256(manifest.removeprefix(b'{"generation":%d,"poll_after_s":%d,' % self.numbers)).digest()


@dataclass
class _Passed:
    """What has passed all steps: its envelope, of which its twins have the members `own` otherwise."""

    envelope: bytes
    own: tuple[str, ...]
    manifest_size: int

    def is_twin(self, envelope: bytes, meant: Envelope) -> bool:
        """Whether an envelope is this one, with those members as they were meant."""
        is_in_form = is_id(meant.subject_node_id) and is_id(meant.snapshot_id)
        return is_in_form and self._form.fill(vars(meant)) == envelope

    @cached_property
    def _form(self) -> EnvelopeForm:
        return EnvelopeForm(self.envelope, self.own)


@dataclass
class Reviewer:
    """`_by`: the trust bundle and the revocations by which all of it has passed."""

    _passed: Recent[Hashable, _Passed] = field(default_factory=lambda: Recent(MOST_PASSED))
    _by: tuple[TrustBundle, Revocations] | None = None

    def begin(self, bundle: TrustBundle, revocations: Revocations) -> None:
        """A batch that is judged by these."""
        if self._by != (bundle, revocations):
            self._by, self._passed = (bundle, revocations), Recent(MOST_PASSED)

    def review(self, document: SignedDocument, holder: VerifierState, now: float) -> None:
        """Unpublishable as of `review`."""
        one = document.envelope
        if one.kind == INCREMENT or holder.recoveries:
            review(document, holder, now)
            return
        key = (one.scope, holder.roles, one.content_hash)
        passed = self._passed.get(key)
        if passed is not None and passed.is_twin(document.envelope_bytes, one) and _is_whole(document):
            _judge_claims(document, holder, now)
        else:
            review(document, holder, now)
            self._passed.put(key, _Passed(document.envelope_bytes, _OF_EACH, len(document.manifest_bytes)))

    def review_head(self, document: SignedDocument, holder: VerifierState, now: float, meant: MeantHead) -> bytes:
        """The same of a head; the digest of what it says. OtherThanMeant where it was written from the one before it
        and does not say what it was meant to.
        """
        manifest, key = document.manifest_bytes, (HEAD, holder.roles, meant.marks)
        said, passed = meant.digest(manifest), self._passed.get(key)
        is_amended = meant.said is not None
        if is_amended and not meant.is_content(manifest, said):
            raise OtherThanMeant
        if (
            passed is not None
            and passed.is_twin(document.envelope_bytes, document.envelope)
            and len(manifest) <= passed.manifest_size
            and (is_amended or meant.is_content(manifest, said))
        ):
            _judge_claims(document, holder, now)
        else:
            review(document, holder, now)
            self._passed.put(key, _Passed(document.envelope_bytes, _OF_EACH_HEAD, len(manifest)))
        return said


def _is_whole(document: SignedDocument) -> bool:
    """Whether it has the manifest whose hash its envelope has: the sections follow from that."""
    return signer.content_hash(document.manifest_bytes) == document.envelope.content_hash


def _judge_claims(document: SignedDocument, holder: VerifierState, now: float) -> None:
    try:
        opening = Opening(document.envelope_bytes, document.signatures)
        is_new = judge_claims(document.envelope, opening, holder, now=now, verifies=verify_own)
    except Rejected as rejected:
        raise _refusal_of(document, holder, rejected) from rejected
    if not is_new:
        raise _without_effect(document, holder, AlreadyApplied.__name__)


def _refusal_of(document: SignedDocument, holder: VerifierState, rejected: Rejected) -> Unpublishable:
    detail = f"{document.envelope.scope} of {holder.node_id}: step {rejected.step}, {rejected.detail}"
    return Unpublishable(rejected.reason.value, detail)


def _without_effect(document: SignedDocument, holder: VerifierState, found: str) -> Unpublishable:
    return Unpublishable("no_effect", f"{document.envelope.scope} of {holder.node_id} would be {found}")

"""The head that is out, signed again: what it says, with a later number and later dates. Pure, but for the signature.

    repeat_due     which repetition of a head is due at a time: 0 is the head itself
    next_look      when to ask for the next one
    sign_again     that repetition

Everything in a repetition follows from the head and its number: the listing, the revocations and all else are the
head's own, and its dates are the head's, moved by whole steps. So two replicas that are cut off from their database at
once, or one that was cut off twice, make the same document under one number, byte by byte; and a node that goes from
one to the other finds the number that it holds, or a later one.

A step is the time between a head's renewal and its end, or between its issue and its renewal where that is less: each
repetition is out a whole step before the one before it ends, and none is dated ahead.

Rejected: dates by the clock of whoever signs. Two replicas would make two documents under one number.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from coordinator.base.settings import CLOCK_SKEW_S
from coordinator.keys import signer
from coordinator.keys.signer import SignedDocument
from coordinator.keys.signing_key import SigningKey
from coordinator.replicas.generations import BLOCK, MOST_REPEATS
from snapshot import canonical, envelope
from snapshot.container import ChunkParts
from snapshot.envelope import Envelope
from snapshot.identifiers import HEAD


@dataclass(frozen=True)
class OpenedHead:
    """A head of ours, as it was published."""

    envelope: Envelope
    manifest: bytes

    @classmethod
    def of(cls, container: bytes) -> "OpenedHead":
        parts = ChunkParts([container])
        return cls(envelope.parse(parts.opening().envelope, HEAD), parts.manifest())

    @property
    def step_s(self) -> int:
        one = self.envelope
        return max(1, min(one.expires_at - one.refresh_after, one.refresh_after - one.issued_at))

    def begins_at(self, number: int) -> int:
        """When this repetition is due, in Unix seconds."""
        return self.envelope.refresh_after + (number - 1) * self.step_s


def repeat_due(head: OpenedHead, now: float) -> int:
    """0 as long as the head itself is fresh, and where it has no block of numbers, or has used it up."""
    if now < head.envelope.refresh_after or head.envelope.config_version % BLOCK:
        return 0
    number = 1 + int(now - head.envelope.refresh_after) // head.step_s
    return number if number <= MOST_REPEATS else 0


def next_look(head: OpenedHead, now: float) -> int:
    """When the next repetition may be due, in Unix seconds."""
    number = repeat_due(head, now)
    is_fresh = now < head.envelope.refresh_after
    return head.begins_at(number + 1) if number or is_fresh else int(now) + head.step_s


def sign_again(head: OpenedHead, number: int, keys: Sequence[SigningKey]) -> SignedDocument:
    """`keys`: all that are to sign, the primary one first."""
    one = head.envelope
    generation, begins_at = one.config_version + number, head.begins_at(number)
    issued_at = max(one.issued_at, begins_at - CLOCK_SKEW_S)
    repeated = replace(
        one,
        snapshot_id=hashlib.sha256(f"{one.snapshot_id} {number}".encode()).hexdigest()[:32],
        config_version=generation,
        issued_at=issued_at,
        valid_from=issued_at,
        refresh_after=head.begins_at(number + 1),
        expires_at=one.expires_at + number * head.step_s,
    )
    return signer.sign(repeated, _manifest(head, generation), (), keys)


def _manifest(head: OpenedHead, generation: int) -> bytes:
    said = canonical.reread(head.manifest)  # our own
    if not isinstance(said, dict):
        raise AssertionError("the manifest of a head is an object")
    return canonical.dumps({**said, "generation": generation})

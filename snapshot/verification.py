"""What is known of one document while it is judged: the evidence that the steps gather, and ask."""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import NoReturn

from snapshot import trust
from snapshot.bundle import TrustBundle
from snapshot.container import Opening, Parts
from snapshot.content import DocumentContent
from snapshot.envelope import Envelope
from snapshot.manifest import Head, RecoveryManifest, SectionChange, SectionEntry
from snapshot.raw_secrets import RawSections
from snapshot.reasons import Reason, Rejected
from snapshot.signature import VerifySignature, verify_signature
from snapshot.verifier_state import HeldDocument, Mark, VerifierState

Keep = Callable[[str, bytes], None]


class Verification:
    """One document, one reader, one reading of the clock. Written out: a coordinator makes one for each head of a
    fleet, and with a dataclass of so many members that was a tenth of judging it.
    """

    # Set by step 1.
    opening: Opening
    envelope: Envelope
    content: DocumentContent

    def __init__(
        self,
        holder: VerifierState,
        kind: str,
        now: float,
        parts: Parts,
        keep: Keep | None,
        superseded: bool = False,
        verifies: VerifySignature = verify_signature,
    ) -> None:
        self.holder = holder
        self.kind = kind
        self.now = now
        self.parts = parts
        self.keep = keep
        self.superseded = superseded  # a trust bundle that another one follows in the same run
        self.verifies = verifies
        self.step = 0
        self.signers: tuple[str, ...] = ()
        self.manifest_bytes = b""
        self.carried: Mapping[str, SectionEntry] = {}  # sections whose bytes the document brings
        self.changes: dict[str, SectionChange] = {}  # of an increment
        self.state: Mapping[str, SectionEntry] = {}
        self.state_bytes = b""  # the canonical manifest of the state, once it is known
        self.head: Head | None = None
        self.recovery: RecoveryManifest | None = None
        self.bundle: TrustBundle | None = None

    @cached_property
    def authority(self) -> trust.Authority:
        """Whose signatures count: asked by steps 4 and 5."""
        return trust.authority_over(self.envelope, self.holder, self.now, self.verifies)

    @cached_property
    def raw(self) -> RawSections:
        """Of a config."""
        return RawSections()

    @cached_property
    def mark(self) -> Mark | None:
        """Asked from step 6 on."""
        return self.holder.marks.get(self.envelope.scope)

    @property
    def base(self) -> HeldDocument | None:
        """The active document of the scope, if it is the one that this increment changes."""
        active = self.holder.active.get(self.envelope.scope)
        if active is None or active.envelope.config_version != self.envelope.base_config_version:
            return None
        return active if active.content_hash == self.envelope.base_content_hash else None

    @property
    def is_bundle(self) -> bool:
        return trust.is_bundle(self.envelope)


def digest_is(data: bytes, digest: str) -> bool:
    return hmac.compare_digest(hashlib.sha256(data).hexdigest(), digest)


def reject(step: int, reason: Reason, expected: object, found: object, where: str) -> NoReturn:
    raise Rejected(step, reason, expected=expected, found=found, where=where)


def step_11(reason: Reason, expected: object, found: object, where: str) -> Rejected:
    return Rejected(11, reason, expected=expected, found=found, where=where)

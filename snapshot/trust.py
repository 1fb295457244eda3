"""Steps 4 and 5: whose signatures count. Authority is looked up anew for each document (threats D-39)."""

from collections.abc import Mapping

from snapshot import bundle as trust_bundle
from snapshot.bundle import CONFIG, ROOT, KeyRecord, TrustBundle
from snapshot.container import Opening
from snapshot.envelope import RECOVERY, Envelope
from snapshot.frozen import frozen
from snapshot.reasons import Reason
from snapshot.signature import VerifySignature, pae, verify_signature
from snapshot.verifier_state import VerifierState


@frozen
class Authority:
    """The keys that one document is judged by, at one time."""

    keys: Mapping[str, KeyRecord]
    threshold: int
    purpose: str
    holder: VerifierState
    now: float
    at_any_time: bool = False  # what is active outlives its key's end (format.md 7)
    verifies: VerifySignature = verify_signature

    def __init__(
        self,
        keys: Mapping[str, KeyRecord],
        threshold: int,
        purpose: str,
        holder: VerifierState,
        now: float,
        at_any_time: bool = False,
        verifies: VerifySignature = verify_signature,
    ) -> None:
        """In a fifth of the time that `frozen` takes, of the one of these that each document has."""
        self.__dict__.update(keys=keys, threshold=threshold, purpose=purpose, holder=holder, now=now)
        self.__dict__.update(at_any_time=at_any_time, verifies=verifies)

    def fault(self, key_id: str, scope_type: str) -> Reason | None:
        """Why this key does not sign such a document now; None where it may."""
        record = self.keys.get(key_id)
        if record is None:
            return Reason.UNKNOWN_KEY
        revoked = key_id in self.holder.revocations.key_ids
        now = record.not_before if self.at_any_time else self.now
        return record.fault(self.holder.cluster_id, now, scope_type, self.purpose, revoked)

    def counted_signers(self, envelope: Envelope, opening: Opening) -> tuple[str, ...]:
        """The listed signers whose key may sign this and whose signature verifies; each public key once."""
        return tuple(
            key_id
            for key_id, signature in self._present(envelope, opening)
            if self.fault(key_id, envelope.scope_type) is None
            and self._verifies(key_id, signature, envelope.kind, opening)
        )

    def verifying(self, envelope: Envelope, opening: Opening) -> bool | None:
        """Whether a listed signature by any key that is known, trusted or not, verifies; None where none is known."""
        known = [(key_id, signature) for key_id, signature in self._present(envelope, opening) if key_id in self.keys]
        return any(self._verifies(*signed, envelope.kind, opening) for signed in known) if known else None

    def _present(self, envelope: Envelope, opening: Opening) -> list[tuple[str, bytes]]:
        signatures = dict(opening.signatures)
        return [(key_id, signatures[key_id]) for key_id in envelope.signers if key_id in signatures]

    def _verifies(self, key_id: str, signature: bytes, kind: str, opening: Opening) -> bool:
        record = self.keys[key_id]
        return self.verifies(record.algorithm, record.public_key, pae(kind, opening.envelope), signature)


def authority_over(
    envelope: Envelope, holder: VerifierState, now: float, verifies: VerifySignature = verify_signature
) -> Authority:
    """Our bundle's; for a first bundle that of the given roots; without either, nobody's."""
    purpose = ROOT if is_root_signed(envelope) else CONFIG
    return authority_for(purpose, envelope.scope_type, holder, now, verifies)


def authority_for(
    purpose: str, scope_type: str, holder: VerifierState, now: float, verifies: VerifySignature = verify_signature
) -> Authority:
    """Over any document of this type that keys of this purpose sign."""
    if holder.bundle is not None:
        of_config = holder.bundle.config_threshold(scope_type)
        threshold = holder.bundle.thresholds[ROOT] if purpose == ROOT else of_config
        return Authority(holder.bundle.keys, threshold, purpose, holder, now, verifies=verifies)
    if holder.roots is not None:
        return Authority(holder.roots.keys, holder.roots.threshold, purpose, holder, now, verifies=verifies)
    return Authority({}, 1, purpose, holder, now)


def own_authority(bundle: TrustBundle, holder: VerifierState, now: float) -> Authority:
    """A bundle's authority over itself: it must meet the root threshold that it sets (format.md 8)."""
    return Authority(bundle.keys, bundle.thresholds[ROOT], ROOT, holder, now)


def is_root_signed(envelope: Envelope) -> bool:
    return envelope.kind == RECOVERY or envelope.scope_type == trust_bundle.SCOPE


def is_bundle(envelope: Envelope) -> bool:
    return envelope.kind != RECOVERY and envelope.scope_type == trust_bundle.SCOPE

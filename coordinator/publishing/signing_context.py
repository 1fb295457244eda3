"""What all documents of one run of the publisher have in common: the authority, the time, the keys (rules S40, K47)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.base.settings import CoordinatorSettings
from coordinator.database.documents import HeadEntry
from coordinator.keys.signing_key import SigningKey
from snapshot.bundle import ACTIVE, CONFIG, TrustBundle
from snapshot.manifest import Revocations

SPREAD = 0.1  # how much earlier than its time a document may be due, so that not all are due at once


class Unpublishable(Exception):
    """Something that is not signed, or was signed and is not given out. `reason` is a stable slug."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Issue:
    """`issued_at` lies CLOCK_SKEW_S before `now`, so that a node whose clock is behind takes what is signed at once; it
    is never before what was issued earlier (rules K47), nor after `now`, the time at which what is signed is judged
    before it goes out. Lifetimes count from `now`.
    """

    cluster_id: str
    authority_epoch: int
    now: float
    issued_at: int
    settings: CoordinatorSettings
    keys: tuple[SigningKey, ...]
    bundle: TrustBundle
    bundle_entry: HeadEntry
    revocations: Revocations
    _signers: dict[str, tuple[SigningKey, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def signers(self, scope_type: str) -> tuple[SigningKey, ...]:
        """All of our keys that may sign this now. While a key is rolled over these are the old one and the new one
        (rules S36); never a retiring one (rules S40). Unpublishable where the threshold is not met.
        """
        if scope_type not in self._signers:
            self._signers[scope_type] = usable_keys(
                self.keys, self.bundle, self.revocations, self.cluster_id, scope_type, self.now
            )
        found = self._signers[scope_type]
        needed = self.bundle.thresholds[CONFIG]
        if len(found) < needed:
            raise Unpublishable("no_signer", f"{len(found)} of our keys may sign {scope_type}, {needed} are needed")
        return found

    def expires_at(self, lifetime_s: int) -> int:
        return int(self.now) + lifetime_s

    def refresh_after(self, subject: str, interval_s: int) -> int:
        """`interval_s` after now, up to a tenth earlier for each subject: a fleet's renewals do not coincide."""
        share = int.from_bytes(hashlib.sha256(subject.encode()).digest()[:4], "big") / 2**32
        return int(self.now) + int(interval_s * (1 - SPREAD * share))

    def poll_after_s(self, node_id: str) -> int:
        """The poll interval with the jitter of rules, Numbers: 20 % more or less, another one at each issue."""
        digest = hashlib.sha256(f"{node_id} {int(self.now)}".encode()).digest()
        share = int.from_bytes(digest[:4], "big") / 2**32
        return max(1, round(self.settings.poll_after_s * (0.8 + 0.4 * share)))


def usable_keys(
    keys: Sequence[SigningKey],
    bundle: TrustBundle,
    revocations: Revocations,
    cluster_id: str,
    scope_type: str,
    now: float,
) -> tuple[SigningKey, ...]:
    """Those whose record in the bundle says so, in the order given."""
    return tuple(key for key in keys if fault_of(key, bundle, revocations, cluster_id, scope_type, now) is None)


def fault_of(
    key: SigningKey, bundle: TrustBundle, revocations: Revocations, cluster_id: str, scope_type: str, now: float
) -> str | None:
    """Why one of our keys does not sign: a reason of step 4, or the status that it has."""
    found = bundle.keys.get(key.key_id)
    if found is None:
        return "unknown_key"
    fault = found.fault(cluster_id, now, scope_type, CONFIG, key.key_id in revocations.key_ids)
    if fault is not None:
        return fault.value
    return None if found.status == ACTIVE else found.status

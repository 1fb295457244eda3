"""What all documents of one run of the publisher have in common: the authority, the time, the keys (rules S40, K47)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from coordinator.base.settings import CoordinatorSettings
from coordinator.database.documents import HeadEntry
from coordinator.declared.compiler import Audience
from coordinator.keys import signer
from coordinator.keys.signer import DocumentForm, EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical
from snapshot.bundle import ACTIVE, CONFIG, TrustBundle
from snapshot.envelope import SHARED, SNAPSHOT, Envelope
from snapshot.identifiers import HEAD, Scope
from snapshot.manifest import Revocations
from snapshot.verifier_state import VerifierState

Signers = tuple[str, ...]
"""Of a document: its scope type, and then who signed it, the primary one first."""

SPREAD = 0.1  # how much earlier than its time a document may be due, so that not all are due at once


_SHARES = 16_384  # remembered, of what is asked for again and again: of each node, and each type that nodes share


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
    _forms: dict[tuple[object, ...], DocumentForm] = field(default_factory=dict, init=False, repr=False, compare=False)
    _signers: dict[str, tuple[SigningKey, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _vouched: dict[Signers, bool] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def revocation_members(self) -> dict[str, object]:
        """As each head says them."""
        return signer.revocation_members(self.revocations, of_head=True)

    @cached_property
    def revocations_text(self) -> str:
        return canonical.dumps(self.revocation_members).decode()

    @cached_property
    def nobody(self) -> VerifierState:
        """What each node has in common as a reader of what is signed here."""
        return VerifierState(self.cluster_id, "", bundle=self.bundle, revocations=self.revocations)

    @cached_property
    def head_form(self) -> DocumentForm:
        """Of all heads. Unpublishable as of `signers`."""
        claims = EnvelopeClaims(
            snapshot_id="",
            cluster_id=self.cluster_id,
            scope_type=HEAD,
            config_version=0,
            authority_epoch=self.authority_epoch,
            issued_at=self.issued_at,
            refresh_after=int(self.now),
            expires_at=self.expires_at(self.settings.head_lifetime_s),
            min_trust_bundle_version=0,  # it is what announces the next bundle, to nodes that hold an older one
        )
        return DocumentForm(HEAD, claims, self.signers(HEAD))

    def snapshot_form(self, scope: Scope, audience: Audience) -> DocumentForm:
        """Of all snapshots of a scope that are for this audience. Unpublishable as of `signers`."""
        key = (scope, audience.roles, audience.organization_ids)
        if key not in self._forms:
            self._forms[key] = DocumentForm(SNAPSHOT, self.claims(scope, audience), self.signers(scope.type))
        return self._forms[key]

    def claims(self, scope: Scope, audience: Audience) -> EnvelopeClaims:
        """What each version of a scope says that is signed now, for this audience."""
        return EnvelopeClaims(
            snapshot_id="",
            cluster_id=self.cluster_id,
            scope_type=scope.type,
            scope_ids=scope.ids,
            roles=audience.roles,
            organization_ids=audience.organization_ids,
            config_version=0,
            authority_epoch=self.authority_epoch,
            issued_at=self.issued_at,
            refresh_after=int(self.now),
            expires_at=self.expires_at(self.settings.snapshot_lifetime_s),
            min_trust_bundle_version=self.bundle.version,
        )

    def signers(self, scope_type: str) -> tuple[SigningKey, ...]:
        """All of our keys that may sign this now. While a key is rolled over these are the old one and the new one
        (rules S36); never a retiring one (rules S40). Unpublishable where the threshold is not met.
        """
        if scope_type not in self._signers:
            self._signers[scope_type] = usable_keys(
                self.keys, self.bundle, self.revocations, self.cluster_id, scope_type, self.now
            )
        found = self._signers[scope_type]
        needed = self.bundle.config_threshold(scope_type)
        if len(found) < needed:
            raise Unpublishable("no_signer", f"{len(found)} of our keys may sign {scope_type}, {needed} are needed")
        return found

    def vouches_for(self, signers: Signers) -> bool:
        """Whether those who signed a document may still: else every node calls it `signer_revoked`, and a resync finds
        it again (format.md 8, rules S82). A retiring key's signature is good.
        """
        if signers not in self._vouched:
            scope_type, *key_ids = signers
            bundle, revoked = self.bundle, self.revocations.key_ids
            records = [bundle.keys[key_id] for key_id in key_ids if key_id in bundle.keys]
            faults = [
                record.fault(self.cluster_id, self.now, scope_type, CONFIG, record.key_id in revoked)
                for record in records
            ]
            self._vouched[signers] = faults.count(None) >= bundle.config_threshold(scope_type)
        return self._vouched[signers]

    def expires_at(self, lifetime_s: int) -> int:
        return int(self.now) + lifetime_s

    def refresh_after(self, subject: str, interval_s: int) -> int:
        """`interval_s` after now, up to a tenth earlier for each subject: a fleet's renewals do not coincide."""
        return int(self.now) + int(interval_s * (1 - SPREAD * _known_share_of(subject)))

    def due_at(self, document: Envelope, node_id: str) -> int:
        """When a node's document is to be renewed. What is shared has one time for all, by which the last one has a
        renewal: they come to it one after the other, up to a tenth earlier, and the first of them makes it.
        """
        if document.subject_node_id != SHARED:
            return document.refresh_after
        interval_s = min(self.settings.snapshot_refresh_s, document.refresh_after - document.issued_at)
        return document.refresh_after - int(interval_s * SPREAD * _known_share_of(f"{node_id} {document.scope_type}"))

    def poll_after_s(self, node_id: str) -> int:
        """The poll interval with the jitter of rules, Numbers: 20 % more or less, another one at each issue."""
        share = _share_of(f"{node_id} {int(self.now)}")
        return max(1, round(self.settings.poll_after_s * (0.8 + 0.4 * share)))


def signers_of(one: Envelope) -> Signers:
    return (one.scope_type, *one.signers)


def _share_of(subject: str) -> float:
    """From 0 to 1, the same for the same words."""
    return int.from_bytes(hashlib.sha256(subject.encode()).digest()[:4], "big") / 2**32


_known_share_of = lru_cache(maxsize=_SHARES)(_share_of)


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

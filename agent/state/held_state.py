"""What the node holds, read in one go: what the verifier, the states and the gate go by. Synchronous: it reads.

Expensive parts (a bundle's keys, what a section names) are read once for each content and kept while it is active.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from agent.state.compact_set import compact, together
from agent.state.revoked_services import still_counts
from agent.state.view import View, Views
from snapshot import bundle as bundles
from snapshot import manifest as manifests
from snapshot import trust
from snapshot.bundle import CONFIG, TrustBundle
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.degraded import HeldScope
from snapshot.frozen import frozen, mutable
from snapshot.grants import POLICY_SCOPE, POLICY_SECTION, Grants, LateGrants, Policy, parse_policy, read_grants
from snapshot.identifiers import HEAD, parse_scope
from snapshot.limits import Limits
from snapshot.manifest import Head, Revocations
from snapshot.trust import Authority
from snapshot.verifier_state import Roots, VerifierState
from store.base.documents import StoredDocument
from store.base.enrolment import Enrolment
from store.store import HolderState as StoreStanding
from store.store import Store

RUNTIME, BOOTSTRAP = "node_runtime", "node_bootstrap"
AUTHORITIES = "authorities"  # a section of the latter
AT_ONCE_BYTES = 1 << 20  # of a document of more, what it names is read once somebody asks: it would hold the start up
ASKED_ON_THE_LOOP = frozenset({"peer_directory", "storage_directory"})  # what others name is asked for on a thread


@frozen
class Holdings:
    """At one generation. `scopes` are the active ones as the gate sees them; `revoked` means this node."""

    view: View
    kept: StoreStanding
    holder: VerifierState
    head: Head | None = None
    head_hash: str = ""
    policy: Policy | None = None
    scopes: Mapping[str, HeldScope] = field(default_factory=dict)
    revocations: Revocations = field(default_factory=Revocations)
    roles: frozenset[str] = frozenset()  # as assigned; the holder's are without the revoked ones
    floor_lost: bool = False
    authorities: bytes | None = None  # the section as the node_bootstrap has it

    @property
    def bundle(self) -> TrustBundle | None:
        return self.holder.bundle

    @property
    def is_revoked(self) -> bool:
        return self.holder.node_id in self.revocations.node_ids

    @property
    def listed_scopes(self) -> frozenset[str]:
        """Those of the accepted head whose types are known (format.md 5)."""
        return frozenset() if self.head is None else self.head.known_scopes

    @property
    def head_expires_at(self) -> int | None:
        return self.view.head.expires_at if self.view.head else None

    @property
    def held_head(self) -> tuple[int, int]:
        """(authority_epoch, generation), (0, 0) for none: one that was lost with its store is asked for again."""
        return self.kept.active[HEAD].version if HEAD in self.kept.active else (0, 0)


@mutable
class HoldingsReader:
    """Of one node and store; used on one thread at a time."""

    store: Store
    views: Views
    cluster_id: str
    node_id: str
    limits: Limits
    roots: Roots | None = None
    enrolled: Enrolment | None = None
    _bundle: tuple[str, TrustBundle] | None = None
    _head: tuple[str, Head] | None = None
    _authorities: tuple[str, bytes | None] | None = None
    _policy: tuple[str, Policy | None] | None = None
    _grants: dict[str, tuple[str, Grants | LateGrants]] = field(default_factory=dict)  # by scope, of that document
    _read: dict[str, Mapping[tuple[str, str], Grants]] = field(default_factory=dict)  # by scope: section and its hash

    def read(self) -> Holdings:
        kept, view = self.store.standing(), self.views.all()
        bundle = self._read_bundle(kept.active.get(TRUST_BUNDLE))
        head = self._read_head(kept.active.get(HEAD))
        counts = head and still_counts(kept.active[HEAD], bundle.authority_epoch if bundle else 0)
        head_revocations = head.revocations if head and counts else Revocations()
        revocations = head_revocations.with_bundle(bundle.revocations) if bundle else head_revocations
        roles, organizations = _roles_and_organizations(kept.active)
        holder = VerifierState(
            cluster_id=self.cluster_id,
            node_id=self.node_id,
            roles=roles - _revoked_roles(revocations, self.node_id),
            organization_ids=organizations,
            bundle=bundle,
            roots=self.roots,
            marks=kept.marks,
            active=kept.active,
            recoveries=kept.recoveries,
            used_nonces=kept.used_nonces,
            revocations=head_revocations,
            lost=kept.lost,
            returned=kept.returned,
            limits=self.limits,
        )
        documents = {name: document for name, document in kept.active.items() if name != HEAD}
        return Holdings(
            view=view,
            kept=kept,
            holder=holder,
            head=head,
            head_hash=kept.active[HEAD].envelope_hash if head else "",
            policy=self._read_policy(kept.active.get(POLICY_SCOPE)),
            scopes=self._held_scopes(documents, holder),
            revocations=revocations,
            roles=roles,
            floor_lost=self.store.is_floor_lost,
            authorities=self._read_authorities(kept.active.get(BOOTSTRAP)),
        )

    def _read_bundle(self, document: StoredDocument | None) -> TrustBundle | None:
        if document is None:
            return None
        if self._bundle is None or self._bundle[0] != document.envelope_hash:
            sections = {name: document.read(name) for name in document.sections}
            self._bundle = document.envelope_hash, bundles.from_bytes(document.envelope, sections, self.limits)
        return self._bundle[1]

    def _read_head(self, document: StoredDocument | None) -> Head | None:
        if document is None:
            return None
        if self._head is None or self._head[0] != document.envelope_hash:
            self._head = document.envelope_hash, manifests.parse_head(document.manifest_bytes, self.limits)
        return self._head[1]

    def _read_authorities(self, document: StoredDocument | None) -> bytes | None:
        """What it says is read by who speaks to coordinators: it takes a library that nothing else here waits for."""
        if document is None or AUTHORITIES not in document.sections:
            return None
        if self._authorities is None or self._authorities[0] != document.envelope_hash:
            self._authorities = document.envelope_hash, document.read(AUTHORITIES)
        return self._authorities[1]

    def _read_policy(self, document: StoredDocument | None) -> Policy | None:
        if document is None or POLICY_SECTION not in document.sections:
            return None
        if self._policy is None or self._policy[0] != document.envelope_hash:
            self._policy = document.envelope_hash, parse_policy(document.read(POLICY_SECTION))
        return self._policy[1]

    def _held_scopes(self, documents: Mapping[str, StoredDocument], holder: VerifierState) -> dict[str, HeldScope]:
        at_start = not self._grants
        self._grants = {name: self._grants_of(document, at_start) for name, document in documents.items()}
        for gone in self._read.keys() - documents.keys():
            self._read.pop(gone, None)
        return {
            name: HeldScope(
                expires_at=document.envelope.expires_at,
                authority_epoch=document.envelope.authority_epoch,
                signer_revoked=not is_vouched_for(document, holder),
                grants=self._grants[name][1],
            )
            for name, document in documents.items()
        }

    def _grants_of(self, document: StoredDocument, at_start: bool) -> tuple[str, Grants | LateGrants]:
        """Of this document, once; those that are late stay so while it is active. At a start what is there is read,
        since it may be damaged. What has come since was whole a moment ago: no update waits for another look at it.
        """
        held = self._grants.get(document.scope)
        if held is not None and held[0] == document.envelope_hash:
            return held
        is_needed = at_start or parse_scope(document.scope)[0] in ASKED_ON_THE_LOOP
        if is_needed and _json_bytes(document) <= AT_ONCE_BYTES:
            return document.envelope_hash, self._read_grants(document)
        return document.envelope_hash, LateGrants(lambda: self._read_grants(document))

    def _read_grants(self, document: StoredDocument) -> Grants:
        """What a section named that is as it was is not read again. Whoever asks is on a thread of his own: so what was
        read is put in the place of what was read before, and neither is changed.
        """
        scope_type, before = parse_scope(document.scope)[0], self._read.get(document.scope, {})
        found = {
            (name, entry.sha256): before.get((name, entry.sha256))
            or _compact(read_grants(scope_type, [(name, document.read(name))]))
            for name, entry in document.sections.items()
            if not entry.is_raw  # bytes name nothing
        }
        self._read[document.scope] = found
        kinds = Grants.__dataclass_fields__
        return Grants(**{kind: together([getattr(grants, kind) for grants in found.values()]) for kind in kinds})  # type: ignore[arg-type]


def _json_bytes(document: StoredDocument) -> int:
    return sum(entry.size for entry in document.sections.values() if not entry.is_raw)


def _compact(grants: Grants) -> Grants:
    """In little memory; endpoints, mirrors and resources are few, and are gone through."""
    many = Grants.__dataclass_fields__.keys() - {"endpoints", "mirrors", "resources"}
    kept = {kind: compact(getattr(grants, kind)) for kind in many}
    return replace(grants, **kept)  # type: ignore[arg-type]


def is_vouched_for(document: StoredDocument, holder: VerifierState) -> bool:
    """Whether enough of the signers that counted are still trusted, whatever the time (format.md 8; threats D-41)."""
    if document.envelope.scope_type == TRUST_BUNDLE:
        return True
    return _are_enough(
        document.signers, document.envelope.scope_type, trust.authority_over(document.envelope, holder, 0)
    )


def are_vouched_for(signers: Sequence[str], scope_type: str, holder: VerifierState) -> bool:
    """The same, of config keys that have signed what is not held any more."""
    return _are_enough(signers, scope_type, trust.authority_for(CONFIG, scope_type, holder, 0))


def _are_enough(signers: Sequence[str], scope_type: str, authority: Authority) -> bool:
    authority = replace(authority, at_any_time=True)
    return sum(authority.fault(signer, scope_type) is None for signer in signers) >= max(1, authority.threshold)


def _roles_and_organizations(active: Mapping[str, StoredDocument]) -> tuple[frozenset[str], frozenset[str]]:
    """Roles and organizations: of node_runtime, else of node_bootstrap (format.md 9)."""
    document = active.get(RUNTIME) or active.get(BOOTSTRAP)
    if document is None:
        return frozenset(), frozenset()
    return frozenset(document.envelope.roles), frozenset(document.envelope.organization_ids)


def _revoked_roles(revocations: Revocations, node_id: str) -> frozenset[str]:
    prefix = f"{node_id}/"
    return frozenset(
        assignment.removeprefix(prefix) for assignment in revocations.role_assignments if assignment.startswith(prefix)
    )

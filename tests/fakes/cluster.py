"""A cluster in memory: it holds keys, makes signed documents of every kind, and makes nodes that follow it.

    cluster = Cluster()
    node = cluster.node("core_mesh")
    good = cluster.snapshot({"routes": {"north": {}}})
    node.refuses(cluster.forge(good, cluster_id="elsewhere"), 2, Reason.WRONG_CLUSTER, then=good)

Everything is right unless a test says what is wrong: any envelope member is a keyword (`DROP` leaves it out), and
`forge` signs again what was changed, so that only the fault under test is met. Documents are made by the product's own
signer; what is broken on purpose is broken here. Nothing reads a clock: `NOW` is the time.
"""

import copy
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coordinator.keys import signer
from coordinator.keys.signer import Base, EnvelopeClaims, SignedDocument
from coordinator.keys.signing_key import SigningKey
from snapshot import canonical, patch
from snapshot import envelope as envelopes
from snapshot.bundle import ACTIVE, CONFIG, REVOKED, ROOT, parse_keys
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.envelope import Envelope
from snapshot.identifiers import HEAD, format_time, parse_scope, parse_time
from snapshot.limits import Limits
from snapshot.manifest import RecoveryManifest, Revocations, ScopeVersion, SectionChange
from snapshot.reasons import Rejected
from snapshot.signature import pae
from snapshot.verifier_state import Roots, VerifierState
from tests.fakes.node import Node
from tests.fakes.signed import signed_head

NOW = parse_time("2027-12-05T16:00:00Z")
HOUR, DAY = 3600, 86400
CLUSTER_ID, NODE_ID = "raven-1", "node-a"
ORGANIZATIONS = ("amber", "sable")
ROUTE_POLICY, PEER_DIRECTORY = "route_policy", "peer_directory"
DROP = object()
"""As an envelope member: leave it out."""

_TIMES = ("issued_at", "valid_from", "refresh_after", "expires_at")


@cache
def key(name: str) -> SigningKey:
    """An Ed25519 key, the same for the same name in every run."""
    return SigningKey.of(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest()))


@dataclass(frozen=True)
class Trusted:
    """A key as the next trust bundle will list it."""

    key: SigningKey
    purpose: str = CONFIG
    status: str = ACTIVE
    cluster_id: str = CLUSTER_ID
    not_before: int = NOW - 30 * DAY
    not_after: int = NOW + 365 * DAY
    scope_types: tuple[str, ...] | None = None  # None: all that a config key may sign

    def record(self) -> dict[str, object]:
        return signer.key_record(**vars(self))


@dataclass(frozen=True)
class State:
    """The full state of a scope at one version: its sections' bytes."""

    config_version: int
    sections: Mapping[str, bytes]
    raw: frozenset[str] = frozenset()

    def base(self) -> Base:
        entries = {name: signer.entry_of(data, is_raw=name in self.raw) for name, data in self.sections.items()}
        return Base(self.config_version, entries)


@dataclass(repr=False)
class Cluster:
    """What a coordinator would hold. `trusted` is the next bundle's content; change it, then `trust_bundle()`."""

    cluster_id: str = CLUSTER_ID
    now: float = NOW
    authority_epoch: int = 1
    root_threshold: int = 2
    config_threshold: int = 1
    revocations: Revocations = field(default_factory=Revocations)
    trusted: dict[str, Trusted] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    """The last version made, by scope."""
    states: dict[str, State] = field(default_factory=dict)
    """The last full state made, by scope: what an increment starts from."""
    published: dict[str, SignedDocument] = field(default_factory=dict)
    """The last document made, by scope: what a head lists."""

    def __post_init__(self) -> None:
        if not self.trusted:
            for name in ("root-1", "root-2", "root-3"):
                self.trust(name, purpose=ROOT)
            for name in ("config-1", "config-2"):
                self.trust(name)
        self._known: dict[str, SigningKey] = {}  # all that have signed here, so that `forge` can sign again
        self._roots_before: tuple[SigningKey, ...] = ()
        self.first_bundle = self.trust_bundle()

    def trust(self, name: str, **members: object) -> None:
        """Add a key to the bundle to come, or change how it stands there."""
        before = self.trusted.get(name) or Trusted(key(name), cluster_id=self.cluster_id)
        self.trusted[name] = replace(before, **members)  # type: ignore[arg-type]

    def keys_for(self, purpose: str) -> tuple[SigningKey, ...]:
        """Those of the bundle to come that may sign."""
        return tuple(one.key for one in self.trusted.values() if one.purpose == purpose and one.status != REVOKED)

    # Documents

    def snapshot(
        self,
        sections: Mapping[str, object] | None = None,
        scope: str = ROUTE_POLICY,
        *,
        keys: Sequence[SigningKey] | None = None,
        raw: Iterable[str] = (),
        **members: object,
    ) -> SignedDocument:
        """The next version of a scope; sections are JSON values, or bytes as they are; those in `raw` are no JSON."""
        claims = self._claims(scope, members)
        given = {"settings": {"version": claims.config_version}} if sections is None else sections
        encoded = {name: signer.section_bytes(value) for name, value in given.items()}
        made = signer.snapshot(claims, encoded, keys or self._signers(CONFIG), no_json := frozenset(raw))
        return self._publish(self._with(made, keys, members), encoded, no_json)

    def increment(
        self,
        scope: str = ROUTE_POLICY,
        *,
        sets: Mapping[str, object] | None = None,
        removes: Iterable[str] = (),
        patches: Mapping[str, object] | None = None,
        results: Mapping[str, bytes] | None = None,
        base: State | None = None,
        raw: Iterable[str] = (),
        keys: Sequence[SigningKey] | None = None,
        **members: object,
    ) -> SignedDocument:
        """The change from the last state made. `results` says what a patch is claimed to give, where that is a lie."""
        before = base or self.states[scope]
        brought = {name: signer.section_bytes(value) for name, value in (sets or {}).items()}
        after = {name: data for name, data in before.sections.items() if name not in (gone := set(removes))} | brought
        changes: dict[str, SectionChange] = {name: SectionChange("remove", None, None) for name in gone}
        no_json = (before.raw - gone - brought.keys()) | frozenset(raw)
        for name, data in brought.items():
            changes[name] = SectionChange("set", *2 * (signer.entry_of(data, is_raw=name in no_json),))
        for name, operations in (patches or {}).items():
            brought[name] = signer.section_bytes(operations)
            after[name] = (results or {}).get(name) or _patched(before.sections.get(name), operations)
            changes[name] = SectionChange("patch", signer.entry_of(brought[name]), signer.entry_of(after[name]))
        claims = self._claims(scope, members)
        made = signer.increment(claims, before.base(), changes, brought, keys or self._signers(CONFIG))
        return self._publish(self._with(made, keys, members), after, no_json)

    def head(
        self,
        scopes: Mapping[str, ScopeVersion] | None = None,
        *,
        revocations: Revocations | None = None,
        candidates: Mapping[str, ScopeVersion] | None = None,
        keys: Sequence[SigningKey] | None = None,
        **members: object,
    ) -> SignedDocument:
        """The next generation; it lists what was published last, unless told otherwise."""
        listed = self.listed()
        claims = replace(self._claims(HEAD, members), expires_at=NOW + HOUR // 2, refresh_after=NOW + HOUR // 4)
        made = signed_head(
            claims,
            listed if scopes is None else scopes,
            keys or self._signers(CONFIG),
            revocations=revocations,
            candidates=candidates,
        )
        return self._publish(self._with(made, keys, members), {})

    def listed(self) -> dict[str, ScopeVersion]:
        """What was published last, as a head says it."""
        return {scope: listing(document) for scope, document in self.published.items() if scope != HEAD}

    def recovery(
        self,
        to: SignedDocument,
        *,
        from_version: int | None = None,
        nonce: str = "nonce-1",
        keys: Sequence[SigningKey] | None = None,
        **members: object,
    ) -> SignedDocument:
        """Permission to go back from the last version made to `to`."""
        there = to.envelope
        start = self.versions[there.scope] if from_version is None else from_version
        allowed = RecoveryManifest(start, there.config_version, there.state_hash, nonce)
        claims = replace(self._claims(there.scope, {"config_version": 1}), snapshot_id=f"recovery-{nonce}")
        made = signer.recovery(claims, allowed, keys or self._signers(ROOT))
        return self._with(made, keys, members)

    def bundle_sections(self) -> dict[str, dict[str, object]]:
        """The sections of the bundle to come, for a test to spoil."""
        sections = signer.trust_bundle_sections(
            {one.key.key_id: one.record() for one in self.trusted.values()},
            root_threshold=self.root_threshold,
            config_threshold=self.config_threshold,
            authority_epoch=self.authority_epoch,
            revocations=self.revocations,
        )
        return copy.deepcopy(sections)  # type: ignore[arg-type]

    def trust_bundle(
        self,
        sections: Mapping[str, object] | None = None,
        *,
        keys: Sequence[SigningKey] | None = None,
        **members: object,
    ) -> SignedDocument:
        """The next bundle, signed by the roots that the last one lists and by those that this one lists."""
        encoded = {
            name: signer.section_bytes(value)
            for name, value in (self.bundle_sections() if sections is None else sections).items()
        }
        roots = tuple(dict.fromkeys((*self._roots_before, *self.keys_for(ROOT))))
        claims = replace(self._claims(TRUST_BUNDLE, members), subject_node_id="*", expires_at=NOW + 90 * DAY)
        made = signer.snapshot(claims, encoded, keys or roots)
        self._roots_before = self.keys_for(ROOT)
        return self._publish(self._with(made, keys or roots, members), encoded)

    # What is broken on purpose

    def forge(
        self,
        document: SignedDocument,
        *,
        keys: Sequence[SigningKey] | None = None,
        signed_as: str | None = None,
        envelope: bytes | None = None,
        manifest: object = None,
        sections: Sequence[bytes] | None = None,
        **members: object,
    ) -> SignedDocument:
        """`document` with these members, content or whole envelope, signed again by its own signers or by `keys`.

        The listed signers stay as they were. `signed_as` is the kind of the signed type, where it is
        not the document's.
        """
        content = document.manifest_bytes if manifest is None else signer.section_bytes(manifest)
        bodies = document.sections if sections is None else tuple(sections)
        if envelope is None:
            changed: dict[str, object] = {}
            if manifest is not None or sections is not None:
                changed = {"content_hash": signer.content_hash(content), "content_length": sum(map(len, bodies))}
            envelope = _edited(document.envelope_bytes, changed | members)
        signers = keys or [self._known[name] for name, _ in document.signatures]
        message = pae(document.envelope.kind if signed_as is None else signed_as, envelope)
        signatures = tuple((one.key_id, one.sign(message)) for one in signers)
        return SignedDocument(_parsed(envelope, document.envelope), envelope, signatures, content, bodies)

    # Readers

    def node(
        self,
        *roles: str,
        node_id: str = NODE_ID,
        organization_ids: Iterable[str] = ORGANIZATIONS,
        limits: Limits | None = None,
        take_bundle: bool = True,
    ) -> Node:
        """A node with these roles that has taken the last trust bundle, judged by the roots that it lists."""
        holder = VerifierState(
            cluster_id=self.cluster_id,
            node_id=node_id,
            roles=frozenset(roles),
            organization_ids=frozenset(organization_ids),
            roots=self.roots(),
            limits=limits or Limits(),
        )
        node = Node(self, holder)
        if take_bundle:
            node.take(self.published[TRUST_BUNDLE])
        return node

    def roots(self) -> Roots:
        """The root keys of the bundle to come and their threshold, as an operator would pin them."""
        records = {one.key.key_id: one.record() for one in self.trusted.values() if one.purpose == ROOT}
        return Roots(parse_keys(records), self.root_threshold)

    def _claims(self, scope: str, members: Mapping[str, object]) -> EnvelopeClaims:
        """Good ones for the version that is given, else for the next one of the scope."""
        version = members.get("config_version")
        if type(version) is not int:
            version = self.versions[scope] = self.versions.get(scope, 0) + 1
        scope_type, scope_ids = parse_scope(scope)
        return EnvelopeClaims(
            snapshot_id="-".join([scope_type, *scope_ids, str(version)]),
            cluster_id=self.cluster_id,
            subject_node_id=NODE_ID,
            scope_type=scope_type,
            scope_ids=scope_ids,
            config_version=version,
            authority_epoch=self.authority_epoch,
            issued_at=NOW - 60,
            refresh_after=NOW + DAY,
            expires_at=NOW + 7 * DAY,
        )

    def _signers(self, purpose: str) -> tuple[SigningKey, ...]:
        """Exactly as many as the threshold asks for."""
        threshold = self.root_threshold if purpose == ROOT else self.config_threshold
        return self.keys_for(purpose)[:threshold]

    def _with(
        self, made: SignedDocument, keys: Sequence[SigningKey] | None, members: Mapping[str, object]
    ) -> SignedDocument:
        self._known.update({one.key_id: one for one in (*(keys or ()), *(one.key for one in self.trusted.values()))})
        return self.forge(made, keys=keys, **members) if members else made  # type: ignore[arg-type]

    def _publish(
        self, made: SignedDocument, sections: Mapping[str, bytes], raw: frozenset[str] = frozenset()
    ) -> SignedDocument:
        scope, version = made.envelope.scope, made.envelope.config_version
        self.versions[scope] = max(version, self.versions.get(scope, 0))
        self.states[scope] = State(version, sections, raw)
        self.published[scope] = made
        return made


def listing(document: SignedDocument) -> ScopeVersion:
    """What a head says of a document."""
    one = document.envelope
    return ScopeVersion(one.authority_epoch, one.config_version, one.state_hash, one.snapshot_id)


def _edited(envelope: bytes, members: Mapping[str, object]) -> bytes:
    value = canonical.loads(envelope)
    assert isinstance(value, dict)
    for name, item in members.items():
        is_seconds = name in _TIMES and type(item) is int
        value[name] = _time(item) if is_seconds else item  # type: ignore[arg-type]
    return canonical.dumps({name: item for name, item in value.items() if item is not DROP})


def _time(seconds: int) -> object:
    """As documents have it; a number that is the time of no calendar stays one."""
    try:
        return format_time(seconds)
    except (ValueError, OverflowError, OSError):
        return seconds


def _parsed(data: bytes, otherwise: Envelope) -> Envelope:
    """What the bytes say; where they say nothing, what they said before they were spoilt."""
    try:
        return envelopes.parse(data, otherwise.kind)
    except Rejected:
        pass
    with suppress(Rejected, ValueError):
        members = canonical.loads(data)
        kind = members.get("kind") if isinstance(members, dict) else None
        if kind in envelopes.KINDS and kind != otherwise.kind:
            return envelopes.parse(data, str(kind))
    return otherwise


def _patched(base: bytes | None, operations: object) -> bytes:
    """What the patch gives; where it gives nothing, the base, for the verifier to find out."""
    if base is None:
        return b"{}"
    try:
        return canonical.dumps(patch.apply(copy.deepcopy(operations), canonical.loads(base)))
    except ValueError:
        return base

"""A cluster that signs and a node that keeps: real documents, the real verifier, a real store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.keys import signer
from coordinator.keys.signing_key import SigningKey
from snapshot import bundle as bundles
from snapshot.container import ChunkParts, Reader
from snapshot.identifiers import HEAD
from snapshot.manifest import RecoveryManifest, SectionChange
from snapshot.verifier_state import Roots, VerifierState
from snapshot.verify import AlreadyApplied, NotYetValid, Verified, signed_sizes, verify
from store.base.disk import Disk
from store.base.layout import Root
from store.base.timefloor import Boot
from store.store import Store
from tests.fakes.signed import signed_head

CLUSTER, NODE = "blue", "node-1"
NOW = 1_900_000_000
DAY = 86_400
BOOT = Boot("boot-1", 1000.0)
SCOPE = "route_policy"
ROLES = ("core_mesh", "egress_service")


@dataclass
class Cluster:
    """Keys and documents. `epoch` is what new documents carry."""

    root: SigningKey = field(default_factory=SigningKey.generate)
    config: SigningKey = field(default_factory=SigningKey.generate)
    epoch: int = 1
    counter: int = 0

    def claims(self, scope_type: str, version: int, **changes: object) -> signer.EnvelopeClaims:
        self.counter += 1
        issued = int(changes.pop("issued_at", NOW - 60))
        values = {
            "snapshot_id": f"s{self.counter}",
            "cluster_id": CLUSTER,
            "scope_type": scope_type,
            "config_version": version,
            "authority_epoch": self.epoch,
            "issued_at": issued,
            "refresh_after": issued + DAY,
            "expires_at": issued + 7 * DAY,
            "roles": ROLES,
        }
        return signer.EnvelopeClaims(**(values | changes))

    def bundle(self, version: int = 1, announced: int = 1, **changes: object) -> signer.SignedDocument:
        keys = {
            key.key_id: signer.key_record(
                key, purpose=purpose, cluster_id=CLUSTER, not_before=NOW - DAY, not_after=NOW + 900 * DAY
            )
            for key, purpose in ((self.root, "root"), (self.config, "config"))
        }
        sections = signer.trust_bundle_sections(keys, root_threshold=1, config_threshold=1, authority_epoch=announced)
        claims = self.claims("trust_bundle", version, roles=(), expires_at=NOW + 90 * DAY, **changes)
        return signer.snapshot(claims, sections, [self.root])

    def snapshot(self, version: int, sections: Mapping[str, object], scope: str = SCOPE, **changes: object):
        raw = changes.pop("raw", ())
        return signer.snapshot(self.claims(scope, version, **changes), sections, [self.config], raw)

    def increment(self, version, base: Verified, changes: Mapping[str, SectionChange], brought, **more: object):
        held = signer.Base(base.envelope.config_version, base.state)
        claims = self.claims(base.envelope.scope_type, version, **more)
        return signer.increment(claims, held, changes, brought, [self.config])

    def setting(self, version: int, base: Verified, name: str, value: object):
        """An increment that sets one section."""
        data = signer.section_bytes(value)
        entry = signer.entry_of(data)
        return self.increment(version, base, {name: SectionChange("set", entry, entry)}, {name: data})

    def head(self, generation: int, **changes: object):
        return signed_head(self.claims("head", generation, subject_node_id=NODE, **changes), {}, [self.config])

    def recovery(self, old: int, new: signer.SignedDocument, nonce: str = "n1"):
        allowed = RecoveryManifest(old, new.envelope.config_version, new.envelope.content_hash, nonce)
        claims = self.claims(new.envelope.scope_type, max(1, new.envelope.config_version))
        return signer.recovery(claims, allowed, [self.root])


@dataclass
class Node:
    """A node of the cluster on a directory; `open` starts it as a new process would."""

    path: Path
    cluster: Cluster
    map_bytes: int = 64 << 20
    disk: Disk = field(default_factory=Disk)
    root: Root | None = None
    store: Store | None = None

    def open(self, now: float = NOW) -> Store:
        self.root = Root.open(self.path, self.disk)
        try:
            self.store = Store.open(self.root, CLUSTER, now=now, map_bytes=self.map_bytes)
        except BaseException:
            self.root.close()
            raise
        return self.store

    def close(self) -> None:
        if self.store is not None:
            self.store.close()
            self.store = None
        if self.root is not None:
            self.root.close()
            self.root = None

    def reopen(self, now: float = NOW) -> Store:
        self.close()
        return self.open(now)

    def __enter__(self) -> "Node":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def holder(self) -> VerifierState:
        standing = self.store.standing()
        held = standing.active.get("trust_bundle")
        bundle = None
        if held is not None:
            bundle = bundles.from_bytes(held.envelope, {name: held.read(name) for name in held.sections})
        key = self.cluster.root
        record = bundles.KeyRecord(
            key.key_id, key.algorithm, key.public_key, "root", CLUSTER, (), NOW - DAY, NOW + 900 * DAY, "active"
        )
        return VerifierState(
            CLUSTER,
            NODE,
            roles=frozenset(ROLES),
            bundle=bundle,
            roots=Roots({key.key_id: record}, 1),
            marks=standing.marks,
            active=standing.active,
            recoveries=standing.recoveries,
            used_nonces=standing.used_nonces,
            lost=standing.lost,
            returned=standing.returned,
        )

    def download(self, document: signer.SignedDocument, now: float = NOW):
        """As the agent does: every part of the container into the slot, then sealed."""
        slot = self.store.receive(document.envelope.scope, now=now)
        reader = Reader()
        for chunk in document.chunks():
            reader.receive_data(chunk) if chunk else None
        reader.receive_data(b"")
        slot.receive(reader.next_event())
        manifest = reader.next_event()
        slot.receive(manifest)
        sizes = signed_sizes(document.envelope, manifest.manifest, self.holder())
        reader.expect(sizes)
        for _ in range(len(sizes) + 1):
            slot.receive(reader.next_event())
        slot.seal(now, with_next=document.envelope.kind == HEAD)
        return slot

    def judge(self, slot, kind: str, now: float = NOW) -> Verified | AlreadyApplied | NotYetValid:
        return verify(slot.parts(), self.holder(), kind=kind, now=now, keep=slot.keep)

    def verified(self, document: signer.SignedDocument, now: float = NOW) -> Verified:
        verdict = self.judge(self.download(document, now), document.envelope.kind, now)
        assert isinstance(verdict, Verified)
        return verdict

    def apply(self, document: signer.SignedDocument, now: float = NOW) -> Verified:
        verdict = self.verified(document, now)
        self.store.activate(verdict, now=now, boot=BOOT)
        return verdict

    def verified_alone(self, document: signer.SignedDocument, now: float = NOW) -> Verified:
        """Without a slot."""
        verdict = verify(ChunkParts(document.chunks()), self.holder(), kind=document.envelope.kind, now=now)
        assert isinstance(verdict, Verified)
        return verdict

    def contents(self, scope: str = SCOPE) -> dict[str, bytes] | None:
        held = self.store.active(scope)
        return None if held is None else {name: held.read(name) for name in held.sections}

"""Trust bundles for tests of the coordinator, one after the other, signed by two root keys."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle

from coordinator.keys import signer
from coordinator.keys.signer import EnvelopeClaims
from coordinator.keys.signing_key import SigningKey
from snapshot import bundle as bundles
from snapshot import envelope, manifest
from snapshot.bundle import ACTIVE, CONFIG, ROOT
from snapshot.container import ChunkParts
from snapshot.verifier_state import Roots
from tests.coordinator.candidates import CLUSTER, NOW

DAY = 86_400


def _take_turns() -> Iterator[SigningKey]:
    """Keys for one cluster after the other: a new key is looked at point by point, and no test is about that here.
    Clusters that stand beside each other have other ones. Of a cluster that is a copy they may come again: a key that
    must be another one than its own is made anew.
    """
    yield from cycle([SigningKey.generate() for _ in range(30)])


_keys = _take_turns()


@dataclass
class Bundles:
    """`config` is the key of the first bundle; `statuses` by key id."""

    now: float = NOW
    roots: tuple[SigningKey, ...] = field(default_factory=lambda: (next(_keys), next(_keys)))
    config: SigningKey = field(default_factory=lambda: next(_keys))
    epoch: int = 1
    version: int = 0
    first: bytes = b""
    cluster_id: str = CLUSTER

    def next(
        self,
        *,
        epoch: int | None = None,
        keys: tuple[SigningKey, ...] | None = None,
        statuses: dict[str, str] | None = None,
        roots: tuple[SigningKey, ...] | None = None,
        **claims: object,
    ) -> bytes:
        """The next one; `roots` sign it in place of all."""
        self.version += 1
        self.epoch = self.epoch if epoch is None else epoch
        records = {}
        for purpose, found in ((ROOT, self.roots), (CONFIG, keys or (self.config,))):
            for key in found:
                records[key.key_id] = signer.key_record(
                    key,
                    purpose=purpose,
                    cluster_id=self.cluster_id,
                    not_before=int(self.now) - DAY,
                    not_after=int(self.now) + 365 * DAY,
                    status=(statuses or {}).get(key.key_id, ACTIVE),
                )
        given = {
            "snapshot_id": f"bundle-{self.version}",
            "cluster_id": self.cluster_id,
            "scope_type": "trust_bundle",
            "config_version": self.version,
            "authority_epoch": self.epoch,
            "issued_at": int(self.now),
            "refresh_after": int(self.now) + DAY,
            "expires_at": int(self.now) + 90 * DAY,
        }
        sections = signer.trust_bundle_sections(
            records, root_threshold=len(self.roots), config_threshold=1, authority_epoch=self.epoch
        )
        made = signer.snapshot(EnvelopeClaims(**{**given, **claims}), sections, roots or self.roots).to_bytes()
        self.first = self.first or made
        return made


def roots_of(bundle: bytes) -> Roots:
    """What an operator pins on a node."""
    parts = ChunkParts([bundle])
    opened = envelope.parse(parts.opening().envelope, "snapshot")
    entries = manifest.parse_state(parts.manifest())
    sections = dict(zip(entries, parts.sections([each.size for each in entries.values()]), strict=True))
    found = bundles.from_bytes(opened, sections)
    return Roots({key_id: key for key_id, key in found.keys.items() if key.purpose == ROOT}, found.thresholds[ROOT])

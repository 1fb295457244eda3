"""What an owner signs who brings the seed back: the seed, for one coordinator and one manifest (rules H51).

So that what was meant for one coordinator is of no use at another one, nor once the cluster has gone on.
"""

import hashlib
from dataclasses import dataclass, field

from coordinator.keys.owner_key import OwnerKey
from coordinator.keys.seed import Seed
from snapshot import canonical
from snapshot.signature import pae

KIND = "seed_recovery"


@dataclass(frozen=True)
class RecoveryPlace:
    """For what an owner signs: for this coordinator, and while this manifest is the newest. `manifest`: its hash."""

    cluster_id: str
    coordinator_id: str
    manifest: str


@dataclass(frozen=True)
class BroughtSeed:
    """What an owner says; no text of it shows the seed."""

    owner: str
    manifest: str
    seed: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def sign(own: OwnerKey, owner: str, place: RecoveryPlace, seed: Seed) -> BroughtSeed:
    """On the owner's machine."""
    signature = own.signing.sign(message_of(owner, place, seed.seed, seed.salt))
    return BroughtSeed(owner, place.manifest, seed.seed, seed.salt, signature)


def message_of(owner: str, place: RecoveryPlace, seed: bytes, salt: bytes) -> bytes:
    """The hash stands for the seed, so that it is in no message that anybody might keep."""
    said = hashlib.sha256(len(seed).to_bytes(4, "big") + seed + salt).hexdigest()
    return pae(KIND, canonical.dumps({**vars(place), "owner": owner, "seed_sha256": said}))

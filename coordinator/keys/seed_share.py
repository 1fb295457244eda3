"""Shares of the seed: seed and salt, sealed to the key of one owner (rules H4, H5, H51).

    alice.share    JSON: cluster, owner, id of the history key, an ephemeral public key, and what is sealed

Any one share is the whole seed: a share that is lost costs nothing as long as one is left, and each owner is trusted as
a coordinator's machine is. Sealing is X25519 with an ephemeral key, HKDF-SHA-256 and AES-256-GCM. Cluster, owner,
owner's key and history key are bound to it as associated data, so a share that is passed off as another one does not
open. Each share has an ephemeral key of its own, hence a key of its own, so that the nonce may be fixed.

Rejected:

- RSA-OAEP: it has no associated data, and an owner would need a second key to sign with.
- Shares of which several are needed (Shamir): the history cannot tell which of them was wrong, at three in the morning
  of all times. Two people who must agree are the root keys' business: nothing is signed before they have signed.
- HPKE (RFC 9180), which is what this amounts to: Debian 12's library does not have it.
"""

import base64
import binascii
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from coordinator.base.refusal import Code, Refused
from coordinator.keys.owner_key import OwnerKey, OwnerPublic
from coordinator.keys.seed import BYTES, Seed
from snapshot import canonical
from snapshot.identifiers import is_hash, is_id

SUFFIX = ".share"
MOST_BYTES = 4096
_FORMAT = "holdfast-seed-share/1"
_MEMBERS = {"format", "cluster_id", "owner", "history_key", "ephemeral", "sealed"}
_NAME = b"holdfast/1 seed share"
_NONCE = bytes(12)
_TAG = 16
ANOTHER = "take the share of another owner, each is enough; or a backup with keys"


@dataclass(frozen=True)
class SeedShare:
    cluster_id: str
    owner: str
    history_key: str
    ephemeral: bytes
    sealed: bytes = field(repr=False)

    def to_bytes(self) -> bytes:
        """What its file holds: nothing that is of use without the owner's key."""
        return canonical.dumps(
            {
                "format": _FORMAT,
                "cluster_id": self.cluster_id,
                "owner": self.owner,
                "history_key": self.history_key,
                "ephemeral": base64.b64encode(self.ephemeral).decode(),
                "sealed": base64.b64encode(self.sealed).decode(),
            }
        ) + b"\n"  # fmt: skip

    def open(self, own: OwnerKey) -> Seed:
        """`bad_share` where it is sealed to another key, or anything of it was changed."""
        try:
            peer = X25519PublicKey.from_public_bytes(self.ephemeral)
            sealing = _sealing(own.sealing.exchange(peer), self.ephemeral, own.public(self.owner))
            data = sealing.decrypt(_NONCE, self.sealed, _binding(self, own.key))
        except (InvalidTag, ValueError):  # ValueError: a point of small order
            raise _bad(
                f"the share of {self.owner} does not open with this key: it is another's, or was changed"
            ) from None
        found = Seed(data[:BYTES], data[BYTES:])
        if found.history_key.key_id != self.history_key:
            raise _bad(f"the share of {self.owner} holds another seed than it says")
        return found


def seal(seed: Seed, cluster_id: str, owner: OwnerPublic) -> SeedShare:
    """The share of this owner; another one each time."""
    ephemeral = X25519PrivateKey.generate()
    public = ephemeral.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    made = SeedShare(cluster_id, owner.owner, seed.history_key.key_id, public, b"")
    sealing = _sealing(ephemeral.exchange(owner.sealing), public, owner)
    sealed = sealing.encrypt(_NONCE, seed.seed + seed.salt, _binding(made, owner.key))
    return SeedShare(cluster_id, owner.owner, made.history_key, public, sealed)


def parse(data: bytes, *, name: str) -> SeedShare:
    """`bad_share` for a file that is empty, short or of another form."""
    if not data.strip():
        raise _bad(f"{name} is empty")
    try:
        value = canonical.loads(data.strip(), depth=1)
    except canonical.NotCanonical:
        raise _bad(f"{name} is no share of a seed, or was cut off") from None
    if not isinstance(value, dict) or value.keys() != _MEMBERS or value["format"] != _FORMAT:
        raise _bad(f"{name} is no share of a seed")
    if not (is_id(value["cluster_id"]) and is_id(value["owner"]) and is_hash(value["history_key"])):
        raise _bad(f"{name} names no cluster, owner or history key")
    ephemeral, sealed = _bytes(value["ephemeral"]), _bytes(value["sealed"])
    if len(ephemeral) != BYTES or len(sealed) != 2 * BYTES + _TAG:
        raise _bad(f"{name} is short, or too long")
    return SeedShare(value["cluster_id"], value["owner"], value["history_key"], ephemeral, sealed)


def file_name(owner: str) -> str:
    return f"{owner}{SUFFIX}"


def _binding(share: SeedShare, key: str) -> bytes:
    about = {"cluster_id": share.cluster_id, "owner": share.owner, "history_key": share.history_key}
    return canonical.dumps({**about, "key": key})


def _sealing(shared: bytes, ephemeral: bytes, owner: OwnerPublic) -> AESGCM:
    salt = ephemeral + base64.b64decode(owner.key)
    return AESGCM(HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=_NAME).derive(shared))


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""


def _bad(detail: str) -> Refused:
    return Refused(Code.BAD_SHARE, detail, remedy=ANOTHER)

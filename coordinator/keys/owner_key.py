"""The key pair of an owner of a share of the seed, made on the owner's own machine (rules H4, H51).

    alice.key     an Ed25519 private key, PKCS#8 in PEM, under a passphrase if wanted: it signs what the owner says
    alice.pub     JSON: the owner's id, both public halves, and a signature by which they belong together

Shares are sealed to an X25519 key, which HKDF derives from the signing key by name: so there is one private file to
keep, and no key that is used for two purposes.

The signature of the public half proves nothing about who the owner is; it finds a file that was damaged or put together
of two. A share that is sealed to a damaged key would be found useless on the day on which it is needed.

Rejected: one RSA key that both decrypts and signs. It would be one key for two purposes, and six times as long.
"""

import base64
import binascii
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from coordinator.base.refusal import Code, Refused
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from snapshot import canonical
from snapshot.identifiers import is_id
from snapshot.signature import ED25519, pae, verify_signature

MOST_BYTES = 4096
_FORMAT = "holdfast-owner/1"
_MEMBERS = {"format", "owner", "key", "proof"}
_SEALING = b"holdfast/1 owner's sealing key"
_KIND = "seed_share_owner"
_HALF = 32
_AGAIN = "holdfastctl coordinators owner-key makes one"


@dataclass(frozen=True)
class OwnerKey:
    """The private half: on the owner's machine alone."""

    signing: SigningKey
    sealing: X25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, signing: SigningKey) -> "OwnerKey":
        """UnusableKeyError for a key that is none of an owner."""
        private = load_pem_private_key(signing.to_pem(), None)
        if not isinstance(private, Ed25519PrivateKey):
            raise UnusableKeyError(f"this is no owner's key, but an RSA key; {_AGAIN}")
        raw = private.private_bytes(
            serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
        )
        derived = HKDF(algorithm=hashes.SHA256(), length=_HALF, salt=None, info=_SEALING).derive(raw)
        return cls(signing, X25519PrivateKey.from_private_bytes(derived))

    @classmethod
    def generate(cls) -> "OwnerKey":
        return cls.of(SigningKey.generate())

    @property
    def key(self) -> str:
        """Both public halves, as the manifest has them."""
        signing = serialization.load_der_public_key(self.signing.public_key)
        return base64.b64encode(b"".join(map(_raw, (signing, self.sealing.public_key())))).decode()

    def public(self, owner: str) -> "OwnerPublic":
        return OwnerPublic(owner, self.key)

    def public_file(self, owner: str) -> bytes:
        """What the owner hands out."""
        proof = base64.b64encode(self.signing.sign(_message(owner, self.key))).decode()
        return canonical.dumps({"format": _FORMAT, "owner": owner, "key": self.key, "proof": proof}) + b"\n"


@dataclass(frozen=True)
class OwnerPublic:
    """Who it is, and both public halves."""

    owner: str
    key: str

    @property
    def sealing(self) -> X25519PublicKey:
        return X25519PublicKey.from_public_bytes(_halves(self.key)[1])

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        spki = Ed25519PublicKey.from_public_bytes(_halves(self.key)[0]).public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return verify_signature(ED25519, spki, message, signature)


def parse_public(data: bytes, *, name: str) -> OwnerPublic:
    """`bad_request` for a file of another form, or one that was damaged."""
    try:
        value = canonical.loads(data.strip(), depth=1)
    except canonical.NotCanonical:
        value = None
    if not isinstance(value, dict) or value.keys() != _MEMBERS or value["format"] != _FORMAT:
        raise _bad(f"{name} is no public half of an owner's key")
    if not is_id(value["owner"]) or not is_key(value["key"]):
        raise _bad(f"{name} names no owner, or no key")
    found = OwnerPublic(value["owner"], value["key"])
    if not found.has_signed(_message(found.owner, found.key), _bytes(value["proof"])):
        raise _bad(f"{name} was damaged: its parts do not belong together")
    return found


def is_key(value: object) -> bool:
    """Whether this is both public halves, as the manifest has them."""
    try:
        return isinstance(value, str) and bool(_halves(value))
    except ValueError:
        return False


def _halves(key: str) -> tuple[bytes, bytes]:
    data = base64.b64decode(key, validate=True)
    if len(data) != 2 * _HALF or base64.b64encode(data).decode() != key:
        raise ValueError("not two public keys of 32 bytes")
    return data[:_HALF], data[_HALF:]


def _raw(key: object) -> bytes:
    if not isinstance(key, Ed25519PublicKey | X25519PublicKey):
        raise AssertionError("an owner has these two")
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except binascii.Error:
        return b""


def _message(owner: str, key: str) -> bytes:
    return pae(_KIND, canonical.dumps({"key": key, "owner": owner}))


def _bad(detail: str) -> Refused:
    return Refused(Code.BAD_REQUEST, detail, remedy=f"have its owner send it again; {_AGAIN}")

"""Seed and salt of a cluster, and the keys that are derived from them by name (rules H0, H45, P11).

Both are 32 random bytes that `init` makes, in one file of their own among the keys: canonical JSON, 0600. HKDF-SHA-256
with a name of its own for each use derives what coordinators share:

    history key    Ed25519: signs which transition is the latest one (coordinator/database/history.py)
    TLS CA key     P-256, one for each generation of it: makes coordinators' certificates (derived_authority.py)

Whoever knows the seed can sign a history, and show nodes a certificate that they believe; he can sign nothing that a
node takes: config keys and token keys are random and lie in other files, and root keys never reach a coordinator.

Rejected: a random history key in a file of its own. A further coordinator would need one more secret for each use that
comes, and whoever recovers a cluster one more file; so all that coordinators share follows from one pair.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from coordinator.keys import private_file
from coordinator.keys.signing_key import SigningKey, UnusableKeyError
from snapshot import canonical

FILE = "seed"
BYTES = 32
_FORMAT = "holdfast-seed/1"
_MEMBERS = {"format", "salt", "seed"}
_HISTORY = b"holdfast/1 history key"
_AUTHORITY = "holdfast/1 TLS CA key, generation {}"
_SCALAR_BYTES = 48  # half as many again as the key has, so that no number of its range is likelier (FIPS 186-5, A.2.1)
_P256_ORDER = 0xFFFFFFFF_00000000_FFFFFFFF_FFFFFFFF_BCE6FAAD_A7179E84_F3B9CAC2_FC632551


@dataclass(frozen=True)
class Seed:
    """32 bytes each; no text of it shows them."""

    seed: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> "Seed":
        return cls(secrets.token_bytes(BYTES), secrets.token_bytes(BYTES))

    @property
    def history_key(self) -> SigningKey:
        return SigningKey.of(Ed25519PrivateKey.from_private_bytes(self._derive(_HISTORY)))

    def authority_key(self, generation: int) -> bytes:
        """The key of the coordinators' CA: PEM, P-256."""
        derived = self._derive(_AUTHORITY.format(generation).encode(), _SCALAR_BYTES)
        scalar = int.from_bytes(derived, "big") % (_P256_ORDER - 1) + 1
        key = ec.derive_private_key(scalar, ec.SECP256R1())
        plain = serialization.NoEncryption()
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)

    def to_bytes(self) -> bytes:
        """What its file holds."""
        return canonical.dumps({"format": _FORMAT, "salt": self.salt.hex(), "seed": self.seed.hex()})

    def _derive(self, name: bytes, length: int = BYTES) -> bytes:
        return HKDF(algorithm=hashes.SHA256(), length=length, salt=self.salt, info=name).derive(self.seed)


def parse(data: bytes, *, name: str = FILE) -> Seed:
    """The seed of a file; UnusableKeyError for one that is empty, short or of another form."""
    if not data:
        raise _unusable(name, "is empty")
    try:
        value = canonical.reread(data)
    except canonical.NotCanonical:
        raise _unusable(name, "is no seed of a cluster") from None
    if not isinstance(value, dict) or value.keys() != _MEMBERS or value["format"] != _FORMAT:
        raise _unusable(name, "is no seed of a cluster")
    return Seed(_read(value["seed"], "seed", name), _read(value["salt"], "salt", name))


def load(directory: Path | None, environment: Mapping[str, str]) -> Seed | None:
    """Of the keys' directory, or else of the service's credentials; None where neither has one."""
    found = private_file.find(FILE, directory, environment)
    return None if found is None else parse(found[1], name=str(found[0]))


def _read(value: object, what: str, name: str) -> bytes:
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else b""
    except ValueError:
        found = b""
    if len(found) != BYTES or found == bytes(BYTES):
        raise _unusable(name, f"has no {what} of {BYTES} random bytes")
    return found


def _unusable(name: str, what: str) -> UnusableKeyError:
    return UnusableKeyError(f"{name}: {what}; put the file of a coordinator of this cluster there, or of a backup")

"""Private keys that sign documents: from a PEM file, an encrypted one, or a credential that the service was given.

Key files are opened without following links, and must be ours alone (threats D-61).
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from snapshot import signature

MOST_BYTES = 16 * 1024
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)


class UnusableKeyError(ValueError):
    """A private key that cannot be had, or that may not sign; the text says which file, and what to do."""


@dataclass(frozen=True)
class SigningKey:
    """A private key and the names of its public half; its secret is in no text of it."""

    key_id: str
    algorithm: str
    public_key: bytes  # SubjectPublicKeyInfo, DER
    _private: Ed25519PrivateKey | rsa.RSAPrivateKey

    @classmethod
    def of(cls, private: object) -> "SigningKey":
        """UnusableKeyError for any key that a reader would refuse."""
        if isinstance(private, Ed25519PrivateKey):
            algorithm = signature.ED25519
        elif isinstance(private, rsa.RSAPrivateKey):
            algorithm = signature.RSA_PSS_SHA256
        else:
            raise UnusableKeyError("neither an Ed25519 nor an RSA private key")
        spki = private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        try:
            signature.load_public_key(algorithm, spki)
        except signature.BadKey as error:
            raise UnusableKeyError(f"no reader would accept it: {error}") from None
        return cls(signature.key_id(spki), algorithm, spki, private)

    @classmethod
    def generate(cls) -> "SigningKey":
        return cls.of(Ed25519PrivateKey.generate())

    def sign(self, message: bytes) -> bytes:
        if isinstance(self._private, Ed25519PrivateKey):
            return self._private.sign(message)
        return self._private.sign(message, _PSS, hashes.SHA256())

    def to_pem(self, passphrase: bytes | None = None) -> bytes:
        """PKCS#8, encrypted where a passphrase is given."""
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if passphrase:
            encryption = serialization.BestAvailableEncryption(passphrase)
        return self._private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)

    def __repr__(self) -> str:
        return f"<SigningKey {self.algorithm} {self.key_id}>"


def from_pem(data: bytes, passphrase: bytes | None = None, *, name: str = "key") -> SigningKey:
    """A private key; UnusableKeyError with the name and what to do, never with a part of the key."""
    try:
        private = serialization.load_pem_private_key(data, passphrase)
    except TypeError:
        remedy = "give its passphrase" if passphrase is None else "it is not encrypted: give no passphrase"
        raise UnusableKeyError(f"{name}: {remedy}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UnusableKeyError(f"{name}: not a private key in PEM, or another passphrase") from None
    try:
        return SigningKey.of(private)
    except UnusableKeyError as error:
        raise UnusableKeyError(f"{name}: {error}") from None


def from_file(path: Path, passphrase: bytes | None = None) -> SigningKey:
    """The key of a PEM file that is a plain file, ours, and closed to group and others."""
    return from_pem(private_bytes(path), passphrase, name=str(path))


def write_file(path: Path, key: SigningKey, passphrase: bytes | None = None) -> None:
    """A new file of mode 0600; one that is there already is never written over."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UnusableKeyError(f"{path}: is there already; move it away first") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.to_pem(passphrase))
        file.flush()
        os.fsync(descriptor)


def private_bytes(path: Path) -> bytes:
    """Of a plain file that is ours and closed to group and others; at most one byte more than MOST_BYTES."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UnusableKeyError(f"{path}: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnusableKeyError(f"{path}: not a plain file")
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o077:
            raise UnusableKeyError(f"{path}: open to others; chown it to this user and chmod 600")
        return os.read(descriptor, MOST_BYTES + 1)
    finally:
        os.close(descriptor)

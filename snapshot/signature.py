"""Signatures of format.md 6: what is signed, and strict verification.

pae, pae_of_type    the bytes that are signed (DSSE version 1)
verify_signature    one signature by one public key
load_public_key     a key that may verify, or BadKey
ed25519_point       the same of Ed25519, for another library's verification
is_strict           whether that may be asked of a signature
key_id              the name of a key
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from snapshot.algorithms import ALGORITHMS, ED25519, RSA_PSS_SHA256
from snapshot.edwards import L, is_canonical, is_full_order, is_small_order

__all__ = [
    "ALGORITHMS",
    "ED25519",
    "RSA_PSS_SHA256",
    "BadKey",
    "Verify",
    "VerifySignature",
    "ed25519_point",
    "is_strict",
    "key_id",
    "load_public_key",
    "pae",
    "pae_of_type",
    "verify_signature",
]

_ED25519_PREFIX = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: SEQUENCE, id-Ed25519, BIT STRING
_RSA_BITS = (3072, 4096)
_RSA_MOST_BYTES = 1024  # of an SPKI; a 4096-bit one has 550
_REMEMBERED = 32
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)  # never AUTO (threats D-8)

Verify = Callable[[bytes, bytes], bool]
VerifySignature = Callable[[str, bytes, bytes, bytes], bool]
"""As `verify_signature`."""


class BadKey(ValueError):
    """A public key that must not verify anything (threats D-9, D-10)."""


def pae(kind: str, envelope: bytes) -> bytes:
    """What the signers of a document of this kind sign."""
    return pae_of_type(f"application/vnd.holdfast.{kind}.v1+json", envelope)


def pae_of_type(media_type: str, body: bytes) -> bytes:
    encoded = media_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(encoded), encoded, len(body), body)


def key_id(public_key_spki: bytes) -> str:
    return "sha256:" + hashlib.sha256(public_key_spki).hexdigest()


@lru_cache(maxsize=_REMEMBERED)
def verify_signature(algorithm: str, public_key_spki: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` over `message` is good under the key, strictly; a bad key verifies nothing. By all of its
    bytes: a document's opening is judged before its content is fetched, and once more with it. Whether the key counts,
    and at what time, is asked each time (trust.py).
    """
    try:
        return load_public_key(algorithm, public_key_spki)(message, signature)
    except BadKey:
        return False


@lru_cache(maxsize=256)
def load_public_key(algorithm: str, public_key_spki: bytes) -> Verify:
    """The verification of one key; BadKey unless the SPKI is the one encoding that we would write ourselves."""
    if algorithm == ED25519:
        return _ed25519(public_key_spki)
    if algorithm == RSA_PSS_SHA256:
        return _rsa(public_key_spki)
    raise BadKey("an algorithm that is not known")


def _ed25519(spki: bytes) -> Verify:
    key = Ed25519PublicKey.from_public_bytes(ed25519_point(spki))

    def verify(message: bytes, signature: bytes) -> bool:
        if not is_strict(signature):
            return False
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return verify


def ed25519_point(public_key_spki: bytes) -> bytes:
    """The point of a key that may verify; BadKey for any other."""
    prefix, point = public_key_spki[:12], public_key_spki[12:]
    if prefix != _ED25519_PREFIX or len(point) != 32:
        raise BadKey("not the SubjectPublicKeyInfo of an Ed25519 key")
    if not is_full_order(point):
        raise BadKey("not a canonical point of full prime order")
    return point


def is_strict(signature: bytes) -> bool:
    """64 bytes, S < L, R canonical and not of small order."""
    r, s = signature[:32], signature[32:]
    return len(s) == 32 and int.from_bytes(s, "little") < L and is_canonical(r) and not is_small_order(r)


def _rsa(spki: bytes) -> Verify:
    key = _rsa_key(spki)
    length = key.key_size // 8

    def verify(message: bytes, signature: bytes) -> bool:
        if len(signature) != length:
            return False
        try:
            key.verify(signature, message, _PSS, hashes.SHA256())
        except InvalidSignature:
            return False
        return True

    return verify


def _rsa_key(spki: bytes) -> RSAPublicKey:
    if len(spki) > _RSA_MOST_BYTES:  # before any arithmetic on it
        raise BadKey("longer than an RSA key of 4096 bits")
    try:
        key = serialization.load_der_public_key(spki)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("not a SubjectPublicKeyInfo") from None
    if not isinstance(key, RSAPublicKey):
        raise BadKey("not an RSA key")
    if key.key_size not in _RSA_BITS or key.public_numbers().e != 65537:
        raise BadKey("not an RSA key of 3072 or 4096 bits with e = 65537")
    # An SPKI with the RSASSA-PSS OID loads as well, and would give one key two ids (threats, fact 5).
    written = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if written != spki:
        raise BadKey("not the one encoding that this key has")
    return key

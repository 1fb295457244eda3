"""Private keys in base64 are found wherever they stand, by looking at no more than could be one (threats D-53)."""

import base64
import textwrap

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st

from coordinator.base import private_key_scan

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
DER = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
SEALED = KEY.private_bytes(Encoding.DER, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def is_found(text: str) -> bool:
    return private_key_scan.find(text) is not None


@pytest.mark.parametrize("key", [DER, SEALED, PEM, b"# \xff\n" + PEM, b"ab" + PEM, b"abc" + PEM])
@pytest.mark.parametrize("around", ["{}", "key: {}\n", "früher: {}; später", '"{}"'])
def test_a_key_is_found(key: bytes, around: str) -> None:
    encoded = base64.b64encode(key).decode()
    assert is_found(around.format(encoded))
    assert is_found(around.format("\n  ".join(textwrap.wrap(encoded, 20))))
    assert is_found(around.format(base64.urlsafe_b64encode(key).decode().rstrip("=")))


@given(st.binary(min_size=30, max_size=90).filter(lambda data: b"PRIVATE KEY" not in data), st.booleans())
def test_what_only_looks_like_one_is_not(data: bytes, as_der: bool) -> None:
    """A SEQUENCE of anything else; and public keys are none."""
    assert not is_found(base64.b64encode((b"\x30" if as_der else b"") + data).decode())
    public = KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert not is_found(base64.b64encode(public).decode())

"""Our own signatures, verified by libsodium: as strictly as a node does it, with the same verdict (format.md 6)."""

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from coordinator.keys.own_signatures import verify_own
from coordinator.keys.signing_key import SigningKey
from snapshot.signature import ED25519, RSA_PSS_SHA256, verify_signature
from tests.examples import examples
from tests.known_answers import ed25519
from tests.known_answers.ed25519 import BASE, L, encoded, plus, times, torsion

PREFIX = bytes.fromhex("302a300506032b6570032100")
SEED = bytes.fromhex(ed25519.VECTORS["test-1"][0])
PUBLIC = bytes.fromhex(ed25519.VECTORS["test-1"][1])
MESSAGE = b"a message"
GOOD = Ed25519PrivateKey.from_private_bytes(SEED).sign(MESSAGE)
OURS = SigningKey.generate()


def good(public: bytes, message: bytes, signature: bytes) -> bool:
    """Where both libraries say the same."""
    found = verify_own(ED25519, PREFIX + public, message, signature)
    assert found is verify_signature(ED25519, PREFIX + public, message, signature)
    return found


@pytest.mark.parametrize("vector", ed25519.VECTORS.values(), ids=ed25519.VECTORS)
def test_rfc_8032(vector: tuple[str, str, str, str]) -> None:
    """rules S10"""
    _, public, message, signature = map(bytes.fromhex, vector)
    assert good(public, message, signature)
    assert not good(public, message + b"\0", signature)


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_one_bit_of_the_signature(bit: int) -> None:
    """rules S45"""
    assert not good(PUBLIC, MESSAGE, (int.from_bytes(GOOD, "little") ^ 1 << bit).to_bytes(64, "little"))


@pytest.mark.parametrize(
    "signature", [b"", GOOD[:32], GOOD[:63], GOOD + b"\0", bytes(64), b"\xff" * 64, GOOD * 2], ids=len
)
def test_no_signature(signature: bytes) -> None:
    """threats S03"""
    assert not good(PUBLIC, MESSAGE, signature)


@pytest.mark.parametrize("times_l", [1, 2, 8, 14])
def test_s_of_l_or_more(times_l: int) -> None:
    """threats K11"""
    s = int.from_bytes(GOOD[32:], "little") + times_l * L
    assert not good(PUBLIC, MESSAGE, GOOD[:32] + s.to_bytes(32, "little"))


def with_r(r: bytes) -> bytes:
    """A signature of the honest key whose R is the neutral element, in the form `r`: right by the equation."""
    s = ed25519.challenge(r, PUBLIC, MESSAGE) * ed25519.secret_scalar(SEED) % L
    return r + s.to_bytes(32, "little")


@pytest.mark.parametrize("point", torsion(), ids=range(8))
def test_r_of_small_order(point: tuple[int, int]) -> None:
    """threats K12"""
    assert not good(PUBLIC, MESSAGE, with_r(encoded(point)))


@pytest.mark.parametrize("form", [{"sign": 1}, {"extra": 1}, {"extra": 1, "sign": 1}], ids=str)
def test_r_in_another_form(form: dict[str, int]) -> None:
    """threats K12"""
    assert not good(PUBLIC, MESSAGE, with_r(encoded(ed25519.ZERO, **form)))


@pytest.mark.parametrize("point", torsion()[1:], ids=range(1, 8))
def test_r_with_a_small_part(point: tuple[int, int]) -> None:
    """threats K12: who multiplies by the cofactor takes it; neither library does."""
    r = encoded(plus(times(7, BASE), point))
    s = (7 + ed25519.challenge(r, PUBLIC, MESSAGE) * ed25519.secret_scalar(SEED)) % L
    assert not good(PUBLIC, MESSAGE, r + s.to_bytes(32, "little"))


@pytest.mark.parametrize("point", torsion()[1:], ids=range(1, 8))
def test_a_key_with_a_small_part(point: tuple[int, int]) -> None:
    """threats D-9"""
    mixed = encoded(plus(times(ed25519.secret_scalar(SEED), BASE), point))
    assert not good(mixed, MESSAGE, Ed25519PrivateKey.from_private_bytes(SEED).sign(MESSAGE))
    neutral, constant = encoded(ed25519.ZERO), encoded(BASE) + (1).to_bytes(32, "little")
    assert not good(neutral, MESSAGE, constant)


def test_no_key() -> None:
    """threats D-10"""
    for spki in (b"", PUBLIC, PREFIX + PUBLIC[:-1], PREFIX + PUBLIC + b"\0", PREFIX + b"\xff" * 32):
        assert not verify_own(ED25519, spki, MESSAGE, GOOD)
    assert not verify_own("none", PREFIX + PUBLIC, MESSAGE, GOOD)


def test_an_rsa_key_is_verified_as_a_node_does_it() -> None:
    """rules S10"""
    made = SigningKey.of(rsa.generate_private_key(public_exponent=65537, key_size=3072))
    signature = made.sign(MESSAGE)
    assert verify_own(RSA_PSS_SHA256, made.public_key, MESSAGE, signature)
    assert not verify_own(RSA_PSS_SHA256, made.public_key, MESSAGE + b"\0", signature)
    assert not verify_own(ED25519, made.public_key, MESSAGE, signature)


@examples(60)
@given(message=st.binary(max_size=2_000), place=st.integers(0, 511))
def test_what_our_keys_sign_and_what_is_spoilt(message: bytes, place: int) -> None:
    """rules S69: whatever was signed, and wherever one bit of that is another one."""
    signature = OURS.sign(message)
    spoilt = (int.from_bytes(signature, "little") ^ 1 << place).to_bytes(64, "little")
    point = OURS.public_key.removeprefix(PREFIX)
    assert good(point, message, signature)
    assert not good(point, message, spoilt)

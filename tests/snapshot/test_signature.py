"""What is signed, and Ed25519 read strictly (format.md 6)."""

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from snapshot.signature import (
    ED25519,
    RSA_PSS_SHA256,
    BadKey,
    key_id,
    load_public_key,
    pae,
    pae_of_type,
    verify_signature,
)
from tests.known_answers import ed25519
from tests.known_answers.ed25519 import BASE, L, encoded, times, torsion

PREFIX = bytes.fromhex("302a300506032b6570032100")
SEED = bytes.fromhex(ed25519.VECTORS["test-1"][0])
PUBLIC = bytes.fromhex(ed25519.VECTORS["test-1"][1])
MESSAGE = b"a message"
GOOD = Ed25519PrivateKey.from_private_bytes(SEED).sign(MESSAGE)


def good(public, message, signature, algorithm=ED25519):
    return verify_signature(algorithm, PREFIX + public, message, signature)


def accepted_by_the_library(public, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_the_example_of_dsse():
    """threats D-1"""
    encoding = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pae_of_type("http://example.com/HelloWorld", b"hello world") == encoding


def test_lengths_are_of_bytes():
    """threats S19"""
    assert pae_of_type("t/é", "ü€".encode()) == "DSSEv1 4 t/é 5 ü€".encode()
    assert pae_of_type("", b"") == b"DSSEv1 0  0 "


@pytest.mark.parametrize("kind", ["snapshot", "increment", "head", "recovery"])
def test_each_kind_has_a_type_of_its_own(kind):
    """threats D-1, S16"""
    kind_type = f"application/vnd.holdfast.{kind}.v1+json"
    assert pae(kind, b"{}") == f"DSSEv1 {len(kind_type)} {kind_type} 2 {{}}".encode()


def test_a_key_id_is_the_hash_of_the_der():
    spki = PREFIX + PUBLIC
    assert key_id(spki) == "sha256:" + hashlib.sha256(spki).hexdigest()


@pytest.mark.parametrize("vector", ed25519.VECTORS.values(), ids=ed25519.VECTORS)
def test_rfc_8032(vector):
    """rules S10"""
    _, public, message, signature = map(bytes.fromhex, vector)
    assert good(public, message, signature)
    assert not good(public, message + b"\0", signature)


@pytest.mark.parametrize("bit", range(0, 512, 7))
def test_one_bit_of_the_signature(bit):
    """rules S45"""
    changed = (int.from_bytes(GOOD, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not good(PUBLIC, MESSAGE, changed)


@pytest.mark.parametrize("signature", [b"", GOOD[:63], GOOD + b"\0", bytes(64), b"\xff" * 64, GOOD * 2], ids=len)
def test_no_signature(signature):
    """threats S03"""
    assert not good(PUBLIC, MESSAGE, signature)


@pytest.mark.parametrize("times_l", [1, 2, 8, 15])
def test_s_of_l_or_more(times_l):
    """threats K11"""
    s = int.from_bytes(GOOD[32:], "little") + times_l * L
    if s < 2**256:
        assert not good(PUBLIC, MESSAGE, GOOD[:32] + s.to_bytes(32, "little"))


def with_r(r):
    """A signature of the honest key whose R is the neutral element, in the form `r`: right by the equation."""
    s = ed25519.challenge(r, PUBLIC, MESSAGE) * ed25519.secret_scalar(SEED) % L
    return r + s.to_bytes(32, "little")


def test_r_of_small_order():
    """threats K12: the library takes it."""
    signature = with_r(encoded(ed25519.ZERO))
    assert accepted_by_the_library(PUBLIC, MESSAGE, signature)
    assert not good(PUBLIC, MESSAGE, signature)


@pytest.mark.parametrize("form", [{"sign": 1}, {"extra": 1}, {"extra": 1, "sign": 1}], ids=str)
def test_r_in_another_form(form):
    """threats K12"""
    assert not good(PUBLIC, MESSAGE, with_r(encoded(ed25519.ZERO, **form)))


@pytest.mark.parametrize("point", torsion(), ids=range(8))
def test_r_of_each_small_point(point):
    """threats K12"""
    assert not good(PUBLIC, MESSAGE, with_r(encoded(point)))


def test_one_signature_for_every_message():
    """threats K07 and fact 3: under the neutral element, which the library takes for a key."""
    neutral, constant = encoded(ed25519.ZERO), encoded(BASE) + (1).to_bytes(32, "little")
    for message in (b"", b"one", b"another"):
        assert accepted_by_the_library(neutral, message, constant)
        assert not good(neutral, message, constant)


@pytest.mark.parametrize("point", torsion()[1:], ids=range(1, 8))
def test_a_key_with_a_small_part(point):
    """threats D-9: some signatures of the honest key verify under it, in the library."""
    scalar = ed25519.secret_scalar(SEED)
    mixed = encoded(ed25519.plus(times(scalar, BASE), point))
    with pytest.raises(BadKey, match="prime order"):
        load_public_key(ED25519, PREFIX + mixed)


KEYS = {
    "empty": b"",
    "bare-point": PUBLIC,
    "trailing-byte": PREFIX + PUBLIC + b"\0",
    "short": PREFIX + PUBLIC[:-1],
    "ed448": bytes.fromhex("3043300506032b6571033a00") + bytes(57),
    "x25519": bytes.fromhex("302a300506032b656e032100") + PUBLIC,
    "with-null-parameters": bytes.fromhex("302c300706032b65700500032100") + PUBLIC,
    "long-length": bytes.fromhex("30812a300506032b6570032100") + PUBLIC,
    "no-point": PREFIX + (2).to_bytes(32, "little"),
    "zero": PREFIX + bytes(32),
}


@pytest.mark.parametrize("spki", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("algorithm", [ED25519, RSA_PSS_SHA256])
def test_no_key(algorithm, spki):
    """threats K09, D-10"""
    with pytest.raises(BadKey):
        load_public_key(algorithm, spki)
    assert not verify_signature(algorithm, spki, MESSAGE, GOOD)


@pytest.mark.parametrize("algorithm", [RSA_PSS_SHA256, "Ed25519", "EdDSA", "none", "hs256", ""])
def test_another_algorithm(algorithm):
    """threats K06, K20, S11"""
    assert good(PUBLIC, MESSAGE, GOOD)
    assert not good(PUBLIC, MESSAGE, GOOD, algorithm)

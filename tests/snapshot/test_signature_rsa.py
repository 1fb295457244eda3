"""RSA-PSS of format.md 6: one salt, one hash, two sizes, one exponent, one encoding."""

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from hypothesis import given
from hypothesis import strategies as st

from snapshot.signature import ED25519, RSA_PSS_SHA256, BadKey, key_id, load_public_key, verify_signature
from tests.examples import examples
from tests.fakes import rsa_keys

MESSAGE = b"a message"
SHA256 = hashes.SHA256()


@pytest.fixture(scope="module", params=[3072, 4096])
def private(request):
    return rsa_keys.key(request.param)


def spki_of(private):
    return private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def pss(salt=32, mgf=SHA256):
    return padding.PSS(mgf=padding.MGF1(mgf), salt_length=salt)


def good(private, signature, message=MESSAGE):
    return verify_signature(RSA_PSS_SHA256, spki_of(private), message, signature)


def test_a_signature(private):
    """rules S10"""
    signature = private.sign(MESSAGE, pss(), SHA256)
    assert good(private, signature)
    assert not good(private, signature, MESSAGE + b"\0")
    assert not verify_signature(ED25519, spki_of(private), MESSAGE, signature)


OTHERS = {
    "salt-0": (pss(0), SHA256),
    "salt-20": (pss(20), SHA256),
    "salt-31": (pss(31), SHA256),
    "salt-33": (pss(33), SHA256),
    "salt-64": (pss(64), SHA256),
    "salt-longest": (pss(padding.PSS.MAX_LENGTH), SHA256),
    "mgf-sha-1": (pss(mgf=hashes.SHA1()), SHA256),  # noqa: S303 - what must be refused
    "mgf-sha-512": (pss(mgf=hashes.SHA512()), SHA256),
    "sha-512": (pss(32, hashes.SHA512()), hashes.SHA512()),
    "pkcs-1-v1.5": (padding.PKCS1v15(), SHA256),
}


@pytest.mark.parametrize(("scheme", "digest"), OTHERS.values(), ids=OTHERS)
def test_another_scheme(private, scheme, digest):
    """rules S10; threats D-8, K14"""
    assert not good(private, private.sign(MESSAGE, scheme, digest))


def test_other_forms_of_a_good_signature(private):
    """rules S45: plus the modulus, longer, shorter, none."""
    signature = private.sign(MESSAGE, pss(), SHA256)
    modulus = private.public_key().public_numbers().n
    size = len(signature)
    number = int.from_bytes(signature, "big")
    others = [(number + modulus).to_bytes(size + 1, "big"), b"\0" + signature, signature + b"\0", signature[1:], b""]
    if number + modulus < 1 << 8 * size:
        others.append((number + modulus).to_bytes(size, "big"))
    others += [bytes(size), b"\xff" * size, modulus.to_bytes(size, "big"), (number ^ 1).to_bytes(size, "big")]
    assert not any(good(private, other) for other in others)


# DER, as far as a SubjectPublicKeyInfo needs it.


def tlv(tag, *parts):
    body = b"".join(parts)
    length = bytes([len(body)]) if len(body) < 128 else b"\x82" + len(body).to_bytes(2, "big")
    return bytes([tag]) + length + body


def integer(value, padded=b""):
    return tlv(2, padded, value.to_bytes(value.bit_length() // 8 + 1, "big"))


RSA_ENCRYPTION = tlv(6, bytes.fromhex("2a864886f70d010101"))
RSASSA_PSS = tlv(6, bytes.fromhex("2a864886f70d01010a"))
NULL = b"\x05\x00"


def spki(n, e=65537, oid=RSA_ENCRYPTION, parameters=NULL, padded=b"", after=b""):
    return tlv(0x30, tlv(0x30, oid, parameters), tlv(3, b"\0", tlv(0x30, integer(n, padded), integer(e)), after))


def test_our_der_is_the_der(private):
    numbers = private.public_key().public_numbers()
    assert spki(numbers.n) == spki_of(private)
    assert load_public_key(RSA_PSS_SHA256, spki(numbers.n))


FORMS = {
    "rsassa-pss": {"oid": RSASSA_PSS, "parameters": b""},
    "rsassa-pss-with-null": {"oid": RSASSA_PSS},
    "without-null": {"parameters": b""},
    "padded-modulus": {"padded": b"\0"},
    "bytes-inside": {"after": b"\0"},
    "e-1": {"e": 1},
    "e-2": {"e": 2},
    "e-3": {"e": 3},
    "e-65539": {"e": 65539},
    "e-of-3001-bits": {"e": 2**3000 + 1},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_another_key(private, form):
    """threats K13, K16, D-10, S11"""
    data = spki(private.public_key().public_numbers().n, **form)
    with pytest.raises(BadKey):
        load_public_key(RSA_PSS_SHA256, data)


def test_a_byte_after_the_key(private):
    """threats D-10"""
    with pytest.raises(BadKey):
        load_public_key(RSA_PSS_SHA256, spki_of(private) + b"\0")


@pytest.mark.parametrize("bits", [512, 1024, 2048, 3071, 3073, 4095, 4097, 8192, 16384])
def test_another_size(bits):
    """threats K13"""
    with pytest.raises(BadKey):
        load_public_key(RSA_PSS_SHA256, spki((1 << bits - 1) + 12345))


def test_a_key_has_one_id(private):
    """threats, fact 5: the other encoding loads in the library, and would count twice."""
    numbers = private.public_key().public_numbers()
    ids = set()
    for data in (spki(numbers.n), spki(numbers.n, oid=RSASSA_PSS, parameters=b"")):
        try:
            load_public_key(RSA_PSS_SHA256, data)
            ids.add(key_id(data))
        except BadKey:
            continue
    assert len(ids) == 1


@examples(40)
@given(st.integers(2**3071, 2**3072 - 1), st.binary(min_size=384, max_size=384))
def test_any_modulus_verifies_nothing_or_is_no_key(modulus, signature):
    """threats E25: also an even one, and one with small factors, under every version of the library."""
    assert not verify_signature(RSA_PSS_SHA256, spki(modulus), MESSAGE, signature)


@examples(60)
@given(st.binary(max_size=60), st.sampled_from([ED25519, RSA_PSS_SHA256]))
def test_any_bytes_for_a_key(data, algorithm):
    """threats E25"""
    assert not verify_signature(algorithm, data, MESSAGE, bytes(64))

"""The certificates that we make, what we read of others, and the proof of a join."""

import base64
import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from snapshot.signature import pae_of_type
from tests.examples import examples
from tests.wire.lab import NOW
from wire.certificate import (
    JOIN_TYPE,
    NODE_LIFETIME_S,
    BadCertificateError,
    Certificate,
    fingerprint,
    is_proven,
    issue_server,
    make_authority,
    make_identity,
    pem_to_der,
    prove,
)
from wire.pins import PinTable
from wire.tls_contexts import trust

NODE = make_identity("node-1", NOW, direct_host="node1.example")
OTHER = make_identity("node-1", NOW)


def test_a_nodes_certificate() -> None:
    """rules K48: self-signed P-256, CN and SAN = node id, SAN also the direct host, CA:FALSE, both uses, 4 years."""
    made = x509.load_pem_x509_certificate(NODE.certificate_pem)
    assert made.subject == made.issuer
    assert [name.value for name in made.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["node-1"]
    key = made.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(uses) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    read = Certificate.read(NODE.der)
    assert read.names == ("node-1", "node1.example")
    assert not read.is_authority
    assert read.not_before <= NOW < read.not_after == NOW + NODE_LIFETIME_S
    assert read.not_before < read.renew_at < read.not_after
    assert read.fingerprint == fingerprint(NODE.der)
    assert read.fingerprint.startswith("sha256:")


def test_a_direct_host_may_be_an_address() -> None:
    made = x509.load_pem_x509_certificate(make_identity("n", NOW, direct_host="192.0.2.7").certificate_pem)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7"]


def test_an_authority_has_all_that_strict_verifiers_want() -> None:
    """platform.md 9: keyUsage and key id in the CA, authority key id in the leaf (test_tls connects so)."""
    authority = make_authority("holdfast", NOW)
    assert Certificate.read(authority.der).is_authority
    leaf = x509.load_pem_x509_certificate(issue_server(authority, ["c.example", "192.0.2.1"], NOW).certificate_pem)
    made = x509.load_pem_x509_certificate(authority.certificate_pem)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    own = made.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert leaf.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier == own
    assert Certificate.read(pem_to_der(leaf.public_bytes(serialization.Encoding.PEM))).names == (
        "c.example",
        "192.0.2.1",
    )


@examples(60)
@given(st.one_of(st.binary(max_size=80), st.tuples(st.integers(0, len(NODE.der) - 1), st.integers(1, 255))))
def test_damaged_certificates_are_read_or_refused(damage: bytes | tuple[int, int]) -> None:
    """rules P6, J26: a typed refusal, never another exception."""
    if isinstance(damage, bytes):
        der = damage
    else:
        at, flip = damage
        der = NODE.der[:at] + bytes([NODE.der[at] ^ flip]) + NODE.der[at + 1 :]
    try:
        assert Certificate.read(der).fingerprint == fingerprint(der)
    except BadCertificateError as error:
        assert "not a readable certificate" in str(error)


def test_wrong_pem() -> None:
    """rules P6."""
    for pem in (b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", NODE.key_pem):
        with pytest.raises(BadCertificateError):
            pem_to_der(pem)
    assert pem_to_der(NODE.certificate_pem) == ssl.PEM_cert_to_DER_cert(NODE.certificate_pem.decode())


BODY = b'{"node_id":"node-1"}'


def test_a_proof_is_good_for_its_key_and_its_bytes() -> None:
    """rules J3: possession of the certificate's key, over the body as sent."""
    proof = prove(NODE.key_pem, BODY)
    assert is_proven(NODE.der, BODY, proof)
    assert not is_proven(OTHER.der, BODY, proof)
    assert not is_proven(NODE.der, BODY + b" ", proof)
    assert not is_proven(b"garbage", BODY, proof)


def test_a_proof_is_of_the_joins_type_and_curve() -> None:
    """threats D-1: a signature of one kind never passes as another; the curve is P-256 (protocol.md 1)."""
    key = serialization.load_pem_private_key(NODE.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    for signed in (BODY, pae_of_type("application/vnd.holdfast.head.v1+json", BODY)):
        other = base64.b64encode(key.sign(signed, ec.ECDSA(hashes.SHA256()))).decode()
        assert not is_proven(NODE.der, BODY, other)
    good = key.sign(pae_of_type(JOIN_TYPE, BODY), ec.ECDSA(hashes.SHA256()))
    assert is_proven(NODE.der, BODY, base64.b64encode(good).decode())
    assert not is_proven(NODE.der, BODY, base64.b64encode(good).decode().rstrip("=") + "\n")
    for stranger in (ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()):
        der = self_signed(stranger)
        signed_by = stranger.sign(BODY) if isinstance(stranger, ed25519.Ed25519PrivateKey) else b"x"
        assert not is_proven(der, BODY, base64.b64encode(signed_by).decode())


def self_signed(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "n")])
    begin = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begin).not_valid_after(begin + datetime.timedelta(1))
    made = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return made.public_bytes(serialization.Encoding.DER)


@given(st.text(max_size=300))
def test_any_text_is_no_proof(proof: str) -> None:
    """rules P6, J7: whatever the header is, the verdict is bad_proof and no exception."""
    assert not is_proven(NODE.der, BODY, proof)


RELEASED = sorted((Path(__file__).parent / "released").glob("*.pem"))


@pytest.mark.parametrize("file", RELEASED, ids=lambda file: file.stem)
def test_certificates_of_every_release_are_accepted(file: Path) -> None:
    """rules P21: each release leaves one here; it is read, pinned, and taken by TLS as a trust anchor."""
    der = pem_to_der(file.read_bytes())
    assert Certificate.read(der).names == ("node-1", "node1.example")
    table = PinTable()
    table.add(der, "node-1")
    assert table.find(der) is not None
    trust(context := ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), [der])
    assert context.cert_store_stats()["x509"] == 1


def test_there_is_a_release() -> None:
    assert RELEASED


def test_a_name_in_another_order_is_another_name() -> None:
    """rules M13: so a certificate is compared by its bytes, never by its names"""
    common, unit = x509.NameAttribute(NameOID.COMMON_NAME, "n"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "o")
    one, other = x509.Name([common, unit]), x509.Name([unit, common])
    assert one != other
    assert one.rfc4514_string() != other.rfc4514_string()

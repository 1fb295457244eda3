"""The certificates that we make and read, and the proof that a caller holds the key of one.

make_identity      a node's key and self-signed certificate (rules K48)
make_authority     a coordinator's own CA; `issue_server` a server certificate of it
Certificate.read   what a certificate says, for pins and for people; `names_as_issuer` whose it is
is_read_by_tls     whether TLS can trust it at all
prove, is_proven   possession of the key, in a join (rules J3)
"""

import base64
import hashlib
import ipaddress
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from snapshot.signature import pae_of_type

NODE_LIFETIME_S = 4 * 365 * 86400
AUTHORITY_LIFETIME_S = 20 * 365 * 86400
RENEWAL_SHARE = 0.8
# A clock that is a little behind ours must not refuse what was made just now.
BACKDATED_S = 3600
JOIN_TYPE = "application/vnd.holdfast.join.v1+json"
PROOF_TEXT_MAX = 256
URL_SCHEME = "https://"

_PEM_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_UNREADABLE = (ValueError, TypeError, OverflowError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion)


class BadCertificateError(ValueError):
    """No certificate, or not one of the kind asked for. The text never quotes it."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, both PEM."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    @property
    def der(self) -> bytes:
        """Of a chain, that of its holder."""
        return pem_to_der(self.certificate_pem)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says. Times are Unix seconds; `is_authority` is basicConstraints CA:TRUE."""

    der: bytes
    fingerprint: str
    names: tuple[str, ...]
    not_before: float
    not_after: float
    is_authority: bool

    @classmethod
    def read(cls, der: bytes) -> "Certificate":
        """BadCertificateError for what is no certificate with an EC or Ed25519 or RSA key."""
        try:
            parsed = x509.load_der_x509_certificate(der)
            parsed.public_key()
            return cls(
                der=der,
                fingerprint=fingerprint(der),
                names=_names(parsed),
                not_before=_date(parsed, "not_valid_before"),
                not_after=_date(parsed, "not_valid_after"),
                is_authority=_is_authority(parsed),
            )
        except _UNREADABLE as error:
            raise BadCertificateError("not a readable certificate") from error

    @property
    def renew_at(self) -> float:
        return self.not_before + RENEWAL_SHARE * (self.not_after - self.not_before)


def fingerprint(der: bytes) -> str:
    """`sha256:<hex>` of the DER: what identity is (rules J3), with the node id."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def pem_to_der(pem: bytes) -> bytes:
    try:
        return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    except _UNREADABLE as error:
        raise BadCertificateError("not a readable certificate (PEM)") from error


def der_to_pem(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


def is_read_by_tls(der: bytes) -> bool:
    """Whether OpenSSL reads a certificate, too: it looks into names, which the library does not, and refuses some."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cadata=der)
    except ssl.SSLError:
        return False
    return True


def names_as_issuer(der: bytes, authority_der: bytes) -> bool:
    """Whether a certificate says of itself that this CA has made it, by name and key: for people to read.

    (`verify_directly_issued_by` is not in Debian 12's library.)
    """
    try:
        made, authority = x509.load_der_x509_certificate(der), x509.load_der_x509_certificate(authority_der)
        named = made.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
        held = x509.SubjectKeyIdentifier.from_public_key(authority.public_key()).digest
    except (*_UNREADABLE, x509.ExtensionNotFound):
        return False
    return made.issuer == authority.subject and named == held


def issuer_of(der: bytes) -> str:
    """The common name of who made a certificate, as it says itself; nothing where it says none."""
    try:
        found = x509.load_der_x509_certificate(der).issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
    except _UNREADABLE as error:
        raise BadCertificateError("not a readable certificate") from error
    return str(found[0].value) if found else ""


def is_certificate_of(der: bytes, key_pem: bytes) -> bool:
    """Whether a certificate is of this key."""
    try:
        found = x509.load_der_x509_certificate(der).public_key()
    except _UNREADABLE:
        return False
    own = _private_key(key_pem).public_key()
    return isinstance(found, ec.EllipticCurvePublicKey) and found.public_numbers() == own.public_numbers()


def pem_chain_to_der(pem: bytes) -> list[bytes]:
    """Every certificate of a PEM file, in its order. (`load_pem_x509_certificates` is not in Debian 12's library.)"""
    try:
        found = [x509.load_pem_x509_certificate(block) for block in _PEM_BLOCK.findall(pem)]
    except _UNREADABLE as error:
        raise BadCertificateError("not readable certificates (PEM)") from error
    if not found:
        raise BadCertificateError("no certificate (PEM)")
    return [certificate.public_bytes(serialization.Encoding.DER) for certificate in found]


def make_identity(
    node_id: str,
    now: float,
    *,
    direct_host: str | None = None,
    url: str | None = None,
    lifetime_s: float = NODE_LIFETIME_S,
    key_pem: bytes | None = None,
) -> KeyPair:
    """Self-signed P-256: CN and SAN are the node id, SAN also the direct host, or the URL of a coordinator; CA:FALSE,
    client and server use.

    Of a new key, unless one is given: PEM, P-256 and not encrypted, else BadCertificateError.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key_pem is None else _private_key(key_pem)
    if key.curve.name != "secp256r1":
        raise BadCertificateError("the key is no P-256 key")
    names = [name for name in (node_id, direct_host, url) if name]
    builder = _builder(_name(node_id), _name(node_id), key.public_key(), now, lifetime_s)
    builder = _with_leaf_extensions(builder, names, [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    return _sign(builder, key, key)


def make_authority(
    name: str, now: float, *, lifetime_s: float = AUTHORITY_LIFETIME_S, key_pem: bytes | None = None
) -> KeyPair:
    """A CA that signs server certificates and nothing below it, as strict verifiers want it. Of a new key, unless one
    is given.
    """
    key = ec.generate_private_key(ec.SECP256R1()) if key_pem is None else _private_key(key_pem)
    builder = _builder(_name(name), _name(name), key.public_key(), now, lifetime_s)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _sign(builder, key, key)


def issue_server(
    authority: KeyPair, hosts: Sequence[str], now: float, *, lifetime_s: float = NODE_LIFETIME_S
) -> KeyPair:
    """A server certificate for these host names and addresses."""
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    issuer_key = _private_key(authority.key_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(hosts[0][:64]), issuer.subject, key.public_key(), now, lifetime_s)
    builder = _with_leaf_extensions(builder, hosts, [ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
    )
    return _sign(builder, key, issuer_key)


def prove(key_pem: bytes, body: bytes) -> str:
    """The `Holdfast-Proof` header of a join: base64 of the signature over the body as sent (protocol.md 1)."""
    signature = _private_key(key_pem).sign(pae_of_type(JOIN_TYPE, body), ec.ECDSA(hashes.SHA256()))
    return base64.b64encode(signature).decode()


def is_proven(der: bytes, body: bytes, proof: str) -> bool:
    """Whether the holder of the P-256 certificate `der` has signed `body`. Anything amiss is False."""
    try:
        public_key = x509.load_der_x509_certificate(der).public_key()
        if not isinstance(public_key, ec.EllipticCurvePublicKey) or public_key.curve.name != "secp256r1":
            return False
        if len(proof) > PROOF_TEXT_MAX:
            return False
        signature = base64.b64decode(proof.encode("ascii"), validate=True)
        public_key.verify(signature, pae_of_type(JOIN_TYPE, body), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, *_UNREADABLE):
        return False
    return True


def _private_key(key_pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
    except _UNREADABLE as error:
        raise BadCertificateError("not a readable private key (PEM, not encrypted)") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadCertificateError("the key is no elliptic-curve key")
    return key


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: float, lifetime_s: float
) -> x509.CertificateBuilder:
    made = datetime.fromtimestamp(int(now), UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(made - timedelta(seconds=BACKDATED_S))
        .not_valid_after(made + timedelta(seconds=int(lifetime_s)))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _with_leaf_extensions(
    builder: x509.CertificateBuilder, names: Sequence[str], uses: Sequence[x509.ObjectIdentifier]
) -> x509.CertificateBuilder:
    return (
        builder.add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    if name.startswith(URL_SCHEME):
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _sign(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(issuer_key, hashes.SHA256())
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _names(parsed: x509.Certificate) -> tuple[str, ...]:
    try:
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def _date(parsed: x509.Certificate, name: str) -> float:
    """The `_utc` names came with cryptography 42; the naive ones are deprecated since."""
    aware: datetime | None = getattr(parsed, f"{name}_utc", None)
    if aware is None:
        aware = getattr(parsed, name).replace(tzinfo=UTC)
    return aware.timestamp()


def _is_authority(parsed: x509.Certificate) -> bool:
    try:
        return parsed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False

"""A node's self-signed certificate: what makes one usable as an identity (rules J3, J26, K48, H-000-3).

Identity is the hash of the certificate's DER. Names inside are never read: another order of the same parts would be
another text (rules M13).
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from wire.certificate import is_read_by_tls

MAX_BYTES = 8 << 10
_UNREADABLE = (ValueError, OverflowError, UnsupportedAlgorithm, x509.DuplicateExtension, x509.InvalidVersion)


class Unusable(ValueError):
    """A certificate that identifies nobody; the text says why."""


@dataclass(frozen=True)
class NodeCertificate:
    der: bytes
    public_key: ec.EllipticCurvePublicKey

    @property
    def sha256(self) -> str:
        return fingerprint(self.der)

    def verify(self, signature: bytes, message: bytes) -> bool:
        """ECDSA P-256 with SHA-256, signature in DER (protocol 1)."""
        try:
            self.public_key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True


def fingerprint(der: bytes) -> str:
    """The pin: `sha256:` and the hex digest of the DER."""
    return "sha256:" + hashlib.sha256(der).hexdigest()


def read(der: bytes, now: float) -> NodeCertificate:
    """A self-signed P-256 certificate that is no CA and is valid at `now`; Unusable otherwise."""
    if len(der) > MAX_BYTES:
        raise Unusable("the certificate is too large")
    try:
        return _judge(der, x509.load_der_x509_certificate(der), now)
    except Unusable:
        raise
    except _UNREADABLE as error:
        raise Unusable("the certificate cannot be read") from error


def _judge(der: bytes, certificate: x509.Certificate, now: float) -> NodeCertificate:
    """Whatever is read of it may turn out to be malformed only then."""
    public_key = certificate.public_key()
    if not isinstance(public_key, ec.EllipticCurvePublicKey) or not isinstance(public_key.curve, ec.SECP256R1):
        raise Unusable("the certificate's key is not P-256")
    if _is_authority(certificate):
        raise Unusable("the certificate may sign others")  # it would be a CA for every name: threats, fact 12
    if not _is_self_signed(certificate, public_key):
        raise Unusable("the certificate is not signed by its own key")
    if not _time(certificate, "not_valid_before") <= now < _time(certificate, "not_valid_after"):
        raise Unusable("the certificate is not valid now")
    if not is_read_by_tls(der):
        raise Unusable("TLS cannot read the certificate")
    return NodeCertificate(der, public_key)


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_self_signed(certificate: x509.Certificate, public_key: ec.EllipticCurvePublicKey) -> bool:
    algorithm = certificate.signature_hash_algorithm
    if not isinstance(algorithm, (hashes.SHA256, hashes.SHA384, hashes.SHA512)):
        return False
    try:
        public_key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(algorithm))
    except InvalidSignature:
        return False
    return True


def _time(certificate: x509.Certificate, name: str) -> float:
    """Unix seconds; cryptography 42 renamed these members."""
    aware = getattr(certificate, f"{name}_utc", None)
    time: datetime = aware if aware is not None else getattr(certificate, name).replace(tzinfo=UTC)
    return time.timestamp()

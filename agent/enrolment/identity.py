"""The node's key and certificate: made here, kept in one file, replaced as a whole (rules K48, L40, X3).

One PEM file, key first: a crash leaves the old pair or the new one, never half of each. Where the node's key is a
systemd credential the file holds the certificate alone, and the key stays where it is. A key that is in the file stays
the node's until the certificate is renewed, also when a credential is given later.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent.config.configuration import NodeTable
from agent.config.credentials import NODE_KEY
from store.base.disk import Disk
from wire.certificate import BadCertificateError, Certificate, KeyPair, is_proven, make_identity, pem_to_der, prove
from wire.tls_contexts import TlsIdentity

FILE, NEXT = "node.pem", "node-next.pem"
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True)
class IdentityFile:
    """In `identity/`; `temporary` is the same cluster's. `given_key`: the credential with the node's private key."""

    folder: Path
    temporary: Path
    disk: Disk
    given_key: Path | None = None

    @property
    def identity(self) -> TlsIdentity:
        """For TLS: the files that certificate and key are read from."""
        file = self.folder / FILE
        return TlsIdentity(file, file if self.given_key is None or _holds_key(file) else self.given_key)

    def present(self) -> KeyPair | None:
        """BadCertificateError where it is damaged or its key is gone: whose node this is, an operator must say."""
        return self._read(FILE)

    def is_begun(self) -> bool:
        """Whether there is a pair, or a candidate for one."""
        return any((self.folder / name).exists() for name in (FILE, NEXT))

    def ensure(self, node: NodeTable, now: float) -> KeyPair:
        """The pair, made if there is none."""
        return self.present() or self._write(FILE, self._make(node, now))

    def candidate(self, node: NodeTable, now: float) -> KeyPair:
        """To join with: the pair, else one that becomes it once it was `admit`, the same at each attempt (J12)."""
        return self.present() or self.successor(node, now)

    def admit(self) -> None:
        """There is a grant for the candidate. Before that the node has no identity, also after a crash (rules A2)."""
        if not (self.folder / FILE).exists():
            self.succeed()

    def successor(self, node: NodeTable, now: float) -> KeyPair:
        """The pair of a renewal that goes on, made if there is none: a retry shows the same certificate."""
        return self._read(NEXT) or self._write(NEXT, self._make(node, now))

    def succeed(self) -> None:
        """The successor is the identity from now on."""
        self.disk.rename(self.folder / NEXT, self.folder / FILE)

    def _make(self, node: NodeTable, now: float) -> KeyPair:
        direct_host = urlsplit(node.direct_url).hostname if node.direct_url else None
        lifetime_s = node.certificate_lifetime_s
        key_pem = _read_key(self.given_key) if self.given_key is not None else None
        try:
            return make_identity(node.node_id, now, direct_host=direct_host, lifetime_s=lifetime_s, key_pem=key_pem)
        except BadCertificateError as error:
            remedy = "make it with openssl ecparam -name prime256v1 -genkey -noout"
            raise BadCertificateError(f"{self.given_key}: {error}: {remedy}") from error

    def _write(self, name: str, pair: KeyPair) -> KeyPair:
        key_pem = pair.key_pem if self.given_key is None else b""
        self.disk.replace_file(self.folder / name, key_pem + pair.certificate_pem, self.temporary / "identity.new")
        return pair

    def _read(self, name: str) -> KeyPair | None:
        path = self.folder / name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        key, begin, rest = data.partition(_CERTIFICATE)
        if not begin:
            raise BadCertificateError(f"{path} holds no certificate")
        return KeyPair(begin + rest, key) if key.strip() else self._with_given_key(path, data)

    def _with_given_key(self, path: Path, certificate: bytes) -> KeyPair:
        if self.given_key is None:
            raise BadCertificateError(f"the key of {path} is the credential {NODE_KEY}: the service was not given it")
        pair = KeyPair(certificate, _read_key(self.given_key))
        if not is_proven(pair.der, b"", prove(pair.key_pem, b"")):
            raise BadCertificateError(f"{self.given_key} is another key than that of {path}: give back the former one")
        return pair


@dataclass(frozen=True)
class OwnCertificate:
    """What others are shown of the identity, without its key. `is_admitted`: not the candidate of a join alone."""

    file: Path
    certificate: Certificate
    is_admitted: bool
    key_is_elsewhere: bool


def read_certificate(folder: Path) -> OwnCertificate | None:
    """Of the identity, else of the candidate that the node asks to join with; None where neither can be read."""
    for name in (FILE, NEXT):
        try:
            key, begin, rest = (folder / name).read_bytes().partition(_CERTIFICATE)
            found = Certificate.read(pem_to_der(begin + rest))
        except (OSError, BadCertificateError):
            continue
        return OwnCertificate(folder / name, found, name == FILE, not key.strip())
    return None


def renew_at(pair: KeyPair, node: NodeTable) -> float:
    """Unix seconds: a share of its lifetime after it began (rules, Numbers: at 80 %)."""
    certificate = Certificate.read(pair.der)
    lifetime = certificate.not_after - certificate.not_before
    return certificate.not_before + lifetime * node.certificate_renewal_percent / 100


def _read_key(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadCertificateError(f"{file}: {error.strerror}") from error


def _holds_key(file: Path) -> bool:
    try:
        return not file.read_bytes().startswith(_CERTIFICATE)
    except FileNotFoundError:
        return False

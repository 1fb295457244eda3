"""The node's key and certificate: made here, kept in one file, replaced as a whole (rules K48, L40, X3).

One PEM file, key first: a crash leaves the old pair or the new one, never half of each.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agent.configuration import NodeTable
from store.disk import Disk
from wire.certificate import BadCertificateError, Certificate, KeyPair, make_identity
from wire.contexts import Identity

FILE, NEXT = "node.pem", "node-next.pem"
_CERTIFICATE = b"-----BEGIN CERTIFICATE-----"


@dataclass(frozen=True)
class IdentityFile:
    """In `identity/`; `temporary` is the same cluster's."""

    folder: Path
    temporary: Path
    disk: Disk

    @property
    def identity(self) -> Identity:
        return Identity(self.folder / FILE, self.folder / FILE)

    def present(self) -> KeyPair | None:
        """BadCertificateError where the file is damaged: whose node this is, an operator must say."""
        return _read(self.folder / FILE)

    def ensure(self, node: NodeTable, now: float) -> KeyPair:
        """The pair, made if there is none."""
        return self.present() or self._write(FILE, _made(node, now))

    def successor(self, node: NodeTable, now: float) -> KeyPair:
        """The pair of a renewal that goes on, made if there is none: a retry shows the same certificate."""
        return _read(self.folder / NEXT) or self._write(NEXT, _made(node, now))

    def succeed(self) -> None:
        """The successor is the identity from now on."""
        self.disk.rename(self.folder / NEXT, self.folder / FILE)

    def _write(self, name: str, pair: KeyPair) -> KeyPair:
        self.disk.replace_file(self.folder / name, pair.key_pem + pair.certificate_pem, self.temporary / "identity.new")
        return pair


def renew_at(pair: KeyPair, node: NodeTable) -> float:
    """Unix seconds: a share of its lifetime after it began (rules, Numbers: at 80 %)."""
    certificate = Certificate.read(pair.der)
    lifetime = certificate.not_after - certificate.not_before
    return certificate.not_before + lifetime * node.certificate_renewal_percent / 100


def _made(node: NodeTable, now: float) -> KeyPair:
    direct_host = urlsplit(node.direct_url).hostname if node.direct_url else None
    return make_identity(node.node_id, now, direct_host=direct_host, lifetime_s=node.certificate_lifetime_s)


def _read(path: Path) -> KeyPair | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    key, begin, rest = data.partition(_CERTIFICATE)
    if not begin:
        raise BadCertificateError(f"{path} holds no certificate")
    return KeyPair(begin + rest, key)

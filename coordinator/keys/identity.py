"""The identity of one coordinator: a P-256 key and the certificate that it has made for itself (rules H0, H7, H26).

    identity.pem    among the keys, 0600: the key and the certificate; never copied from one coordinator to another

The manifest pins the certificate by its hash (history_manifest.py); so its dates count for nobody, and it stays until
somebody has another one pinned. Its names say whose it is, and at which URL: whoever pins the hash of one that was
prepared elsewhere has both by it (membership/coordinator_sets.py).

Rejected: the certificate that nodes are shown. It is renewed by a CA whose key others hold, and who coordinators are
would change each time; two coordinators behind one address may even show the same one.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from coordinator.keys import private_file
from coordinator.keys.signing_key import UnusableKeyError
from wire.certificate import URL_SCHEME, BadCertificateError, Certificate, KeyPair, fingerprint, make_identity

FILE = "identity.pem"
LIFETIME_S = 100 * 365 * 86_400
_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.+?-----END \1-----\n?", re.DOTALL)


def generate(coordinator_id: str, now: float, url: str | None = None) -> KeyPair:
    return make_identity(coordinator_id, now, url=url, lifetime_s=LIFETIME_S)


def owner_of(der: bytes) -> tuple[str, str]:
    """Id and URL that a certificate says; nothing for what it does not say. BadCertificateError where it is none."""
    names = Certificate.read(der).names
    url = next((name for name in names if name.startswith(URL_SCHEME)), "")
    return next((name for name in names if name != url), ""), url


def to_bytes(identity: KeyPair) -> bytes:
    """What its file holds."""
    return identity.key_pem + identity.certificate_pem


def parse(data: bytes, *, name: str = FILE) -> KeyPair:
    """UnusableKeyError for anything but one key and one certificate."""
    found = {match[1]: match[0] for match in _BLOCK.finditer(data)}
    if found.keys() != {b"PRIVATE KEY", b"CERTIFICATE"}:
        raise UnusableKeyError(f"{name}: is no identity of a coordinator (holdfastctl coordinators pin makes one)")
    identity = KeyPair(found[b"CERTIFICATE"], found[b"PRIVATE KEY"])
    try:
        _ = identity.der
    except BadCertificateError as error:
        raise UnusableKeyError(f"{name}: {error}") from None
    return identity


def load(directory: Path | None, environment: Mapping[str, str]) -> KeyPair | None:
    """Of the keys' directory, or else of the service's credentials; None where neither has one."""
    found = private_file.find(FILE, directory, environment)
    return None if found is None else parse(found[1], name=str(found[0]))


def find(directory: Path | None, environment: Mapping[str, str]) -> Path:
    """Where it lies. UnusableKeyError where it is in neither."""
    found = private_file.find(FILE, directory, environment)
    if found is None:
        raise UnusableKeyError(f"{FILE}: it is not here any more")
    return found[0]


def pin_of(identity: KeyPair | None) -> str:
    """`sha256:` and the hash of its certificate; nothing where there is none."""
    return "" if identity is None else fingerprint(identity.der)

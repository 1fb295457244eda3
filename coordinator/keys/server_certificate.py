"""A coordinator's own certificate, of the CA that `init` has made: the first one, a renewal, one for another name.

The CA's key is needed for that alone, on no day between: it may lie elsewhere, and under a passphrase (threats D-61).
"""

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from coordinator.keys.acting import as_owner_of
from coordinator.keys.atomic_files import replace_file
from wire.certificate import BadCertificateError, Certificate, KeyPair, issue_server, pem_chain_to_der, pem_to_der
from wire.endpoint import BadEndpointError, Endpoint

AUTHORITY, AUTHORITY_KEY, BEFORE = "ca.pem", "ca-key.pem", "before"


def authority_in(
    directory: Path, passphrase: bytes | None = None, *, beside: Path | None = None, certificate: bytes | None = None
) -> KeyPair:
    """The CA whose key lies there, opened; its certificate too, or `beside`, or given. Refused where they do not."""
    file, key = directory / AUTHORITY, directory / AUTHORITY_KEY
    if beside is not None and not file.is_file():
        file = beside / AUTHORITY
    is_given = certificate is not None and not file.is_file()
    for path in (key,) if is_given else (file, key):
        if not path.is_file():
            remedy = (
                "name the directory where this cluster's CA is kept: --ca; another CA's certificate is renewed there"
            )
            raise Refused(Code.BAD_KEY, f"{path} is not there", remedy=remedy)
    found = certificate if certificate is not None and is_given else file.read_bytes()
    return KeyPair(found, decrypt(key.read_bytes(), passphrase, name=str(key)))


def keep_authority(directory: Path, ca: KeyPair, passphrase: bytes | None) -> None:
    """A new CA, its key first: a certificate must not be told of whose key nobody has."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(directory / AUTHORITY_KEY, encrypt(ca.key_pem, passphrase), 0o600)
    replace_file(directory / AUTHORITY, ca.certificate_pem, 0o644)


def encrypt(key_pem: bytes, passphrase: bytes | None) -> bytes:
    """As it is kept; as it is without a passphrase."""
    if passphrase is None:
        return key_pem
    how = serialization.BestAvailableEncryption(passphrase)
    private = serialization.load_pem_private_key(key_pem, None)
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


def decrypt(key_pem: bytes, passphrase: bytes | None, *, name: str) -> bytes:
    """A CA's key; as it is where it is not encrypted."""
    if not keystore.is_encrypted_pem(key_pem):
        return key_pem
    if passphrase is None:
        raise Refused(Code.BAD_KEY, f"{name} is encrypted", remedy="give its passphrase: --passphrase-file")
    try:
        private = serialization.load_pem_private_key(key_pem, passphrase)
    except ValueError:
        raise Refused(Code.BAD_KEY, f"{name} has another passphrase", remedy="give the right one") from None
    plain = serialization.NoEncryption()
    return private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def authorities(certificate: Path) -> tuple[Certificate, ...]:
    """The CAs that lie with a coordinator's certificate: in its chain, and the cluster's own beside it."""
    chain = pem_chain_to_der(certificate.read_bytes())[1:]
    beside = certificate.parent / AUTHORITY
    if beside.is_file():
        chain += pem_chain_to_der(beside.read_bytes())
    return tuple(
        {
            certificate.fingerprint: certificate
            for certificate in map(Certificate.read, chain)
            if certificate.is_authority
        }.values()
    )


def issue(ca: KeyPair, hosts: Sequence[str], now: float) -> KeyPair:
    """For these names and addresses, each once."""
    for host in hosts:
        _must_be_a_host(host)
    try:
        return issue_server(ca, list(dict.fromkeys(hosts)), now)
    except ValueError as error:
        remedy = "look at the CA's two files"
        raise Refused(Code.BAD_KEY, f"no certificate can be issued: {error}", remedy=remedy) from None


def host_of(url: str) -> str:
    """Of https://host:port, as an operator wrote it."""
    try:
        return Endpoint.parse(url, configured=True).host
    except BadEndpointError as error:
        raise Refused(Code.BAD_REQUEST, str(error), remedy="give https://host:port") from error


def renew(certificate: Path, key: Path, ca: KeyPair, hosts: Sequence[str], now: float) -> Certificate:
    """Another certificate of a new key in both files, for the present names unless others are given.

    The key goes first: interrupted between the two, a coordinator would refuse the pair, and this is run again.
    """
    names = hosts or _read(certificate.read_bytes()).names
    pair = issue(ca, names, now)
    replace_file(key, pair.key_pem, 0o600)
    replace_file(certificate, pair.certificate_pem, 0o644)
    return _read(pair.certificate_pem)


def is_exchanged(certificate: Path) -> bool:
    """Whether there was another CA before the one that lies with this certificate."""
    return (certificate.parent / BEFORE).is_dir()


def exchange(certificate: Path, key: Path, ca: KeyPair, now: float) -> Certificate:
    """A certificate of another CA in both files, for the present names, and that CA beside it. The one before goes,
    with its key where that lies there, into the folder `before`: the way back, until the exchange is finished.

    Interrupted, it is run again: what lies in `before` is never overwritten by what came after it.
    """
    tls, before = certificate.parent, certificate.parent / BEFORE
    present = tls / AUTHORITY
    if present.is_file() and present.read_bytes() != ca.certificate_pem:
        with as_owner_of(tls):
            before.mkdir(mode=0o700, exist_ok=True)
        replace_file(before / AUTHORITY, present.read_bytes(), 0o644)
        if (tls / AUTHORITY_KEY).is_file():
            replace_file(before / AUTHORITY_KEY, (tls / AUTHORITY_KEY).read_bytes(), 0o600)
    made = renew(certificate, key, ca, (), now)
    with as_owner_of(tls):
        (tls / AUTHORITY_KEY).unlink(missing_ok=True)
    replace_file(present, ca.certificate_pem, 0o644)
    return made


def _must_be_a_host(host: str) -> None:
    try:
        Endpoint.parse(f"https://[{host}]" if ":" in host else f"https://{host}", configured=True)
    except BadEndpointError as error:
        remedy = "give names as in DNS, or addresses, without a port"
        raise Refused(Code.BAD_REQUEST, f"the host {host!r}: {error}", remedy=remedy) from None


def _read(pem: bytes) -> Certificate:
    try:
        return Certificate.read(pem_to_der(pem))
    except BadCertificateError as error:
        remedy = "give the names: --host"
        raise Refused(Code.BAD_KEY, f"the present certificate: {error}", remedy=remedy) from None

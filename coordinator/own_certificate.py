"""A coordinator's own certificate, of the CA that `init` has made: the first one, a renewal, one for another name."""

from collections.abc import Sequence
from pathlib import Path

from coordinator import custody
from coordinator.acting import as_owner_of
from coordinator.new_files import plain_file
from coordinator.refusal import Code, Refused
from wire.certificate import BadCertificateError, Certificate, KeyPair, issue_server, pem_chain_to_der, pem_to_der
from wire.endpoint import BadEndpointError, Endpoint

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca-key.pem"


def authority_in(directory: Path) -> KeyPair:
    """The CA whose two files lie there. Refused where they do not."""
    files = (directory / AUTHORITY, directory / AUTHORITY_KEY)
    for path in files:
        if not path.is_file():
            remedy = "put the CA of this cluster there; a certificate of another CA is renewed where it came from"
            raise Refused(Code.BAD_KEY, f"{path} is not there", remedy=remedy)
    return KeyPair(*(path.read_bytes() for path in files))


def authorities(certificate: Path) -> tuple[Certificate, ...]:
    """The CAs that lie with a coordinator's certificate: in its chain, and the cluster's own beside it."""
    chain = pem_chain_to_der(certificate.read_bytes())[1:]
    beside = certificate.parent / AUTHORITY
    if beside.is_file():
        chain += pem_chain_to_der(beside.read_bytes())
    return tuple({each.fingerprint: each for each in map(Certificate.read, chain) if each.is_authority}.values())


def issued(ca: KeyPair, hosts: Sequence[str], now: float) -> KeyPair:
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
    pair = issued(ca, names, now)
    _replace(key, pair.key_pem, 0o600)
    _replace(certificate, pair.certificate_pem, 0o644)
    return _read(pair.certificate_pem)


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


def _replace(path: Path, data: bytes, mode: int) -> None:
    beside = path.with_name(f".{path.name}.new")
    with as_owner_of(path.parent):
        beside.unlink(missing_ok=True)
        plain_file(data, mode)(beside)
        beside.replace(path)
        custody.sync_directory(path.parent)

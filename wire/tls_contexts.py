"""TLS 1.3 contexts of both ends, and what TLS says when it fails."""

import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from wire.certificate import KeyPair, pem_to_der

NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME; Python has no name for it
# X509_V_ERR_*: no issuer (also of a CA of the same name with another key), or a self-signed end that is not believed.
_NO_ISSUER = frozenset({2, 7, 18, 19, 20, 21, 30})
# As OpenSSL was built, on Debian /usr/lib/ssl/certs, which is /etc/ssl/certs.
SYSTEM_ROOTS = Path(ssl.get_default_verify_paths().openssl_capath)
# With a partial chain OpenSSL looks for the certificate itself; without, for an issuer of its name, and of two
# self-signed certificates with one subject it then takes the first and refuses the other (threats M11).
PINNED = NO_CHECK_TIME | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path

    def read(self) -> KeyPair:
        """What the files hold now. OSError."""
        return KeyPair(self.certificate.read_bytes(), self.key.read_bytes())


def own_der(identity: TlsIdentity | None) -> bytes | None:
    return pem_to_der(identity.certificate.read_bytes()) if identity is not None else None


class EmptyTrustError(ValueError):
    """A connection between nodes without a pin would accept anybody (threats M12, D-49)."""


def server_context(shown: KeyPair) -> ssl.SSLContext:
    """TLS 1.3, no session tickets (a resumed session would skip the judgement), no client certificate yet.

    Of what was read once: files may be in the middle of their exchange. ssl.SSLError where the key does not fit.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    with _in_memory(shown.certificate_pem) as certificate, _in_memory(shown.key_pem) as key:
        context.load_cert_chain(certificate, key, password=_no_password)
    context.num_tickets = 0
    return context


def pinned_server_context(shown: KeyPair, ders: Iterable[bytes]) -> ssl.SSLContext:
    """Asks for a client certificate and trusts these alone, whatever dates they bear (threats M05)."""
    context = server_context(shown)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= PINNED
    trust(context, ders)
    return context


def authority_context(
    file: Path | None, identity: TlsIdentity | None = None, ders: Iterable[bytes] = ()
) -> ssl.SSLContext:
    """For a client: the chain and the host name are checked against the CAs of this file, and these certificates of
    others, alone (rules K15).
    """
    others = list(ders)
    if not others and file is None:
        raise EmptyTrustError("no CA is believed")
    context = _client_context(identity)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    trust(context, others)
    if file is not None:
        context.load_verify_locations(cafile=file)
    return context


def public_context(roots: Path) -> ssl.SSLContext:
    """For a client of a server that anybody may run: the chain and the host name are checked against the CAs of this
    directory, as `openssl rehash` makes one. It is read when a chain is checked; of none, nothing is believed. No
    variable of the environment names another (threats N06). We show nothing of ourselves.
    """
    context = _client_context(None)
    context.load_verify_locations(capath=roots)
    return context


def unchecked_context() -> ssl.SSLContext:
    """For a client that compares the certificate itself, before it sends anything: TLS proves that the server holds the
    key of what it shows, and judges nothing. We show nothing of ourselves.
    """
    context = _client_context(None)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinned_context(pins: Iterable[bytes], identity: TlsIdentity | None = None) -> ssl.SSLContext:
    """For a client of one node: its pinned certificates alone. The pin says who it is, so no name is compared."""
    ders = list(pins)
    if not ders:
        raise EmptyTrustError("no pinned certificate of this node is known")
    context = _client_context(identity)
    context.check_hostname = False
    context.verify_flags |= PINNED
    trust(context, ders)
    return context


def trust(context: ssl.SSLContext, ders: Iterable[bytes]) -> None:
    """Adds trust anchors. Through a file in memory, since ssl holds the interpreter's lock over bytes, not over files:
    5,000 anchors take 1.2 s, in which the event loop must go on. One that OpenSSL cannot read fails the whole file: it
    is left out, and keeps no other out.
    """
    pems = [ssl.DER_cert_to_PEM_cert(der) for der in ders]
    if not pems:
        return
    try:
        with _in_memory("".join(pems).encode("ascii")) as anchors:
            context.load_verify_locations(cafile=anchors)
    except ssl.SSLError:
        for pem in pems:
            with suppress(ssl.SSLError):
                context.load_verify_locations(cadata=pem)


def alert_of(error: BaseException) -> str:
    """What TLS or the socket says of a failure: the end of the chain of causes."""
    error = _root(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    if isinstance(error, OSError) and (error.errno or 0) > 0:
        return os.strerror(error.errno or 0).lower()
    return str(error) or type(error).__name__


def is_of_unknown_authority(error: BaseException) -> bool:
    """Whether the chain ends at no CA that is believed, and nothing else is the matter with it."""
    root = _root(error)
    return isinstance(root, ssl.SSLCertVerificationError) and root.verify_code in _NO_ISSUER


def is_tls(error: BaseException) -> bool:
    """Whether TLS refused, and not the network broke."""
    root = _root(error)
    return isinstance(root, ssl.SSLError) and not _is_cut(root)


def _is_cut(error: ssl.SSLError) -> bool:
    """Before Python 3.11.4 it has no class of its own."""
    has_class = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    return has_class or error.reason == "UNEXPECTED_EOF_WHILE_READING"


def _root(error: BaseException) -> BaseException:
    """Of several attempts the first: there is one for each address."""
    while (cause := _cause(error)) is not None:
        error = cause
    return error


def _cause(error: BaseException) -> BaseException | None:
    return error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A file that no disk knows, for what OpenSSL reads from files alone."""
    descriptor = os.memfd_create("holdfast", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _no_password() -> str:
    """Else OpenSSL would ask on the terminal, and a daemon would wait there for ever."""
    return ""


def _context(protocol: int) -> ssl.SSLContext:
    """A connection that ends without TLS's own end is a failure (threats D-46). Python before 3.11.4, which Debian 12
    has, would call it an end beside OpenSSL 3: whoever stands between could end a message early.
    """
    context = ssl.SSLContext(protocol)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    return context


def _client_context(identity: TlsIdentity | None) -> ssl.SSLContext:
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context

"""TLS 1.3 contexts of both ends, and what TLS says when it fails."""

import os
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from wire.certificate import pem_to_der

NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME; Python has no name for it
# With a partial chain OpenSSL looks for the certificate itself; without, for an issuer of its name, and of two
# self-signed certificates with one subject it then takes the first and refuses the other (threats M11).
PINNED = NO_CHECK_TIME | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path


def own_der(identity: Identity | None) -> bytes | None:
    return pem_to_der(identity.certificate.read_bytes()) if identity is not None else None


class EmptyTrustError(ValueError):
    """A connection between nodes without a pin would accept anybody (threats M12, D-49)."""


def server_context(identity: Identity) -> ssl.SSLContext:
    """TLS 1.3, no session tickets (a resumed session would skip the judgement), no client certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity.certificate, identity.key)
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    return context


def pinned_server_context(identity: Identity, ders: Iterable[bytes]) -> ssl.SSLContext:
    """Asks for a client certificate and trusts these alone, whatever dates they bear (threats M05)."""
    context = server_context(identity)
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= PINNED
    trust(context, ders)
    return context


def authority_context(authority: Path, identity: Identity | None = None) -> ssl.SSLContext:
    """For a client: the chain and the host name are checked against this CA file alone (rules K15)."""
    context = _client_context(identity)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cafile=authority)
    return context


def pinned_context(pins: Iterable[bytes], identity: Identity | None = None) -> ssl.SSLContext:
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
    5,000 anchors take 1.2 s, in which the event loop must go on.
    """
    pem = "".join(map(ssl.DER_cert_to_PEM_cert, ders))
    if not pem:
        return
    descriptor = os.memfd_create("anchors", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", closefd=False, encoding="ascii") as anchors:
            anchors.write(pem)
        context.load_verify_locations(cafile=f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


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


def is_tls(error: BaseException) -> bool:
    """Whether TLS refused, and not the network broke."""
    root = _root(error)
    return isinstance(root, ssl.SSLError) and not isinstance(root, ssl.SSLEOFError | ssl.SSLZeroReturnError)


def _root(error: BaseException) -> BaseException:
    """Of several attempts the first: there is one for each address."""
    while (cause := _cause(error)) is not None:
        error = cause
    return error


def _cause(error: BaseException) -> BaseException | None:
    return error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error.__context__


def _client_context(identity: Identity | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["http/1.1"])
    if identity is not None:
        context.load_cert_chain(identity.certificate, identity.key)
    return context

"""Where a coordinator is asked: on its own machine over the admin socket, or from afar over TLS (protocol 2).

httpx speaks to both: one request after the other, nothing taken from the environment, no redirect followed.
"""

import ssl
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import httpx

from snapshot.identifiers import is_endpoint
from wire.tls_contexts import TlsIdentity, alert_of, authority_context, is_tls

CONNECT_S = 5.0
LONG_S = 600.0  # an apply of everything, or a tree of files
_TIMES = httpx.Timeout(LONG_S, connect=CONNECT_S)


class UnusablePlaceError(Exception):
    """A place that cannot be asked, with the remedy; nothing was sent."""


class AdminEndpoint(Protocol):
    def client(self) -> httpx.Client:
        """UnusablePlaceError for files that do not serve."""

    def remedy(self, error: Exception) -> str:
        """For whoever has no answer from there."""


@cache
def _without_tls() -> ssl.SSLContext:
    """There is no TLS at a socket. Left to itself, httpx would read every CA of the world for each question, and that
    takes a while.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True)
class Socket:
    """The Unix socket; the kernel says who asks."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(uds=str(self.path), verify=_without_tls())
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=_TIMES, trust_env=False)

    def remedy(self, error: Exception) -> str:
        if "Permission" in str(error):
            return "run this as root or as the coordinator's own user"
        return "start holdfast-coordinator, or name its socket with --socket"


@dataclass(frozen=True)
class Afar:
    """The admin listener. The coordinator's chain is checked against `ca` before our certificate is shown."""

    url: str
    ca: Path
    certificate: Path
    key: Path

    def __post_init__(self) -> None:
        if not is_endpoint(self.url):
            raise UnusablePlaceError(f"{self.url}: the coordinator's admin listener is https://HOST:PORT")

    def __str__(self) -> str:
        return self.url

    def client(self) -> httpx.Client:
        transport = httpx.HTTPTransport(verify=self._context())
        return httpx.Client(transport=transport, base_url=self.url, timeout=_TIMES, trust_env=False)

    def remedy(self, error: Exception) -> str:
        if isinstance(_end_of(error), ssl.SSLCertVerificationError):
            return f"its certificate does not lead to {self.ca}, or is for another name"
        if is_tls(error):
            return (
                "it does not know this certificate: `holdfastctl operators list` on its machine, then `operators add`"
            )
        return "see the network, and [listen] admin in its coordinator.toml"

    def _context(self) -> ssl.SSLContext:
        try:
            return authority_context(self.ca, TlsIdentity(self.certificate, self.key))
        except OSError as error:  # ssl's own errors, too
            files = f"{self.ca}, {self.certificate}, {self.key}"
            detail = alert_of(error) if isinstance(error, ssl.SSLError) else str(error.strerror)
            remedy = "name the CA file, the certificate and the key that belongs to it, in PEM"
            raise UnusablePlaceError(f"{files}: {detail}; {remedy}") from error


def _end_of(error: BaseException) -> BaseException:
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error

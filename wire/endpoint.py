"""Where a client may connect to: the URL as configured or signed, and the addresses that it may lead to (D-47)."""

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from trio.socket import getaddrinfo

_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*", re.ASCII)

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class BadEndpointError(ValueError):
    """A URL or an address that is not connected to; the text names it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`configured`: an operator wrote exactly this host, so it may be on loopback or a local link, at any port.

    What comes from a signed list may not, and has port 443 or one from 1024 up.
    """

    host: str
    port: int
    configured: bool = False

    @classmethod
    def parse(cls, url: str, *, configured: bool = False) -> "Endpoint":
        """Of `https://host:port` (the port may be left out), and nothing more."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", 443 if parts.port is None else parts.port
        except ValueError:
            raise BadEndpointError(f"not a URL: {url[:200]!r}") from None
        plain = f"https://{parts.netloc}"
        if url.rstrip("/") != plain or "@" in parts.netloc or not url.isascii():
            raise BadEndpointError(f"an endpoint is https://host:port and nothing more: {url[:200]!r}")
        endpoint = cls(host, port, configured)
        endpoint._check_host()
        return endpoint

    @property
    def authority(self) -> str:
        """For the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == 443 else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"https://{self.authority}"

    def allows(self, address: IPAddress) -> bool:
        """Whether the endpoint may lead to this address. An IPv4 address inside an IPv6 one is that address."""
        address = _unmap(address)
        if address.is_multicast or address.is_unspecified:
            return False
        return self.configured or not (address.is_loopback or address.is_link_local or address.is_reserved)

    async def resolve(self) -> list[str]:
        """The addresses as DNS has them now. OSError: there is none; BadEndpointError: none may be connected to."""
        found = await getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        allowed = [address for address in addresses if self.allows(_read(address))]
        if not allowed:
            raise BadEndpointError(f"{self.host} leads to {', '.join(addresses)}, where we do not connect to")
        return allowed

    def _check_host(self) -> None:
        if self.port < (1 if self.configured else 1024) and self.port != 443:
            raise BadEndpointError(f"port {self.port} of {self.host} is another service's")
        try:
            address = _read(self.host)
        except ValueError:
            self._check_name()
        else:
            if not self.allows(address):
                raise BadEndpointError(f"{self.host} is where we do not connect to")

    def _check_name(self) -> None:
        last = self.host.rpartition(".")[2]
        if not _NAME.fullmatch(self.host) or len(self.host) > 253 or last.isdigit():
            raise BadEndpointError(f"not a host name: {self.host[:200]!r}")
        if last == "localhost" and not self.configured:
            raise BadEndpointError(f"{self.host} is this machine")


def path(*segments: str, **query: str | int | list[str]) -> str:
    """A request target of fixed and given parts: each part is quoted whole, so no id changes the path (N11).

    >>> path("v1", "increments", "route_policy/a", base=7)
    '/v1/increments/route_policy%2Fa?base=7'
    """
    if any(segment in ("", ".", "..") for segment in segments):
        raise ValueError("a path segment that is empty or dots")
    target = "".join("/" + quote(segment, safe="") for segment in segments)
    members = [
        f"{quote(name, safe='')}={quote(str(value), safe='')}"
        for name, values in query.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return f"{target}?{'&'.join(members)}" if members else target


def _read(address: str) -> IPAddress:
    return ipaddress.ip_address(address.partition("%")[0])


def _unmap(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 one stands for: mapped, 6to4 or NAT64."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inside = address.ipv4_mapped or address.sixtofour
    if inside is None and address in ipaddress.ip_network("64:ff9b::/96"):
        inside = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return inside or address

"""Where a service's health is asked by HTTP: on this machine alone, over a Unix socket or on loopback.

unix:/run/web.sock:/health            the socket, and the path that is asked for on it
http://127.0.0.1:8080/health          an address of this machine: no name, which somebody could point elsewhere
"""

import ipaddress
import re
from pathlib import Path
from urllib.parse import urlsplit

from snapshot.frozen import frozen

FORM = "unix:/SOCKET:/PATH or http://127.0.0.1:PORT/PATH"
_UNIX = re.compile(r"unix:(/[\x21-\x39\x3b-\x7e]{1,200}):(/[\x21-\x7e]{0,200})", re.ASCII)
_PATH = re.compile(r"/[\x21-\x7e]{0,200}", re.ASCII)


@frozen
class CheckAddress:
    """`socket`, or `host` and `port`."""

    path: str
    socket: Path | None = None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        if self.socket is not None:
            return f"unix:{self.socket}:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{self.path}"


def read_address(value: object) -> CheckAddress:
    """ValueError says what it must be."""
    found = (_unix(value) or _loopback(value)) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"must be {FORM}, not {value!r}"[:300])
    return found


def _unix(value: str) -> CheckAddress | None:
    match = _UNIX.fullmatch(value)
    return None if match is None else CheckAddress(match[2], Path(match[1]))


def _loopback(value: str) -> CheckAddress | None:
    try:
        parts = urlsplit(value)
        host, port = ipaddress.ip_address(parts.hostname or ""), parts.port
    except ValueError:
        return None
    path = value.partition("://")[2].partition("/")
    in_form = parts.scheme == "http" and "@" not in parts.netloc and "#" not in value
    if not in_form or not host.is_loopback or not port or not _PATH.fullmatch("/" + path[2]) or "%" in parts.netloc:
        return None
    return CheckAddress("/" + path[2], host=str(host), port=port)

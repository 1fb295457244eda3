"""The URL of the database, as people write it, and one form of it for SQLAlchemy and for libpq's own programs.

Of a PostgreSQL that fails over all servers are named, in any of the forms that are in use:

    postgresql+psycopg://holdfast@a,b/holdfast
    postgresql+psycopg://holdfast@a:5432,b:5433/holdfast
    postgresql+psycopg://holdfast@/holdfast?host=a&host=b
    postgresql+psycopg://holdfast@/holdfast?host=a,b&port=5432,5433&target_session_attrs=read-write

SQLAlchemy by itself stumbles over the second, and libpq (pg_dump) takes the last host alone of the third.

What stands before the `@` is never taken for hosts, whatever a password has in it: a comma, or a `/`, which SQLAlchemy
takes as well. An `@` of the password alone has to be written `%40`, and is refused otherwise: who reads the rest as a
host says part of a password in an error.
"""

import re
from dataclasses import dataclass

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from coordinator.base.refusal import Code, Refused

REMEDY = "use sqlite:////absolute/path or postgresql+psycopg://"
SEVERAL = "postgresql+psycopg://holdfast@db-1:5432,db-2:5432/holdfast?target_session_attrs=read-write"
_WRITABLE = ("read-write", "primary")
_PORTS = (1, 65_535)
_USER = r"(?:[^/?#]*@|[^:/]*:[^@]*@)?+"  # with the password; possessive: where there is one, it is nothing else
_PLACES = re.compile(rf"^(?P<before>postgresql[^:]*://{_USER})(?P<places>[^/?#@]*,[^/?#@]*)(?P<after>(?:[/?#].*)?)$")
_IPV6 = re.compile(r"^\[(?P<host>[^\]]*)\](?::(?P<port>.*))?$")


@dataclass(frozen=True)
class ServerPlace:
    """Where a server listens; an empty host or port is libpq's own."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.host or 'the default server'}{':' if self.port else ''}{self.port}"


def read(text: str | URL) -> URL:
    """With several hosts as `host=a,b&port=1,2`. Refused `invalid_settings`; ArgumentError for no URL."""
    found = _parse(text) if isinstance(text, str) else text
    if found.get_backend_name() != "postgresql":
        return found
    places = places_of(found)
    wanted = _one(found, "target_session_attrs")
    if wanted and wanted not in _WRITABLE:
        raise _wrong(f"target_session_attrs={wanted}: the coordinator writes", "use read-write, or leave it out")
    if "hostaddr" in found.query or "service" in found.query:
        raise _wrong("hostaddr and service are not taken", "name the servers as hosts")
    if len(places) == 1:
        return found
    named = {"host": ",".join(place.host for place in places), "target_session_attrs": "read-write"}
    if any(place.port for place in places):
        named["port"] = ",".join(place.port for place in places)
    bare = URL.create(found.drivername, found.username, found.password, database=found.database)
    others = {name: value for name, value in found.query.items() if name not in ("host", "port")}
    return bare.set(query={**others, **named})


def places_of(url: URL) -> list[ServerPlace]:
    """The servers of a PostgreSQL URL, in order; one where none is named. Refused where hosts and ports do not fit."""
    hosts, ports = [url.host] if url.host else _many(url, "host"), [str(url.port)] if url.port else _many(url, "port")
    hosts = [name for host in hosts for name in host.split(",")] or [""]
    if all(map(_has_port, hosts)):
        hosts, ports = [host.partition(":")[0] for host in hosts], [host.partition(":")[2] for host in hosts]
    ports = ports * len(hosts) if len(ports) == 1 else ports or [""] * len(hosts)
    if len(ports) != len(hosts):
        raise _wrong(f"{len(hosts)} hosts and {len(ports)} ports", "name one port for all, or one for each")
    for host, port in zip(hosts, ports, strict=True):
        if len(hosts) > 1 and not host:
            raise _wrong("one of several hosts is empty", "take the comma away")
        if port and not (port.isascii() and port.isdigit() and _PORTS[0] <= int(port) <= _PORTS[1]):
            raise _wrong(f"{port!r} is no port", "ports are 1 to 65535")
    found = [ServerPlace(host, port) for host, port in zip(hosts, ports, strict=True)]
    if len(set(found)) < len(found):
        raise _wrong("a server is named twice", "name each once")
    return found


def _parse(text: str) -> URL:
    """`a:1,b:2` moves to where SQLAlchemy takes it."""
    match = _PLACES.match(text)
    found = _make(match["before"] + match["after"] if match else text)
    if found.host and "@" in found.host:
        raise _wrong("there is an @ in its password", "write it as %40")
    if match is None:
        return found
    if "host" in found.query:
        raise _wrong("hosts stand before the database's name and behind it", "name them in one place")
    split = [_split(place) for place in match["places"].split(",")]
    named = {"host": ",".join(host for host, _ in split), "port": ",".join(port for _, port in split)}
    return found.update_query_dict({name: value for name, value in named.items() if value.strip(",")})


def _make(text: str) -> URL:
    try:
        return make_url(text)
    except ValueError as error:
        raise ArgumentError("its port is no number") from error


def _split(place: str) -> tuple[str, str]:
    """Host and port, `[::1]:5432` too; an empty port where there is none."""
    if found := _IPV6.match(place):
        return found["host"], found["port"] or ""
    host, _, port = place.partition(":") if _has_port(place) else (place, "", "")
    return host, port


def _has_port(host: str) -> bool:
    """Not a directory of sockets, and no IPv6 address."""
    return not host.startswith(("/", "[")) and host.count(":") == 1


def _many(url: URL, name: str) -> list[str]:
    value = url.query.get(name, ())
    return [name for part in ([value] if isinstance(value, str) else value) for name in part.split(",")]


def _one(url: URL, name: str) -> str:
    value = url.query.get(name, "")
    return value if isinstance(value, str) else ",".join(value)


def _wrong(detail: str, remedy: str) -> Refused:
    return Refused(Code.INVALID_SETTINGS, f"database.url: {detail}", remedy=f"{remedy}; as in {SEVERAL}")

#!/usr/bin/env python3
"""Routes of a web gateway, made from lists that Debian carries: one for each public suffix and each way to reach it.

    public_suffixes.py --to DIR [--domains icann|private|all]

    /usr/share/publicsuffix/public_suffix_list.dat    below which names do sites of different owners begin
    /usr/share/zoneinfo/zone1970.tab                  on which continent does a country lie
    /etc/services                                     which ports do http and https have

A name below `co.uk` leaves the fabric in Europe, one below `com.au` in Australia, and one below `org` anywhere. The
result is DIR/routes-of-suffixes.yaml, for `holdfastctl apply -f web.yaml -f DIR`. Standard library only.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PACKAGES = {"suffixes": "publicsuffix", "zones": "tzdata", "services": "netbase"}
SUFFIXES = Path("/usr/share/publicsuffix/public_suffix_list.dat")
ZONES = Path("/usr/share/zoneinfo/zone1970.tab")
SERVICES = Path("/etc/services")

NAME = "routes-of-suffixes.yaml"
ORGANIZATION = "web"
WEB = ("http", "https")
TRANSPORTS = ("tcp", "udp")
# As tzdata names them. web.yaml has a service for each; whatever else a list may name is reached anywhere.
CONTINENTS = {"africa", "america", "antarctica", "asia", "atlantic", "australia", "europe", "indian", "pacific"}
ANYWHERE = "anywhere"
# Country-code domains that are not the country's code in lower case.
OTHER_CODES = {"uk": "GB", "ac": "SH", "eu": "BE", "su": "RU"}
LONGEST_ID = 64

Found = TypeVar("Found", dict[str, str], list["Port"], list["Suffix"])


class NotAsExpectedError(Exception):
    """A list has another form than the one that this was written for; the text names the place."""


@dataclass(frozen=True)
class Suffix:
    """`form`: `is` for the name itself, `below` for every name right below it, `except` for what is none after all."""

    name: str  # as DNS has it: ASCII
    form: str


@dataclass(frozen=True)
class Port:
    """A line of /etc/services."""

    service: str
    number: int
    transport: str

    @property
    def protocol(self) -> str:
        """As a route names it; HTTP/3 runs over UDP."""
        return self.service if self.transport == "tcp" else self.transport


def main() -> None:
    arguments = _arguments()
    try:
        found = routes(arguments)
    except FileNotFoundError as absent:
        package = next(PACKAGES[name] for name in PACKAGES if getattr(arguments, name) == Path(absent.filename))
        sys.exit(f"{absent.filename} is not there: sudo apt-get install --yes {package}")
    except (NotAsExpectedError, OSError) as error:
        sys.exit(str(error))
    arguments.to.mkdir(parents=True, exist_ok=True)
    (arguments.to / NAME).write_text("".join(found), encoding="ascii")
    print(f"{len(found)} routes in {arguments.to / NAME}")


def routes(arguments: argparse.Namespace) -> list[str]:
    """Of all lists, read before anything is written."""
    continents = _some(dict(continents_of_countries(arguments.zones)), arguments.zones, "no time zones")
    ports = _some(list(web_ports(arguments.services)), arguments.services, "neither http nor https")
    found = _some(list(suffixes(arguments.suffixes, arguments.domains)), arguments.suffixes, "no public suffixes")
    return [route(suffix, port, continents) for suffix in found for port in ports]


# ---- the lists


def _some(found: Found, path: Path, what: str) -> Found:
    if not found:
        raise NotAsExpectedError(f"{path}: {what} in it; is this the list that it should be?")
    return found


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """(`FILE:12`, the line)"""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise NotAsExpectedError(f"{path}: not text in UTF-8 ({error.reason})") from None
    for number, line in enumerate(text.splitlines(), 1):
        yield f"{path}:{number}", line


def suffixes(path: Path, domains: str) -> Iterator[Suffix]:
    """Each rule of the list once, in its order. Names that DNS cannot carry are left out, and said to be."""
    wanted, seen = False, set()
    for place, line in _lines(path):
        if "===BEGIN" in line:
            wanted = domains == "all" or domains.upper() in line
        rule = line.split("//")[0].strip()
        if not wanted or not rule:
            continue
        form = "below" if rule.startswith("*.") else "except" if rule.startswith("!") else "is"
        try:
            found = Suffix(rule.lstrip("*.!").encode("idna").decode("ascii").lower(), form)
        except UnicodeError:
            print(f"{place}: left out: {rule}", file=sys.stderr)
            continue
        if found not in seen:
            seen.add(found)
            yield found


def continents_of_countries(path: Path) -> Iterator[tuple[str, str]]:
    """(`GB`, `europe`): of each country's first time zone."""
    seen = set()
    for place, line in _lines(path):
        if line and not line.startswith("#"):
            codes, *_, zone = [*line.split("\t"), "", ""][:3]
            if "/" not in zone:
                raise NotAsExpectedError(f"{place}: not `codes, place, zone`, between tabs: {line!r}")
            for code in codes.split(","):
                if code not in seen:
                    seen.add(code)
                    yield code, zone.partition("/")[0].lower()


def web_ports(path: Path) -> Iterator[Port]:
    for place, line in _lines(path):
        words = line.split("#")[0].split()
        if words and words[0] in WEB:
            number, _, transport = words[1].partition("/") if len(words) > 1 else ("", "", "")
            if not (number.isdecimal() and transport):
                raise NotAsExpectedError(f"{place}: not `service port/transport`: {line!r}")
            if transport in TRANSPORTS:
                yield Port(words[0], int(number), transport)


# ---- the routes


def route(suffix: Suffix, port: Port, continents: dict[str, str]) -> str:
    """One YAML document; docs/resources.md has the members."""
    top = suffix.name.rpartition(".")[2]
    leaves = continents.get(OTHER_CODES.get(top, top.upper()), "")
    leaves = leaves if leaves in CONTINENTS else ANYWHERE
    return (
        f"---\nkind: Route\nid: {route_id(suffix, port)}\n"
        f"spec: {{organization: {ORGANIZATION}, service: web-{leaves},"
        f' match: {{hosts: ["{suffix.name}"], protocol: {port.protocol}, port: {port.number}}}}}\n'
    )


def route_id(suffix: Suffix, port: Port) -> str:
    """The suffix and how it is reached; what is too long for an id ends in a hash."""
    parts = [port.service if port.transport == "tcp" else f"{port.service}-{port.transport}", suffix.name]
    if suffix.form != "is":
        parts.insert(1, suffix.form)
    whole = ".".join(parts)
    if len(whole) <= LONGEST_ID:
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:20]
    return f"{whole[: LONGEST_ID - 21].rstrip('.-')}.{digest}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, required=True, metavar="DIR")
    parser.add_argument("--domains", choices=("icann", "private", "all"), default="all", help="which part of the list")
    for name, place in (("suffixes", SUFFIXES), ("zones", ZONES), ("services", SERVICES)):
        parser.add_argument(f"--{name}", type=Path, default=place, metavar="FILE", help=f"[{place}]")
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Maps that are signed in parts, `routes.2c` and `routes.3f` for `routes`, read as the one map that they are. Pure.

    parts_of(scope, name, sections)   the sections that hold a map
    map_of(scope, section)            the map that a section belongs to, else itself
    maps_of(scope, sections)          likewise, of many
    inside(parts)                     the members of the map, none of them parsed

A reader has no use for the parts: they keep an increment small, and which entry lies in which is the signer's to
choose (format.md 10). To have readers work that out was rejected: it would make the choice a promise.
"""

from collections.abc import Iterable, Mapping

from snapshot.content import is_part
from snapshot.manifest import SectionEntry
from snapshot.section_table import family_of

ROUTES_SCOPE, ROUTES = "route_policy", "routes"
IN_PARTS = {ROUTES_SCOPE: ROUTES, "peer_directory": "peers"}
EMPTY_BYTES = len(b"{}")


def parts_of(scope: str, name: str, sections: Mapping[str, SectionEntry]) -> Mapping[str, SectionEntry]:
    """The sections, none where it is no such map. One that has the map's own name is a part as well."""
    return family_of(sections, name) if IN_PARTS.get(scope) == name else {}


def map_of(scope: str, section: str) -> str:
    family = IN_PARTS.get(scope)
    return family if family is not None and is_part(section, family) else section


def maps_of(scope: str, sections: Iterable[str]) -> frozenset[str]:
    family = IN_PARTS.get(scope)
    if family is None:
        return frozenset(sections)
    return frozenset(family if is_part(section, family) else section for section in sections)


def inside(parts: Iterable[bytes]) -> bytes:
    """The members of a map from the bytes of its parts, without brackets. What is no object holds none."""
    return b",".join(part[1:-1] for part in parts if part[:1] == b"{" and len(part) > EMPTY_BYTES)

"""How a large map is split into sections (format.md 5, 10).

There are 64 parts, always: an entry's part is the first six bits of the SHA-256 of its id. The number is fixed, so an
entry never moves while the map grows, and a change of one entry touches one section of at most 1/64 of the map.
Sixty-four because a section is bounded by 1 MiB: filled to half, so that an uneven spread has room, they hold 32 MiB,
ten times the largest map of a node that we plan for (20,000 routes of about 150 bytes), while 64 manifest entries cost
a small map no more than 7 KiB. A part without entries has no section.
"""

import hashlib
from collections.abc import Mapping


def part_of(id_: str) -> str:
    """Two hex digits, `00` to `3f`."""
    return f"{hashlib.sha256(id_.encode()).digest()[0] >> 2:02x}"


def split(name: str, entries: Mapping[str, object]) -> dict[str, object]:
    """`entries` by id -> sections `name.<part>`, each an object by id."""
    sections: dict[str, dict[str, object]] = {}
    for id_ in sorted(entries):
        sections.setdefault(f"{name}.{part_of(id_)}", {})[id_] = entries[id_]
    return {section: sections[section] for section in sorted(sections)}

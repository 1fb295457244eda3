"""What stands in a compiled scope where an Expectation looks, and whether it is what is wanted. Pure.

    look(content, place, requirement)    -> Finding, with what was found in words

A map that is too large for one section is cut into parts by the hash of its ids (scope_view.py). Whoever expects
something of a route knows its id and not its part, so the parts of a section are one object here.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from coordinator.declared.compiler import ScopeContent
from coordinator.declared.config_scope import CONFIG, FILES
from coordinator.declared.contents import PART_BYTES
from coordinator.declared.expected_place import ExpectedPlace
from coordinator.declared.fields import AT_LEAST, CONTAINS, EQUALS
from coordinator.expected.requirement import NOTHING, Requirement, describe
from snapshot import canonical
from snapshot.content import is_part

_INDEX = re.compile(r"0|[1-9][0-9]{0,6}", re.ASCII)


@dataclass(frozen=True)
class Finding:
    """`found`: in words."""

    is_met: bool
    found: str


def look(content: ScopeContent, place: ExpectedPlace, requirement: Requirement) -> Finding:
    tokens = place.tokens or ()
    if place.scope.type != CONFIG:
        return _judge(_section(content, place.name), tokens, requirement)
    file = _file(content, place.name)
    if file is None:
        return nothing_there(requirement, f"no file {place.name}")
    if place.tokens is None:
        return file.judge(requirement)
    try:
        value = file.read_json()
    except ValueError as fault:
        return Finding(is_met=False, found=str(fault))
    return _judge(value, tokens, requirement)


def nothing_there(requirement: Requirement, found: str) -> Finding:
    return Finding(requirement.is_met(NOTHING), found)


def _judge(value: object, tokens: tuple[str, ...], requirement: Requirement) -> Finding:
    found = _follow(value, tokens)
    return Finding(requirement.is_met(found), describe(found, tokens[-1] if tokens else ""))


def _section(content: ScopeContent, name: str) -> object:
    """One, or all parts of it as one object."""
    values = [canonical.loads(content.section(part)) for part in sorted(content.sections) if is_part(part, name)]
    if len(values) > 1 and all(isinstance(value, dict) for value in values):
        return {member: inner for value in values if isinstance(value, dict) for member, inner in value.items()}
    return values[0] if values else NOTHING


def _follow(value: object, tokens: tuple[str, ...]) -> object:
    for token in tokens:
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and _INDEX.fullmatch(token) and int(token) < len(value):
            value = value[int(token)]
        else:
            return NOTHING
    return value


@dataclass(frozen=True)
class _GivenFile:
    """A file of a Config as one node is given it; read a part at a time."""

    content: ScopeContent
    sections: tuple[str, ...]

    @property
    def size(self) -> int:
        return sum(self.content.entries[name].size for name in self.sections)

    def judge(self, requirement: Requirement) -> Finding:
        """As it is. What it says is shown to nobody."""
        return Finding(self._meets(requirement), f"a file of {self.size:,} bytes")

    def _meets(self, requirement: Requirement) -> bool:
        if requirement.word == AT_LEAST:
            return requirement.is_met(self.size)
        wanted = requirement.wanted.encode() if isinstance(requirement.wanted, str) else b""
        if requirement.word == EQUALS:
            return self.size == len(wanted) and b"".join(self._parts()) == wanted
        if requirement.word == CONTAINS:
            return self._holds(wanted)
        return requirement.is_met("a file")

    def _holds(self, wanted: bytes) -> bool:
        """Across the borders of parts, too."""
        before = b""
        for part in self._parts():
            text = before + part
            if wanted in text:
                return True
            before = text[-len(wanted) :]
        return False

    def read_json(self) -> object:
        """ValueError, in words, for what is none."""
        if self.size > PART_BYTES:
            raise ValueError(f"a file of {self.size:,} bytes; of JSON at most {PART_BYTES:,} are read")
        try:
            return json.loads(b"".join(self._parts()))
        except (ValueError, RecursionError):
            raise ValueError("a file that is no JSON") from None

    def _parts(self) -> Iterator[bytes]:
        return (self.content.section(name) for name in self.sections)


def _file(content: ScopeContent, path: str) -> _GivenFile | None:
    index = canonical.loads(content.section(FILES))
    entry = index.get(path) if isinstance(index, dict) else None
    return None if entry is None else _GivenFile(content, tuple(entry["sections"]))

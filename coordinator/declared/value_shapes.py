"""Which values are taken for secrets when resources are applied: a table that is wider than what nodes refuse, and can
be brought up to date without another release (value_shapes.toml; `[secrets] value_shapes` names a file with more).

A node's gate is part of the format (snapshot/secrets.py); this one is the coordinator's own, so it may err on the side
of saying no: a declaration can exempt a member (resources.py).

Patterns are bounded: no repeat without an end, none of a group that varies, and the choices that a match could go back
to are few. So a look costs no more than the text is long, whoever wrote text or table.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources as package
from math import prod
from pathlib import Path

from coordinator.base.refusal import Code, Refused
from snapshot.identifiers import is_id

MOST_REPEATED, MOST_CHOICES, MOST_PATTERN = 4_096, 1 << 13, 2_048
_MEMBERS = frozenset({"about", "needs", "pattern"})
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_ENDLESS = re.compile(r"(?<!\})[*+]|\{\d*,\}")
_REPEAT = re.compile(r"(\)?)\{(\d+)(?:,(\d+))?\}(\+?)")


@dataclass(frozen=True)
class Family:
    """Texts of one kind. `needs`: literals of which one must occur; a search for them costs next to nothing."""

    id: str
    about: str
    needs: tuple[str, ...]
    pattern: re.Pattern[str]

    def is_in(self, text: str) -> bool:
        return any(literal in text for literal in self.needs) and self.pattern.search(text) is not None


Shapes = Mapping[str, Family]


def families_in(shapes: Shapes, text: str) -> Iterator[str]:
    """The ids of the families of which something stands in the text."""
    return (shape.id for shape in shapes.values() if shape.is_in(text))


@cache
def shipped_shapes() -> Shapes:
    return _read((package.files("coordinator") / "value_shapes.toml").read_text(encoding="utf-8"), {})


def load(place: str) -> Shapes:
    """What is shipped, and what a file says beside it or instead; "" is no file."""
    if not place:
        return shipped_shapes()
    try:
        return _read(Path(place).read_text(encoding="utf-8"), shipped_shapes())
    except OSError as error:
        raise _wrong(f"{place}: {error.strerror}") from error
    except ValueError as error:
        raise _wrong(f"{place}: {error}") from error


def _read(text: str, before: Shapes) -> Shapes:
    """ValueError for what is out of form; a family without a pattern is left out."""
    values = tomllib.loads(text)
    given = values.get("families")
    if values.keys() != {"families"} or not isinstance(given, dict):
        raise ValueError("holds the table `families` and nothing else")
    read = {name: _family(name, family) for name, family in given.items()}
    return {name: family for name, family in ({**before, **read}).items() if family is not None}


def _family(name: str, value: object) -> Family | None:
    if not is_id(name) or not isinstance(value, dict) or not value.keys() <= _MEMBERS:
        raise ValueError(f"families.{name} has an id, and of `about`, `needs` and `pattern` each")
    pattern, needs, about = value.get("pattern"), value.get("needs", []), value.get("about", "")
    if pattern == "":
        return None
    if not isinstance(pattern, str) or not isinstance(about, str):
        raise ValueError(f"families.{name}: `pattern` and `about` are text")
    if not isinstance(needs, list) or not needs or not all(isinstance(need, str) and len(need) > 1 for need in needs):
        raise ValueError(f"families.{name}: `needs` is a list of texts, each of two characters or more")
    if fault := unbounded_part(pattern):
        raise ValueError(f"families.{name}: {fault}")
    try:
        return Family(name, about, tuple(needs), re.compile(pattern))
    except re.error as error:
        raise ValueError(f"families.{name}: {error}") from error


def unbounded_part(pattern: str) -> str | None:
    """Why a pattern could cost more than the text is long."""
    bare = _ATOM.sub("x", pattern)
    if len(pattern) > MOST_PATTERN:
        return f"the pattern is longer than {MOST_PATTERN}"
    if _ENDLESS.search(bare) or re.search(r"\\[1-9]|\(\?P=", pattern):
        return "a repeat has no end: write {1,64} for +, {0,64} for *, and no back references"
    most = []
    for of_group, least, largest, is_possessive in _REPEAT.findall(bare):
        if largest and of_group and int(largest) > 4:
            return "a group is repeated a varying number of times: at most 4"
        if int(largest or least) > MOST_REPEATED:
            return f"a repeat goes on for more than {MOST_REPEATED}"
        most.append(1 if is_possessive or not largest else int(largest) - int(least) + 1)
    if prod(most) > MOST_CHOICES:
        return "too many ways to match: write {1,64}+ where what follows is another character"
    return None


def _wrong(what: str) -> Refused:
    return Refused(
        Code.INVALID_SETTINGS, f"secrets.value_shapes: {what}", remedy="correct the file, or coordinator.toml"
    )

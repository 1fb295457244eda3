"""What an Expectation asks of one value: `exists`, `absent`, `{equals: X}`, `{at_least: N}` or `{contains: X}`. Pure.

    Requirement.is_met(...)  of a value, or of NOTHING where there is none
    describe(value)          what was found, in words that give no secret away

`null` is nothing: a value that nobody has filled in is as missing as one that nobody has written. What is there and
blank is there; whoever means that it is filled writes `{at_least: 1}`.

A value that was found may be somebody's secret, exempted or of a kind that no detector knows, and a refusal goes into
logs of a CI that many read. So only a short plain word is shown, and of everything else what it is and how long.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coordinator.base.refusal import bound_text
from coordinator.declared import value_shapes
from coordinator.declared.fields import ABSENT, AT_LEAST, CONTAINS, EQUALS, EXISTS
from snapshot import canonical, secrets

_MOST_SHOWN = 64


class Nothing:
    """What is found where there is nothing."""


NOTHING: Final = Nothing()


@dataclass(frozen=True)
class Requirement:
    """`wanted`: what it is held against; nothing for `exists` and `absent`."""

    word: str
    wanted: object = None

    @property
    def words(self) -> str:
        """For people, who have written it themselves."""
        if self.word == EXISTS:
            return "something"
        if self.word == ABSENT:
            return "nothing"
        name = {EQUALS: "exactly", AT_LEAST: "at least", CONTAINS: "something that contains"}[self.word]
        return f"{name} {bound_text(canonical.dumps(self.wanted).decode(), _MOST_SHOWN)}"

    def is_met(self, found: object) -> bool:
        """Of a number whether it is as large; of a list, an object or a text whether it is as long."""
        if found is NOTHING or found is None:
            return self.word == ABSENT
        match self.word:
            case "equals":
                return _is_same(found, self.wanted)
            case "at_least":
                return _is_at_least(found, self.wanted)
            case "contains":
                return _contains(found, self.wanted)
            case _:
                return self.word == EXISTS


def requirement_of(value: object) -> Requirement:
    """Of what RequirementForm took."""
    if isinstance(value, Mapping):
        ((word, wanted),) = value.items()
        return Requirement(str(word), wanted)
    return Requirement(str(value))


def describe(found: object, name: str = "") -> str:
    """`name`: of the member that was found, under which only a reference to a secret may stand."""
    match found:
        case Nothing() | None:
            return "nothing"
        case bool() | int() | float():
            return _plain(found)
        case str():
            return canonical.dumps(found).decode() if _may_be_shown(found, name) else f"a text of {len(found)}"
        case list():
            return f"a list of {len(found)}"
        case Mapping():
            return f"an object of {len(found)}"
        case _:
            return type(found).__name__


def _plain(found: object) -> str:
    try:
        return canonical.dumps(found).decode()
    except ValueError:
        return "a number"


def _may_be_shown(text: str, name: str) -> bool:
    if len(text) > _MOST_SHOWN or not text.isprintable() or secrets.is_forbidden_name(name):
        return False
    suspected = next(value_shapes.families_in(value_shapes.shipped_shapes(), text), None)
    return secrets.find_shape(text) is None and suspected is None


def _is_at_least(found: object, wanted: object) -> bool:
    length = len(found) if isinstance(found, (str, list, Mapping)) else _number(found)
    least = _number(wanted)
    return length is not None and least is not None and length >= least


def _contains(found: object, wanted: object) -> bool:
    """A text a text, a list a value, an object a member."""
    if isinstance(found, list):
        return any(_is_same(value, wanted) for value in found)
    return isinstance(wanted, str) and isinstance(found, (str, Mapping)) and wanted in found


def _is_same(found: object, wanted: object) -> bool:
    """As values of JSON: 1 and true are two, 1 and 1.0 are one. What has no canonical form is like nothing."""
    try:
        return canonical.dumps(found) == canonical.dumps(wanted)
    except ValueError:
        return False


def _number(value: object) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

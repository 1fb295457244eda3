"""JSON from outside, read strictly: UTF-8, no name twice, no NaN, no NUL, bounded, closed (rules X14, K53)."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from coordinator.base.refusal import Code, Refused

MAX_DEPTH = 16
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")


@dataclass(frozen=True)
class BodyMember:
    """One member of a closed object: the test that its value must pass, and whether it may be absent."""

    accepts: Callable[[object], bool]
    required: bool = True


def parse(data: bytes, most: int, code: Code = Code.BAD_REQUEST) -> dict[str, object]:
    """The JSON object that `data` is; Refused with `code` for anything else."""
    if len(data) > most:
        raise Refused(code, f"more than {most} bytes")
    try:
        value = json.loads(data.decode(), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(code, "not JSON in UTF-8, or a member name given twice") from error
    if not isinstance(value, dict):
        raise Refused(code, "not a JSON object")
    if _may_be_deep(data) and _is_deep(value):
        raise Refused(code, "nested too deep")
    if b"\\u" in data and not all(map(_is_sound, _texts(value))):
        raise Refused(code, "a text holds NUL or half a character")
    return value


def closed(value: Mapping[str, object], members: Mapping[str, BodyMember], code: Code = Code.BAD_REQUEST) -> None:
    """Exactly the members that are required, and no unknown one, each of its form."""
    for name in value:
        if name not in members:
            raise Refused(code, f"unknown member {name!r}")
    for name, member in members.items():
        if name not in value:
            if member.required:
                raise Refused(code, f"member {name!r} is missing")
        elif not member.accepts(value[name]):
            raise Refused(code, f"member {name!r} is out of form")


def text_in(value: Mapping[str, object], name: str) -> str:
    """A member that `closed` has judged, with its type; so are the next three."""
    found = value[name]
    if not isinstance(found, str):
        raise Refused(Code.BAD_REQUEST, f"member {name!r} is no text")
    return found


def number_in(value: Mapping[str, object], name: str) -> int:
    found = value[name]
    if not isinstance(found, int):
        raise Refused(Code.BAD_REQUEST, f"member {name!r} is no whole number")
    return found


def flag_in(value: Mapping[str, object], name: str) -> bool:
    """False where it is absent."""
    return value.get(name) is True


def texts_in(value: Mapping[str, object], name: str) -> dict[str, str]:
    """Texts by name."""
    found = value[name]
    return {key: text_in(found, key) for key in found} if isinstance(found, dict) else {}


def is_text(most: int) -> Callable[[object], bool]:
    """1..`most` characters, all of them printable."""
    return lambda value: isinstance(value, str) and 0 < len(value) <= most and value.isprintable()


def is_one_of(words: Collection[str]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and value in words


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a member name given twice")
    return value


def _finite(token: str) -> float:
    value = float(token)
    if value - value != 0:
        raise ValueError("a number beyond all bounds")
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _may_be_deep(data: bytes) -> bool:
    """A look at the brackets alone: taking the innermost pairs off, MAX_DEPTH times, leaves nothing of a flat value."""
    brackets = data.translate(None, _ALL_BUT_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not brackets:
            return False
    return True


def _is_deep(value: object) -> bool:
    """Whether more than MAX_DEPTH containers are open at once (threats D-56)."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each) if isinstance(inner, (dict, list))]
        if not level:
            return False
    return True


def _texts(value: object) -> Iterator[str]:
    """All of them, names too; the depth of `value` is known to be bounded."""
    if isinstance(value, str):
        yield value
        return
    for inner in _inside(value):
        yield from _texts(inner)
    if isinstance(value, dict):
        yield from value


def _is_sound(text: str) -> bool:
    """Raw, JSON in UTF-8 has no room for either; an escape has (rules P23: no database keeps them)."""
    return "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()

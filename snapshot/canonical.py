"""Canonical JSON (RFC 8785), read strictly and written (format.md 4, 5, 10).

    parse       bytes that must be canonical -> Parsed: the value, and what a walk over it found
    loads       the same, the value alone
    walk        a value -> Parsed
    dumps       a value -> its canonical bytes

How `parse` knows that bytes are canonical without writing the value again: whatever is not canonical in valid JSON
leaves a trace that can be counted. White space other than the space is never inside a string, so it must not occur;
every space and every quote of the text must be accounted for by the strings of the value (a member given twice is a
name lost); numbers are compared as they are read; escapes are compared as a set; names must ascend. So a section is
parsed once, in C, and walked once.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import isfinite

from snapshot.identifiers import MAX_INTEGER
from snapshot.limits import DEFAULT, Limits

_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SHORT_ESCAPES = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
_CANONICAL_ESCAPES = {r"\"", r"\\"} | {_SHORT_ESCAPES.get(code, f"\\u{code:04x}") for code in range(32)}


class NotCanonical(ValueError):
    """Bytes that are no JSON, no canonical JSON, or beyond a limit. The text never quotes them."""


@dataclass(frozen=True)
class Parsed:
    """A value read from canonical bytes, with what one walk over it found."""

    value: object
    levels: list[list[object]]  # all values, by depth: the value itself, what it holds, what those hold ...
    objects: list[dict[str, object]]
    strings: int  # how many values are strings

    @cached_property
    def shapes(self) -> set[tuple[str, ...]]:
        """The distinct tuples of member names, each in the order in which it was read."""
        return set(map(tuple, self.objects))

    @cached_property
    def names(self) -> set[str]:
        return set(chain.from_iterable(self.shapes))

    @cached_property
    def texts(self) -> set[str]:
        """Every string that is a value or an element."""
        return {item for level in self.levels for item in level if type(item) is str}


def walk(value: object, depth: int = DEFAULT.json_depth) -> Parsed:
    """The walk over a value; NotCanonical where more than `depth` objects and arrays are open at once."""
    levels: list[list[object]] = [[value]]
    objects: list[dict[str, object]] = []
    strings = 0
    while True:
        rest = [item for item in levels[-1] if type(item) is not str]
        strings += len(levels[-1]) - len(rest)
        dicts = [item for item in rest if type(item) is dict]
        lists = [item for item in rest if type(item) is list]
        if not dicts and not lists:
            return Parsed(value, levels, objects, strings)
        if len(levels) > depth:
            raise NotCanonical("nested too deep")
        objects += dicts
        levels.append([*chain.from_iterable(map(dict.values, dicts)), *chain.from_iterable(lists)])


def loads(data: bytes, limits: Limits = DEFAULT, *, depth: int | None = None) -> object:
    return parse(data, limits, depth=depth).value


def parse(data: bytes, limits: Limits = DEFAULT, *, depth: int | None = None) -> Parsed:
    """The value of canonical `data` within the limits on depth, values and strings; NotCanonical otherwise."""
    text = _decoded(data)
    _refuse_too_many_containers(text, limits.json_values)
    parsed = walk(_parsed(text), limits.json_depth if depth is None else depth)
    if sum(map(len, parsed.levels)) > limits.json_values:
        raise NotCanonical(f"more than {limits.json_values} values")
    _refuse_other_escapes(text)
    _refuse_disorder(parsed, _sorted_by_utf_16 if not text.isascii() else sorted)
    _refuse_long_strings(parsed, data, limits.string_bytes)
    _refuse_unaccounted(parsed, text)
    return parsed


def dumps(value: object) -> bytes:
    """The canonical bytes of a value of dict, list, str, int, float, bool and None; ValueError for any other."""
    if _is_plain(value):
        # Written in C: the same bytes wherever there is no float and no name beyond ASCII.
        return json.dumps(  # noqa: TID251 - this is the canonical module
            value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode()
    return "".join(_written(value)).encode()


def number(value: float) -> str:
    """A finite double as ECMAScript writes it (RFC 8785, 3.2.2.3)."""
    if value == 0:
        return "0"
    sign, digits, point = _decimal(value)
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    fraction = "." + digits[1:] if count > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _decimal(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits, and where the point stands: 0.`digits` times ten to the `point`."""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading = len(whole + fraction) - len(digits)
    point = len(whole) - leading + int(exponent or 0)
    return "-" if value < 0 else "", digits.rstrip("0"), point


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotCanonical("not UTF-8") from None
    if any(space in text for space in "\t\n\r"):
        raise NotCanonical("white space between tokens, or a control character that is not escaped")
    return text


def _refuse_too_many_containers(text: str, most: int) -> None:
    """Before a large text is parsed, since it can ask for much memory (threats, fact 7); scalars cost little."""
    if len(text) > 8 * most and text.count("[") + text.count("{") > most:
        bare = _STRING.sub("0", text)
        if bare.count("[") + bare.count("{") > most:
            raise NotCanonical(f"more than {most} values")


class _Integers(dict[str, int]):
    """Integer tokens already judged: most documents repeat theirs."""

    def __missing__(self, token: str) -> int:
        value = int(token) if len(token) <= 17 else MAX_INTEGER + 1
        if token == "-0" or abs(value) > MAX_INTEGER:
            raise NotCanonical("an integer outside +-(2^53-1), or minus zero")
        self[token] = value
        return value


def _float(token: str) -> float:
    value = float(token)
    if not isfinite(value) or number(value) != token:
        raise NotCanonical("a number in another form than the canonical one")
    return value


def _constant(token: str) -> object:
    raise NotCanonical(f"{token} is no JSON")


def _parsed(text: str) -> object:
    try:
        decoder = json.JSONDecoder(
            parse_int=_Integers().__getitem__, parse_float=_float, parse_constant=_constant
        )
        value, end = decoder.raw_decode(text)
    except NotCanonical:
        raise
    except RecursionError:
        raise NotCanonical("nested too deep") from None
    except ValueError:
        raise NotCanonical("not JSON") from None
    if end != len(text):
        raise NotCanonical("something follows the value")
    return value


def _refuse_other_escapes(text: str) -> None:
    if "\\" in text and not _CANONICAL_ESCAPES.issuperset(_ESCAPE.findall(text)):
        raise NotCanonical("an escape in another form than the canonical one")


def _refuse_disorder(parsed: Parsed, in_order: Callable[[Iterable[str]], list[str]]) -> None:
    """Names ascend by UTF-16 code units (RFC 8785, 3.2.3), which is by code point wherever there is only ASCII."""
    if any(list(shape) != in_order(shape) for shape in parsed.shapes):
        raise NotCanonical("member names out of order")


def _sorted_by_utf_16(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _refuse_long_strings(parsed: Parsed, data: bytes, most: int) -> None:
    half = most // 2
    starts = range(0, len(data) - half + 1, half)
    # A string longer than the limit covers an aligned half of the limit without a quote, or it holds escapes.
    if (b"\\" in data or any(data.find(b'"', start, start + half) < 0 for start in starts)) and any(
        len(text) * 4 > most and len(text.encode()) > most for text in parsed.names | parsed.texts
    ):
        raise NotCanonical(f"a string of more than {most} bytes")


def _refuse_unaccounted(parsed: Parsed, text: str) -> None:
    """Quotes and spaces of the text that no string of the value accounts for."""
    quotes = text.count('"') - 2 * (sum(map(len, parsed.objects)) + parsed.strings)
    if not quotes and " " not in text:
        return
    values = [item for level in parsed.levels for item in level if type(item) is str]
    everything = "\n".join(chain(values, chain.from_iterable(parsed.objects)))
    if quotes and quotes != everything.count('"'):
        raise NotCanonical("a member name given twice")
    if text.count(" ") != everything.count(" "):
        raise NotCanonical("white space between tokens")


def _is_plain(value: object) -> bool:
    """Whether the C writer gives the canonical bytes; ValueError where there are none."""
    pending, plain = [value], True
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if not all(type(name) is str for name in item):
                raise ValueError("a member name that is no string")
            plain = plain and all(map(str.isascii, item))
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        elif type(item) is float:
            plain = False
        elif type(item) is int:
            _refuse_large(item)
        elif not (item is None or type(item) in (str, bool)):
            raise ValueError(f"{type(item).__name__} has no JSON form")
    return plain


def _refuse_large(value: int) -> None:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise ValueError("an integer outside +-(2^53-1)")


def _written(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        separator = "{"
        for name in _sorted_by_utf_16(value):
            yield f"{separator}{_quoted(name)}:"
            yield from _written(value[name])
            separator = ","
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            yield separator
            yield from _written(item)
            separator = ","
        yield "]" if value else "[]"
    elif isinstance(value, float):
        if not isfinite(value):
            raise ValueError("a number that is not finite has no JSON form")
        yield number(value)
    else:
        yield _quoted(value)


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # noqa: TID251 - this is the canonical module

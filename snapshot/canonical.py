"""Canonical JSON (RFC 8785), read strictly and written (format.md 4, 5, 10).

    parse       bytes that must be canonical -> Parsed: the value, and what a walk over it found
    loads       the same, the value alone
    reread      the value of bytes that `parse` has passed before
    survey      a value that did not come from bytes -> Parsed
    dumps       a value -> its canonical bytes
    dumps_flat  the same of one object of strings, integers and sequences of strings, as envelopes are
    join        the same of one object whose members are written already

How `parse` knows that bytes are canonical without writing the value again: what is not canonical in valid JSON leaves
a trace. White space other than the space is never inside a string, so it must not occur. With all strings cut out, no
space may be left, and the colons left must be as many as the members (a member given twice is a name lost). Numbers
are compared as they are read, escapes as a set, and names must ascend. So a section is parsed once, in C, and its
values are never visited one by one. A limit that a text is too short to go beyond costs nothing.

Why canonical at all: a hash is over bytes, and two values that are equal must have equal hashes, or an increment could
not be compared with the document that it leads to. Why it is refused, and not made canonical on reading: who signed
other bytes meant other bytes, and two parsers that repair differently read two documents under one signature.

Example. `{"a":1.0}` is valid JSON with the value that `{"a":1}` has, and is refused: RFC 8785 writes 1. So are
`{"b":1,"a":2}` (names in disorder), `{"a":1,"a":2}` (a name twice), `"\\u0041"` (an escape without need), a byte
order mark, and a line's end after the last brace.

Rejected:

- Write the parsed value again and compare the bytes: simple, and three times the time and memory on every section that
  a node reads. It is what the tests hold this module to.
- A parser of our own: it would be slow in Python, and a second opinion on what JSON is.
- A canonical CBOR: no shell, browser or editor of our users reads it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import isfinite
from typing import NamedTuple

from snapshot.identifiers import MAX_INTEGER
from snapshot.limits import DEFAULT, Limits

_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL)
# Also one without an end, to the end of the text: else each of its quotes would be tried as a beginning.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_COUNTED = bytes(set(range(256)) - set(b'[]{}:," '))
_NOT_STRUCTURE = _NOT_COUNTED + b","
# Writes in C: the canonical bytes wherever there is no float and no name beyond ASCII.
_PLAIN = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_NAMES = frozenset({str})
_SIMPLE = frozenset({str, bool, type(None)})  # types of values that are written as they are
_FLAT = frozenset({str, int, tuple, type(None)})
_SHORT_ESCAPES = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
_CANONICAL_ESCAPES = {r"\"", r"\\"} | {_SHORT_ESCAPES.get(code, f"\\u{code:04x}") for code in range(32)}


class NotCanonical(ValueError):
    """Bytes that are no JSON, no canonical JSON, or beyond a limit. The text never quotes them."""


class Parsed(NamedTuple):
    """A value read from canonical bytes. A tuple, since one is made for each section."""

    value: object
    text: str  # what it was read from
    objects: list[dict[str, object]]  # every object at any depth
    names: set[str]  # of their members

    def strings(self) -> Iterator[str]:
        """Every string at any depth, member names included, each as often as it stands there."""
        for level in self._levels():
            yield from (item for item in level if isinstance(item, str))
            yield from chain.from_iterable(item for item in level if isinstance(item, dict))

    def empty_containers(self) -> int:
        return sum(item in ({}, []) for level in self._levels() for item in level)

    def _levels(self) -> Iterator[list[object]]:
        """All values by depth: the value itself, what it holds, what those hold ..."""
        level: list[object] = [self.value]
        while level:
            yield level
            objects = chain.from_iterable(item.values() for item in level if isinstance(item, dict))
            level = [*objects, *chain.from_iterable(item for item in level if isinstance(item, list))]


def survey(value: object) -> Parsed:
    """What `parse` would give for a value's own canonical bytes, whatever its size."""
    return _parse(dumps(value).decode())[0]


def loads(data: bytes, limits: Limits = DEFAULT, *, depth: int | None = None) -> object:
    return parse(data, limits, depth=depth).value


def reread(data: bytes) -> object:
    """The value of what was judged when it came, as a stored section is that was verified: nothing is judged again, in
    a quarter of the time. NotCanonical for what is no JSON.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise NotCanonical("not JSON") from None


def parse(data: bytes, limits: Limits = DEFAULT, *, depth: int | None = None) -> Parsed:
    """The value of canonical `data` within the limits on depth, values and strings; NotCanonical otherwise."""
    text = _decode(data)
    _refuse_too_many_containers(text, limits.json_values)
    parsed, shapes = _parse(text)
    may_be_too_many = len(data) >= 2 * limits.json_values  # each has a character, and one that parts it from the next
    structure = _structure(data, _NOT_COUNTED if may_be_too_many else _NOT_STRUCTURE)
    if b" " in structure:
        raise NotCanonical("white space between tokens")
    if structure.count(b":") != sum(map(len, parsed.objects)):
        raise NotCanonical("a member name given twice")
    _refuse_depth(structure, limits.json_depth if depth is None else depth)
    if may_be_too_many:
        _refuse_too_many_values(parsed, structure, limits.json_values)
    _refuse_other_escapes(text)
    _refuse_disorder(shapes, text)
    _refuse_long_strings(parsed, data, limits.string_bytes)
    return parsed


def dumps(value: object) -> bytes:
    """The canonical bytes of a value of dict, list, str, int, float, bool and None; ValueError for any other."""
    if _is_plain(value):
        return _PLAIN.encode(value).encode()
    return "".join(_tokens(value)).encode()


def dumps_flat(members: Mapping[str, str | int | tuple[str, ...] | None]) -> bytes:
    """The canonical bytes of an object whose names are ASCII, and whose values are of these types exactly; of any other
    as `dumps` has it. Half of its time, which goes into looking at each value.
    """
    kinds = set(map(type, members.values()))
    if not kinds <= _FLAT:
        return dumps(members)
    for value in members.values():
        if type(value) is int:
            _refuse_large(value)
        elif type(value) is tuple and not _NAMES.issuperset(map(type, value)):
            return dumps(members)
    return _PLAIN.encode(members).encode()


def join(members: Mapping[str, str]) -> str:
    """The canonical text of an object. `members`: by name the canonical text of the value; the names are of ids, as
    scopes and sections are, and need no escapes.
    """
    return "{" + ",".join([f'"{name}":{members[name]}' for name in sorted(members)]) + "}"


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


def _decode(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise NotCanonical("not UTF-8") from None
    if "\t" in text or "\n" in text or "\r" in text:
        raise NotCanonical("white space between tokens, or a control character that is not escaped")
    return text


def _refuse_too_many_containers(text: str, most: int) -> None:
    """Before a large text is parsed, since it can ask for much memory (threats, fact 7); scalars cost little."""
    if len(text) > 8 * most and text.count("[") + text.count("{") > most:
        bare = _STRING.sub("0", text)
        if bare.count("[") + bare.count("{") > most:
            raise NotCanonical(f"more than {most} values")


def _integer(token: str) -> int:
    value = int(token) if len(token) <= 17 else MAX_INTEGER + 1
    if token == "-0" or abs(value) > MAX_INTEGER:
        raise NotCanonical("an integer outside +-(2^53-1), or minus zero")
    return value


def _float(token: str) -> float:
    value = float(token)
    if not isfinite(value) or number(value) != token:
        raise NotCanonical("a number in another form than the canonical one")
    return value


def _constant(token: str) -> object:
    raise NotCanonical(f"{token} is no JSON")


class _Judged(dict[str, float]):
    """Number tokens already judged, since documents repeat them; bounded, and the same for all."""

    def __init__(self, judge: Callable[[str], float]) -> None:
        super().__init__()
        self.judge = judge

    def __missing__(self, token: str) -> float:
        value = self.judge(token)
        if len(self) >= 10_000:
            self.clear()
        self[token] = value
        return value


_INTEGERS = _Judged(_integer)
_FLOATS = _Judged(_float)


def _parse(text: str) -> tuple[Parsed, set[tuple[str, ...]]]:
    """And the shapes of its objects: the distinct tuples of their names, as they were read."""
    objects: list[dict[str, object]] = []

    def collect(item: dict[str, object]) -> dict[str, object]:
        objects.append(item)
        return item

    decoder = json.JSONDecoder(
        object_hook=collect,
        parse_int=_INTEGERS.__getitem__,
        parse_float=_FLOATS.__getitem__,
        parse_constant=_constant,
    )
    try:
        value, end = decoder.raw_decode(text)
    except NotCanonical:
        raise
    except RecursionError:
        raise NotCanonical("nested too deep") from None
    except ValueError:
        raise NotCanonical("not JSON") from None
    if end != len(text):
        raise NotCanonical("something follows the value")
    shapes = set(map(tuple, objects))
    return Parsed(value, text, objects, set(chain.from_iterable(shapes))), shapes


def _structure(data: bytes, other: bytes) -> bytes:
    """Valid JSON without its strings and all `other` bytes: the brackets, all as square ones, colons, and spaces."""
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    if data.count(b'"', 0, 1024) < 16:  # long strings: cheaper to cut at the quotes
        return b"".join(data.split(b'"')[::2]).translate(_SQUARE, other)
    # Two quotes side by side go without changing what is inside of a string and what is not.
    bare = data.translate(_SQUARE, other).replace(b'""', b"")
    return b"".join(bare.split(b'"')[::2])


def _refuse_depth(structure: bytes, most: int) -> None:
    """The innermost pairs go, level by level."""
    brackets = structure.translate(None, b":,")
    while brackets:
        if most == 0:
            raise NotCanonical("nested too deep")
        most -= 1
        brackets = brackets.replace(b"[]", b"")


def _refuse_too_many_values(parsed: Parsed, structure: bytes, most: int) -> None:
    """A value is the first of all, or the first after a bracket, or follows a comma."""
    commas, brackets = structure.count(b","), structure.count(b"[")
    if 1 + commas + brackets > most:
        filled = brackets - parsed.empty_containers()
        if 1 + commas + filled > most:
            raise NotCanonical(f"more than {most} values")


def _refuse_other_escapes(text: str) -> None:
    if "\\" in text and not _CANONICAL_ESCAPES.issuperset(_ESCAPE.findall(text)):
        raise NotCanonical("an escape in another form than the canonical one")


def _refuse_disorder(shapes: Iterable[tuple[str, ...]], text: str) -> None:
    """Names ascend by UTF-16 code units (RFC 8785, 3.2.3), which is by code point wherever there is only ASCII."""
    in_order: Callable[[Iterable[str]], list[str]] = sorted if text.isascii() else _by_utf_16
    for shape in shapes:
        if list(shape) != in_order(shape):
            raise NotCanonical("member names out of order")


def _by_utf_16(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _refuse_long_strings(parsed: Parsed, data: bytes, most: int) -> None:
    """A string is never longer than it is written. So one beyond the limit covers an aligned half of the limit in which
    no quote begins or ends one.
    """
    if len(data) <= most:
        return
    if b"\\" in data:
        data = data.replace(b"\\\\", b"..").replace(b'\\"', b"..")
    half = most // 2
    starts = range(0, len(data) - half + 1, half)
    if any(data.find(b'"', start, start + half) < 0 for start in starts) and any(
        len(string) * 4 > most and len(string.encode()) > most for string in parsed.strings()
    ):
        raise NotCanonical(f"a string of more than {most} bytes")


def _is_plain(value: object) -> bool:
    """Whether the C writer gives the canonical bytes; ValueError where there are none."""
    pending, plain = [value], True
    while pending:
        item = pending.pop()
        kind = type(item)
        if kind in _SIMPLE:
            continue
        if isinstance(item, dict):
            if not _NAMES.issuperset(map(type, item)):
                raise ValueError("a member name that is no string")
            plain = plain and "".join(item).isascii()
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        elif type(item) is int:
            _refuse_large(item)
        elif kind is float:
            plain = False
        else:
            raise ValueError(f"{kind.__name__} has no JSON form")
    return plain


def _refuse_large(value: int) -> None:
    if not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise ValueError("an integer outside +-(2^53-1)")


def _tokens(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        separator = "{"
        for name in _by_utf_16(value):
            yield f"{separator}{_quote(name)}:"
            yield from _tokens(value[name])
            separator = ","
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            yield separator
            yield from _tokens(item)
            separator = ","
        yield "]" if value else "[]"
    elif isinstance(value, float):
        if not isfinite(value) or (MAX_INTEGER < abs(value) < 1e21 and value.is_integer()):
            raise ValueError("a number that is not finite, or written as an integer outside +-(2^53-1)")
        yield number(value)
    else:
        yield _quote(value)


def _quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)  # noqa: TID251 - this is the canonical module

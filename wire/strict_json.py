"""JSON from outside, read strictly, canonical or not (rules X14, P6; threats D-56).

    parse_json(data, most)   the value, or BadMessageError

In UTF-8, at most `most` bytes, DEPTH containers open at once, no name twice, no NaN, and no float but where there may
be `fractions`. What a text or an
integer may be is said by the form of its member (forms.py).
"""

import json
import re

DEPTH = 16

# Also one without an end, to the end of the data: else each of its quotes would be tried as a beginning.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_ALL_BUT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'{}[]"')


class BadMessageError(ValueError):
    """A message out of form (rules K53: `bad_request`)."""


def parse_json(data: bytes, most: int, depth: int = DEPTH, *, fractions: bool = False) -> object:
    """The value; BadMessageError beyond so many bytes or levels, for a member given twice, and for what is no JSON."""
    if len(data) > most:
        raise BadMessageError(f"more than {most} bytes")
    if not _is_flat(data, depth) and _is_deep(data, depth):
        raise BadMessageError(f"nested too deep: more than {depth} objects and arrays are open at once")
    try:
        return (_WITH_FRACTIONS if fractions else _DECODER).decode(data.decode())
    except BadMessageError:
        raise
    except (ValueError, RecursionError) as error:
        raise BadMessageError("not JSON in UTF-8") from error


def _is_flat(data: bytes, depth: int) -> bool:
    """A quick look that is never wrong when it says yes; nearly all that is sent passes.

    Where nothing is escaped and no string holds a bracket, taking the innermost pairs off, `depth` times, leaves
    nothing of a shallow value. Whether a string holds one shows once all but brackets and quotes is cut out: then
    quotes are left that have no other beside them.
    """
    if b"\\" in data:
        return False
    structure = data.translate(None, _ALL_BUT_STRUCTURE).replace(b'""', b"")
    if b'"' in structure:
        return False
    for _ in range(depth):
        if not structure:
            return True
        structure = structure.replace(b"{}", b"").replace(b"[]", b"")
    return not structure


def _is_deep(data: bytes, depth: int) -> bool:
    """Looked at before parsing, brackets outside of strings alone."""
    if len(data.translate(None, _ALL_BUT_BRACKETS)) <= depth:
        return False
    opened = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", data)):
        opened += 1 if bracket in b"[{" else -1
        if opened > depth:
            return True
    return False


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadMessageError("a member name given twice")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if value - value != 0:
        raise BadMessageError("a number beyond all bounds")
    return value


def _no_number(_text: str) -> object:
    raise BadMessageError("a number that is no integer")


_WITH_FRACTIONS = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_number)
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_no_number, parse_constant=_no_number)

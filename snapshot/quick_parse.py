"""A quick yes about a section's canonical JSON, by orjson where that is installed.

    parse_quickly       of a signed section's bytes -> Parsed; None says nothing about them
    reread_quickly      of one that was judged when it came: its value

Bytes are canonical if what orjson reads from them it writes as these bytes again, names sorted: then no white space
stands between tokens, no name twice, none out of order, no escape in another form, and no integer beyond 2^53-1. With
one look at each value that takes three quarters of the time of `canonical.parse`. What orjson does otherwise than
RFC 8785 is looked at besides:

- A float must be one that orjson writes as `canonical.number` does: it writes 1.0 where we write 1.
- Names are sorted by code point, so none may lie beyond the Basic Multilingual Plane.
- A value is written again only if it is at most `DEEPEST` deep, which is less than a section may be: orjson up to
  3.11.5 closes arrays and objects without asking for room in its buffer (CVE-2025-67221), of which 30 bytes are left.
- A text that could hold a string or a number of values beyond the limits takes the usual way. That is from 64 KiB on,
  so that what orjson takes to write a value (eight times each string) stays small. So does one of less than
  `WORTH_IT`: orjson keeps names that it has met, and a node that had received 20,000 small sections held 2 MiB more,
  which lay between those.

All else goes to `canonical.parse`, which alone refuses, and alone says why. So there is one verdict on any bytes, and
one reason, with orjson and without it.

Only sections come here, when a trusted key's signature over them has held: what anybody may send (envelopes, heads,
messages) the standard library reads, as ever.

Rejected:

- msgspec: as fast, with a hook for floats, in Debian 13 too; but it takes 7 MiB of an agent that is to need 48.
- simdjson is in no Debian; ujson and rapidjson are hardly faster than the standard library, and less strict.
- orjson for everybody: Debian 12 has none.
- orjson to read, and then the checks of `canonical.parse`: those look at each number as it was written.
- to find depth and floats by searches in the text: exact ones take as long as the look at each value.
"""

from collections.abc import Iterable
from functools import cache
from itertools import chain
from types import ModuleType
from typing import Any

from snapshot.canonical import Parsed, number, reread
from snapshot.limits import DEFAULT, KIB, Limits

WORTH_IT = 2 * KIB
DEEPEST = 16
OLDEST = (3, 10)  # before 3.9.15 it has no limit on how deep it reads
_LAST_OF_PLANE = "\uffff"


def parse_quickly(data: bytes, limits: Limits = DEFAULT) -> Parsed | None:
    """What `canonical.parse` gives, `objects` in another order; None where that has to be asked."""
    orjson = _orjson()
    if orjson is None or data[:1] not in (b"{", b"[") or _may_be_too_large(data, limits):
        return None
    try:
        value = orjson.loads(data)
        objects = _objects(value, min(limits.json_depth, DEEPEST))
        if objects is None or orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER) != data:
            return None
        parsed = Parsed(value, data.decode(), objects, set().union(*objects))
    except (ValueError, TypeError):  # what orjson raises
        return None
    return parsed if parsed.text.isascii() or max("".join(parsed.names), default="") <= _LAST_OF_PLANE else None


def reread_quickly(data: bytes) -> object:
    """What `canonical.reread` gives of a stored section, in a quarter of its time where there is orjson."""
    orjson = _orjson() if len(data) >= WORTH_IT else None
    if orjson is None:
        return reread(data)
    try:
        return orjson.loads(data)
    except ValueError:
        return reread(data)


def _may_be_too_large(data: bytes, limits: Limits) -> bool:
    """No string is longer than the text, and each value has a character and one that parts it from the next."""
    return len(data) > limits.string_bytes or len(data) >= 2 * limits.json_values


@cache
def _orjson() -> ModuleType | None:
    """Loaded with the first section: an agent that starts answers before it reads one. A folder of that name, which an
    uninstalled one may leave behind, can be imported too, and has no version.
    """
    try:
        import orjson  # noqa: PLC0415

        version = tuple(map(int, orjson.__version__.split(".")[:2]))
    except (ImportError, AttributeError, ValueError):
        return None
    return orjson if version >= OLDEST else None


def _objects(value: object, deepest: int) -> list[dict[str, object]] | None:
    """All objects, level by level; None if there are more levels, or a float that orjson writes otherwise."""
    found: list[dict[str, object]] = []
    level: Iterable[Any] = [value]  # of these types exactly: a chain of `isinstance` takes half as long again
    for _ in range(deepest + 1):
        below: list[Iterable[object]] = []
        for item in level:
            kind = type(item)
            if kind is str or kind is int:
                continue
            if kind is dict:
                found.append(item)
                below.append(item.values())
            elif kind is list:
                below.append(item)
            elif kind is float and not _ALIKE[item]:
                return None
        if not below:
            return found
        level = chain.from_iterable(below)
    return None


class _Alike(dict[float, bool]):
    """Whether orjson writes a float as RFC 8785 does: of those looked at, since documents repeat them; bounded."""

    def __missing__(self, value: float) -> bool:
        orjson = _orjson()
        if len(self) >= 10_000:
            self.clear()
        self[value] = alike = orjson is not None and orjson.dumps(value) == number(value).encode()
        return alike


_ALIKE = _Alike()

"""Many names in little memory: a large scope has hundreds of thousands, and all that is asked is whether one is there.

few          they are kept as they are
many         8 bytes of a keyed hash each, sorted; the key is this process's own, so that nobody can look for a name
             that is taken for another one
"""

import os
from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Sequence
from hashlib import blake2b

FEW = 16
_KEY = os.urandom(16)


class Hashed:
    """Names as hashes."""

    def __init__(self, names: Iterable[str]) -> None:
        self._sorted = array("Q", sorted({_hash(name) for name in names}))

    def __len__(self) -> int:
        return len(self._sorted)

    def __contains__(self, name: object) -> bool:
        wanted = _hash(str(name))
        at = bisect_left(self._sorted, wanted)
        return at < len(self._sorted) and self._sorted[at] == wanted


class NameUnion:
    """All the names of several parts."""

    def __init__(self, parts: Sequence[Container[str]]) -> None:
        self._parts = parts

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)


def compact(names: Iterable[str]) -> Container[str]:
    found = frozenset(names)
    return found if len(found) <= FEW else Hashed(found)


def together(parts: Sequence[Container[str]]) -> Container[str]:
    """The names of all parts."""
    few = [part for part in parts if isinstance(part, frozenset)]
    many = [part for part in parts if not isinstance(part, frozenset)]
    united: frozenset[str] = frozenset().union(*few)
    return NameUnion([united, *many]) if many else united


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=_KEY).digest())

"""Raw secrets in files of raw sections (format.md 11), a section at a time.

    RawSections.take     the next section as it passes by
    RawSections.find     in the files that they are parts of, once it is known which these are

A section is looked through when it passes, and let go. What may be half of a secret at its borders is kept, to be put
together in the order of the file: little of most, since no pattern reaches over a character that it cannot hold.
Rejected: to read the sections again in the order of the file, since a stream of bytes cannot be read again.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

from snapshot.frozen import frozen
from snapshot.secrets import find_shape

LONGEST = 4096  # bytes of a match that must be found across a border

# What a pattern may reach over; any byte beyond ASCII may be a part of white space.
_REACHED = re.compile(rb"[-\sA-Za-z0-9_+/=.\\\x1c-\x1f\x80-\xff]*")
# What the authority of a URL may not hold, and one whose beginning lies before, up to the last `@`.
_DELIMITER = re.compile(rb"[/?#\s\x1c-\x1f]")
_AUTHORITY = re.compile(rb"/{0,2}[^/?#\s\x1c-\x1f]*@")


@frozen
class Borders:
    """What is left of a section: the detector of what it holds itself; its head and tail, or all of a small one."""

    detector: str | None
    head: bytes
    tail: bytes | None  # None: the head is all of it


class RawSections:
    """The raw sections of one document."""

    def __init__(self) -> None:
        self._borders: dict[str, Borders] = {}

    def take(self, name: str, data: bytes, *, is_alone: bool = False) -> None:
        """`is_alone`: it is known to be all of its file."""
        if is_alone:
            self._borders[name] = Borders(find_shape(_text(data, is_end=True)), b"", None)
        else:
            self._borders[name] = _borders(data)

    def find(self, sections: Iterable[str], read: Callable[[str], bytes]) -> str | None:
        """The detector of the first secret in a file of these sections; `read` gives one that was not taken."""
        borders = [self._borders.get(name) or _borders(read(name)) for name in sections]
        found = (border.detector for border in borders)
        return next((match for match in (*found, *map(find_shape, _seams(borders))) if match), None)


def _borders(data: bytes) -> Borders:
    """Its own text is searched as one that goes on in both directions: what begins at its first byte, or ends at its
    last, its seams find.
    """
    detector = find_shape("a" + _text(data, is_end=False))
    head_end, tail_start = _head_end(data), _tail_start(data)
    is_small = len(data) <= LONGEST and (head_end >= tail_start or not _DELIMITER.search(data.lstrip(b"/")))
    return Borders(detector, data, None) if is_small else Borders(detector, data[:head_end], data[tail_start:])


def _head_end(data: bytes) -> int:
    """How far a pattern may reach that began before; with the character at which it ends."""
    reached = _REACHED.match(data, 0, LONGEST)
    authority = _AUTHORITY.match(data, 0, LONGEST)
    ends = [match.end() for match in (reached, authority) if match]
    return min(max(ends) + 1, LONGEST, len(data))


def _tail_start(data: bytes) -> int:
    """From where a pattern may reach beyond the end; with the character before it."""
    window = data[-LONGEST:]
    reached = _REACHED.match(window[::-1])
    start = len(window) - (reached.end() if reached else 0) - 1
    authority = window.rfind(b"//")
    if authority >= 0 and not _DELIMITER.search(window, authority + 2):
        start = min(start, max(authority - 1, 0))  # a `:` before it may count
    return len(data) - len(window) + max(start, 0)


def _seams(borders: Iterable[Borders]) -> Iterator[str]:
    """The texts around the borders of a file's sections, its beginning and its end among them."""
    before, text = "", b""
    for border in borders:
        text += border.head
        if border.tail is not None:
            yield before + _text(text, is_end=False)
            before, text = "a", border.tail  # something stands before it
    yield before + _text(text, is_end=True)


def _text(data: bytes, *, is_end: bool) -> str:
    """Each byte that is not UTF-8 as one character that is no letter or digit; half a character may go on."""
    return codecs.getincrementaldecoder("utf-8")("surrogateescape").decode(data, is_end)

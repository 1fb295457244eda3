"""What the head of a request says. h11 alone decides what is one, and what its header lines come to.

Callers send the same lines again and again, and the verdict on them follows from their bytes: so h11 is asked once, and
its answer is remembered by exactly these bytes. A request line is read here where it is of the plainest kind, as one
expression that says less than h11's own. All else goes through h11 each time: lines that ask for something of the
connection (`Connection`, `Expect`, `Upgrade`, a body in chunks), other methods, HTTP/1.0, and whatever h11 refuses, so
that its refusal is what callers are told. A faster parser (llhttp) instead would read some heads otherwise than the
one that is kept for the rest, and than the agent's; two that disagree on where a request ends is how one is smuggled.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import h11

MOST_LINES = 1024  # bytes of lines that are remembered; nodes send some 150
LINES_REMEMBERED = 512

_REQUEST_LINE = re.compile(rb"(GET|POST|HEAD|PUT|DELETE) ([\x21-\x7e]+) HTTP/1\.1")
_ANY = b"GET / HTTP/1.1\r\n"
_OF_CONNECTION = frozenset({b"connection", b"expect", b"upgrade", b"transfer-encoding"})


class HeaderLines(NamedTuple):
    """`length`: the Content-Length. `framings`: how many headers say where the body ends. `has_body` may be wrong where
    there are several. `misleading`: Host and Origin (threats U12).
    """

    headers: tuple[tuple[bytes, bytes], ...]
    length: int | None
    framings: int
    has_body: bool
    closes: bool
    misleading: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def read(cls, headers: Iterable[tuple[bytes, bytes]]) -> "HeaderLines":
        """Of what h11 has taken: names in lower case, one Content-Length at most, and that a number."""
        length, framings, has_body, closes = None, 0, False, False
        read = tuple((bytes(name), bytes(value)) for name, value in headers)
        for name, value in read:
            if name == b"content-length":
                length = int(value)
                has_body = has_body or length > 0
                framings += 1
            elif name == b"transfer-encoding":
                has_body = True
                framings += 1
            elif name == b"connection":
                closes = closes or b"close" in [word.strip() for word in value.lower().split(b",")]
        misleading = tuple(line for line in read if line[0] in (b"host", b"origin"))
        return cls(read, length, framings, has_body, closes, misleading)


class RequestHead(NamedTuple):
    method: str
    target: bytes
    version: bytes
    lines: HeaderLines

    @classmethod
    def of(cls, event: h11.Request) -> "RequestHead":
        return cls(event.method.decode(), event.target, event.http_version, HeaderLines.read(event.headers))

    @property
    def keeps_alive(self) -> bool:
        return self.version >= b"1.1" and not self.lines.closes


def plain_head(data: bytes, end: int) -> RequestHead | None:
    """Of the head that ends at `end`, with an empty line. None: h11 is to read it."""
    first = data.find(b"\r\n")
    if end - first > MOST_LINES:
        return None
    line = _REQUEST_LINE.fullmatch(data, 0, first)
    lines = None if line is None else plain_lines(data[first + 2 : end])
    if line is None or lines is None:
        return None
    method, target = line.groups()
    return RequestHead(method.decode(), target, b"1.1", lines)


@lru_cache(maxsize=LINES_REMEMBERED)
def plain_lines(block: bytes) -> HeaderLines | None:
    """All header lines of a request and the empty one. None where h11 refuses them, or sees an earlier end."""
    asked = h11.Connection(h11.SERVER, max_incomplete_event_size=len(_ANY) + MOST_LINES)
    asked.receive_data(_ANY + block)
    try:
        event = asked.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Request) or asked.trailing_data[0]:
        return None
    lines = HeaderLines.read(event.headers)
    return None if any(name in _OF_CONNECTION for name, _ in lines.headers) else lines

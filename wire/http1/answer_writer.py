"""The bytes of one answer. No I/O.

Its framing is ours alone: a body that is at hand has a Content-Length, one that is streamed the length that its handler
gives, or it comes in chunks; to HTTP/1.0, which knows no chunks, it ends with the connection. h11 would write the same,
and look at every header twice for it, which was a tenth of a heartbeat.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from functools import lru_cache
from http import HTTPStatus

NO_BODY = frozenset({204, 304})
_END_OF_CHUNKS = b"0\r\n\r\n"
_OF_CONNECTION = frozenset({"transfer-encoding", "connection", "upgrade", "trailer"})
_HEADER_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*+")
_STARTS = {status.value: b"HTTP/1.1 %d %s\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}


class AnswerWriter:
    """To a request of this HTTP version, or to what was none. ValueError for what HTTP does not allow a handler, before
    anything of it is written.

    `closes`: the connection ends with it. `begun`: whether something of it may be out. `ended`: whether all of it is.
    """

    __slots__ = ("_chunked", "_left", "begun", "closes", "ended", "is_head", "old")

    def __init__(self, *, is_head: bool = False, old: bool = False, closes: bool = False) -> None:
        self.is_head = is_head
        self.old = old
        self.closes = closes
        self.begun = False
        self.ended = False
        self._left: int | None = None
        self._chunked = False

    def whole(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bytes:
        """A complete answer, of a body that is at hand."""
        lines, given = self._lines_of(headers)
        if given is not None and given != len(body):
            raise ValueError("a Content-Length that the body has not")
        start = _start_of(status, self.closes)
        self.begun = self.ended = True
        if status in NO_BODY:
            return b"%b%b\r\n" % (start, lines)
        return b"%bcontent-length: %d\r\n%b\r\n%b" % (start, len(body), lines, b"" if self.is_head else body)

    def start(self, status: int, headers: Sequence[tuple[str, str]]) -> bytes:
        """The head of an answer whose body follows in pieces, where it has one."""
        lines, given = self._lines_of(headers)
        framing = b""
        if status in NO_BODY:
            self._left = 0
        elif given is not None:
            framing, self._left = b"content-length: %d\r\n" % given, given
        elif self.old:
            self.closes = True
        else:
            framing, self._chunked = b"transfer-encoding: chunked\r\n", True
        self.begun = True
        return b"%b%b%b\r\n" % (_start_of(status, self.closes), framing, lines)

    def piece(self, data: bytes) -> bytes:
        if not data or not self._sends_body:
            return b""
        if self._chunked:
            return b"%x\r\n%b\r\n" % (len(data), data)
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise ValueError("more of a body than its Content-Length")
        return data

    def end(self) -> bytes:
        if self._left and self._sends_body:
            raise ValueError("less of a body than its Content-Length")
        self.ended = True
        return _END_OF_CHUNKS if self._chunked and self._sends_body else b""

    @property
    def _sends_body(self) -> bool:
        return not self.is_head

    def _lines_of(self, headers: Sequence[tuple[str, str]]) -> tuple[bytes, int | None]:
        if self.begun:
            raise ValueError("a second answer to one request")
        return _lines_of(tuple(headers))


async def pieces_of(body: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces, and the source is closed with it, in the task that used it."""
    try:
        async for piece in body:
            yield piece
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


@lru_cache(maxsize=256)
def _start_of(status: int, closes: bool) -> bytes:
    start = _STARTS.get(status) or b"HTTP/1.1 %d \r\n" % status
    return start + b"connection: close\r\n" if closes else start


@lru_cache(maxsize=256)
def _lines_of(headers: Sequence[tuple[str, str]]) -> tuple[bytes, int | None]:
    """The lines, and the Content-Length that is among them. Few differ: answers of one kind share them."""
    names = {name.lower() for name, _ in headers}
    if names & _OF_CONNECTION:
        raise ValueError("a header that is the connection's own")
    given = {_length(value) for name, value in headers if name.lower() == "content-length"}
    if len(given) > 1:
        raise ValueError("two lengths of one body")
    lines = [f"{name}: {value}\r\n" for name, value in headers if name.lower() != "content-length"]
    written = "".join(lines).encode("latin-1")
    # As many lines as headers: a value with a line of its own would match, too.
    if written.count(b"\r\n") != len(lines) or not _HEADER_LINES.fullmatch(written):
        raise ValueError("a header of the handler's that HTTP does not allow")
    return written, next(iter(given), None)


def _length(value: str) -> int:
    if not (value.isascii() and value.isdigit()):
        raise ValueError("a Content-Length that is no number")
    return int(value)

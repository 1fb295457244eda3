"""The head of an answer, and the pieces of a streamed one.

h11 is told what it must know: the status and the headers that decide how the message is framed. The other lines go in
before the head's end, checked at once, which costs a fifth of h11's checks one by one.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterable
from functools import lru_cache
from http import HTTPStatus

import h11

from wire.request import Headers

END = h11.EndOfMessage()
NO_BODY = frozenset({204, 304})

Framing = tuple[tuple[bytes, bytes], ...]

_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})
_HEADER_LINES = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\x80-\xff]*\r\n)*+")
_PHRASES = {status.value: status.phrase.encode() for status in HTTPStatus}


@lru_cache(maxsize=4096)
def start_of(status: int, framing: Framing) -> h11.Response:
    """Events do not change, and few differ: sections keep their sizes."""
    return h11.Response(status_code=status, headers=list(framing), reason=_PHRASES.get(status, b""))


def framing_of(status: int, headers: Headers, length: int | None, *, close: bool) -> Framing:
    """`length` is None where the body is streamed: it is chunked unless the handler has given its length."""
    framing = tuple((name.encode(), value.encode()) for name, value in headers if name.lower() in _FRAMING)
    if length is not None and status not in NO_BODY:
        framing = (*framing, (b"content-length", b"%d" % length))
    return (*framing, (b"connection", b"close")) if close else framing


def lines_of(headers: Headers) -> bytes:
    """The lines of the other headers; ValueError for what HTTP does not allow."""
    lines = [f"{name}: {value}\r\n" for name, value in headers if name.lower() not in _FRAMING]
    written = "".join(lines).encode("latin-1")
    # As many lines as headers: a value with a line of its own would match, too.
    if written.count(b"\r\n") != len(lines) or not _HEADER_LINES.fullmatch(written):
        raise ValueError("a header of the handler's that HTTP does not allow")
    return written


async def pieces_of(body: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces, and the source is closed with it, in the task that used it."""
    try:
        async for piece in body:
            yield piece
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()

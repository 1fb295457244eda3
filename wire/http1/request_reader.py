"""Requests out of the bytes of one connection. No I/O: who reads gives the bytes, and asks what they come to.

A request whose head is known (request_head.py) is its lines and as many bytes of body as they announce: counting them
needs no parser. Each other one is read by an h11 of its own, from its first byte to the end of its body; what came
after that is handed on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto

import h11

from wire.http1.request_head import RequestHead, plain_head


class Ahead(Enum):
    """What stands where a head could."""

    UNFINISHED = auto()  # more bytes are needed
    OVER = auto()  # the caller has ended the connection between two requests


class RequestReader:
    """`most`: bytes of a head that has not come to its end. Raises h11.RemoteProtocolError for what is no HTTP/1.1;
    nothing can be read after that.
    """

    __slots__ = ("_data", "_http", "_left", "_most", "_over", "broken")

    def __init__(self, most: int) -> None:
        self.broken = False
        self._most = most
        self._data = b""
        self._over = False
        self._left = 0
        self._http: h11.Connection | None = None

    def receive(self, data: bytes) -> None:
        """b"" at the end of what the caller sends."""
        if self._http is not None:
            self._http.receive_data(data)
        elif data:
            self._data = self._data + data if self._data else data
        else:
            self._over = True

    def next_head(self) -> RequestHead | Ahead:
        if self._http is None:
            end = self._data.find(b"\r\n\r\n") + 4
            found = plain_head(self._data, end) if end >= 4 else None
            if found is not None:
                self._data = self._data[end:]
                self._left = found.lines.length or 0
                return found
            if not self._data:
                return Ahead.OVER if self._over else Ahead.UNFINISHED
            self._http = self._ask_h11()
        event = self._event(self._http)
        if event is h11.NEED_DATA:
            return Ahead.UNFINISHED
        if not isinstance(event, h11.Request):
            return Ahead.OVER
        with self._judging():
            head = RequestHead.of(event)
        if not head.lines.has_body:
            self._event(self._http)  # the end of the message, which h11 would otherwise hold back
        return head

    @property
    def is_in_body(self) -> bool:
        """Whether there is, or may be, more of the body."""
        return self._left > 0 if self._http is None else self._http.their_state is h11.SEND_BODY

    @property
    def has_more(self) -> bool:
        """Whether something of the next request is here already."""
        return bool(self._data)

    @property
    def waits_for_continue(self) -> bool:
        """The caller sends no body before it is asked for it."""
        return self._http is not None and self._http.they_are_waiting_for_100_continue

    def ask_for_body(self) -> bytes:
        """What says so to the caller."""
        if self._http is None:
            return b""
        return self._http.send(h11.InformationalResponse(status_code=100, headers=[])) or b""

    def next_piece(self) -> bytes | None:
        """Of the body; b"" at its end, None where more bytes are needed."""
        if self._http is not None:
            return self._piece_of(self._http)
        if not self._left:
            return b""
        if not self._data:
            if self._over:
                self.broken = True
                raise h11.RemoteProtocolError("the caller has left before the end of the body")
            return None
        piece, self._data = self._data[: self._left], self._data[self._left :]
        self._left -= len(piece)
        return piece

    def finish(self) -> None:
        """The request is read and answered: what comes next is another."""
        if self._http is not None:
            self._data, self._over = self._http.trailing_data
            self._http = None

    def _ask_h11(self) -> h11.Connection:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=self._most)
        http.receive_data(self._data)
        if self._over:
            http.receive_data(b"")
        self._data = b""
        return http

    def _piece_of(self, http: h11.Connection) -> bytes | None:
        if http.their_state is not h11.SEND_BODY:
            return b""
        event = self._event(http)
        if event is h11.NEED_DATA:
            return None
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    def _event(self, http: h11.Connection) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
        with self._judging():
            return http.next_event()

    @contextmanager
    def _judging(self) -> Iterator[None]:
        try:
            yield
        except h11.RemoteProtocolError:
            self.broken = True
            raise
        except ValueError as error:  # h11 0.14 takes a Content-Length of more digits than Python reads
            self.broken = True
            raise h11.RemoteProtocolError("a Content-Length that is no number") from error

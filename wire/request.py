"""What a handler is given, what it gives back, and how it refuses."""

from collections.abc import AsyncIterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from snapshot import canonical
from wire.body_stream import BodyStream
from wire.http1.target import BadTarget, Target
from wire.messages import ErrorBody
from wire.peer import Peer

Headers = Sequence[tuple[str, str]]

JSON = ("content-type", "application/json")


class HttpError(Exception):
    """A refusal: status, a stable `code` for programs and a `message` for people (protocol.md 1).

    `retry_after` is in seconds; `step` and `remedy` go into the body where there are any. Over TLS the message says
    nothing that the caller may not know (rules X20).
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        step: int | None = None,
        remedy: str = "",
        retry_after: int | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.step = step
        self.remedy = remedy
        self.retry_after = retry_after
        self.headers = headers

    def response(self) -> "Response":
        headers = [JSON, *self.headers]
        if self.retry_after is not None:
            headers.append(("retry-after", str(self.retry_after)))
        body = ErrorBody(self.code, self.message, self.step, self.remedy or None)
        return Response(self.status, headers, body.to_bytes())


@dataclass(slots=True)
class Response:
    """`body` is all of it, or an iterator whose pieces are sent as they come (it is closed in any case)."""

    status: int = 200
    headers: Headers = ()
    body: bytes | AsyncIterable[bytes] = b""

    @classmethod
    def json(cls, value: object, status: int = 200, headers: Headers = ()) -> "Response":
        return cls(status, [JSON, *headers], canonical.dumps(value))


class Incoming(Protocol):
    """What a request needs of its connection."""

    def content_length(self) -> int | None:
        """The body's Content-Length, when it has one."""

    async def receive(self) -> bytes:
        """The next piece of the body; empty at its end."""

    def allow(self, seconds: float) -> None:
        """The request may take so long from now."""

    def waiting(self, *, yields: bool) -> AbstractContextManager[None]: ...


class Request:
    """One request of a caller whose connection has been let in. Only the connection makes one (rules J2)."""

    __slots__ = (
        "_body",
        "_headers",
        "_incoming",
        "_received",
        "_target",
        "body_limit",
        "method",
        "parameters",
        "peer",
    )

    def __init__(
        self,
        method: str,
        target: Target,
        headers: Sequence[tuple[bytes, bytes]],
        peer: Peer,
        incoming: Incoming,
    ) -> None:
        self.method = method
        self.peer = peer
        self.parameters: dict[str, str] = {}
        self.body_limit = 0
        self._target = target
        self._headers = headers
        self._incoming = incoming
        self._received = 0
        self._body: bytes | None = None

    @property
    def segments(self) -> tuple[str, ...]:
        return self._target.segments

    @property
    def path(self) -> str:
        """For logs: the decoded segments, joined again."""
        return "/" + "/".join(self._target.segments)

    def header(self, name: str) -> str | None:
        """The value of a header, `name` in lower case; given more than once, it is refused."""
        wanted = name.encode()
        found = [value for header, value in self._headers if header == wanted]
        if len(found) > 1:
            raise HttpError(400, "bad_request", f"the header {name} stands there more than once")
        return found[0].decode("latin-1") if found else None

    def query_all(self, name: str) -> tuple[str, ...]:
        try:
            return self._target.members.get(name, ())
        except BadTarget as error:
            raise HttpError(400, "bad_request", str(error)) from error

    def query_one(self, name: str) -> str | None:
        values = self.query_all(name)
        if len(values) > 1:
            raise HttpError(400, "bad_request", f"the query member {name} stands there more than once")
        return values[0] if values else None

    def query_integer(self, name: str, default: int, least: int, most: int) -> int:
        values = self.query_all(name)
        if not values:
            return default
        text = values[0] if len(values) == 1 else self.query_one(name)
        if text is not None and text.isascii() and text.isdigit() and len(text) <= 16:
            number = int(text)
            if least <= number <= most:
                return number
        raise HttpError(400, "bad_request", f"{name} must be an integer from {least} to {most}")

    def allow(self, seconds: float) -> None:
        """Its deadline from now on, where the handler knows better than its route how much work it is."""
        self._incoming.allow(seconds)

    def chunks(self, limit: int | None = None) -> BodyStream:
        """The body as it arrives; HttpError 413 as soon as it is known to be more than `limit` bytes."""
        return BodyStream(lambda: self._piece(limit))

    async def body(self, limit: int | None = None) -> bytes:
        """All of it, as often as it is asked for."""
        if self._body is None:
            pieces = []
            while piece := await self._piece(limit):
                pieces.append(piece)
            self._body = b"".join(pieces)
        return self._body

    async def _piece(self, limit: int | None) -> bytes:
        most = self.body_limit if limit is None else limit
        announced = self._incoming.content_length() or 0
        piece = await self._incoming.receive() if announced <= most else b""
        self._received += len(piece)
        if max(self._received, announced) > most:
            raise HttpError(413, "too_large", f"the body is larger than {most} bytes")
        return piece

    def waiting(self, *, yields: bool = False) -> AbstractContextManager[None]:
        """`with request.waiting(): await news` for a long poll: meanwhile the request holds no slot.

        If the caller goes away, the handler is cancelled; if the listener stops, it is too, and the caller is told.
        With `yields` the wait alone ends then, as if its time were over, and the handler answers.
        """
        return self._incoming.waiting(yields=yields)

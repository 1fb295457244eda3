"""One request and its answer over a stream, under every limit of a strict client (threats D-32, D-46).

h11 alone, since each deadline sits between two of its events, and since what a larger client adds (redirects,
decompression, cookies, the environment's proxies) is what must not happen here.
"""

import contextlib
from collections import deque
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import h11
import trio

from wire.body_stream import BodyStream
from wire.limits import LEAST_RATE
from wire.tls_contexts import alert_of, is_tls

READ_BYTES = 65536
BULK_BYTES = 256 << 10  # of a body whose length is announced: no head is in it that a larger read would let grow
WHOLE_BYTES = 65536  # a body up to here goes out with its head, in one piece
FAREWELL_S = 1.0  # as long as a server that has refused a body reads on
HEAD_BYTES = 16 * 1024
MAX_INFORMATIONAL = 8
RETRY_AFTER_MAX_S = 3600


class ClientFault(StrEnum):
    BAD_ENDPOINT = "bad_endpoint"
    CONNECT_FAILED = "connect_failed"
    TLS_FAILED = "tls_failed"
    UNKNOWN_CA = "unknown_ca"
    PEER_PIN_MISMATCH = "peer_pin_mismatch"
    UNTRUSTED_MIRROR = "untrusted_mirror"
    TIMED_OUT = "timed_out"
    TOO_SLOW = "too_slow"
    TOO_LARGE = "too_large"
    TRUNCATED = "truncated"
    REDIRECTED = "redirected"
    ENCODED = "encoded"
    BAD_ANSWER = "bad_answer"
    REFUSED = "refused"


class ClientError(Exception):
    """A request that has no answer to go by. For `refused`: the status, what the body says, and Retry-After in s."""

    def __init__(
        self,
        reason: ClientFault,
        detail: str,
        *,
        status: int | None = None,
        code: str = "",
        step: int | None = None,
        remedy: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.status = status
        self.code = code
        self.step = step
        self.remedy = remedy
        self.retry_after_s = retry_after_s


class StaleConnectionError(Exception):
    """A kept connection that was closed before the first byte of an answer: not sent, so far as we know (D-50)."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds, and bytes a second. A document of more than `total_bytes` has `total_s` in proportion."""

    connect_s: float = 5.0
    first_byte_s: float = 10.0
    silence_s: float = 30.0
    total_s: float = 120.0
    total_bytes: int = 4 << 20
    least_rate: int = LEAST_RATE
    rate_from_s: float = 10.0

    def next_piece(self, begun: float, received: int, announced: int | None, now: float) -> float:
        """Until when the next piece must be here: an average rate, a silence and a total, whichever ends first."""
        size = max(received, announced or 0, self.total_bytes)
        total = begun + self.total_s * size / self.total_bytes
        rate = begun + max(self.rate_from_s, received / self.least_rate)
        return min(total, rate, now + self.silence_s)


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked. `wait_s`: what a long poll adds to the first byte's deadline. `limit`: bytes of body at most."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes | AsyncIterable[bytes] = b""
    wait_s: float = 0.0
    limit: int = 1 << 20


class Exchange:
    """`stream` belongs to it from now on; `reusable` says afterwards whether it may serve another one."""

    def __init__(self, stream: trio.abc.Stream, authority: str, deadlines: Deadlines) -> None:
        self._stream = stream
        self._authority = authority
        self._deadlines = deadlines
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._call = Call("GET", "/")
        self._ahead: deque[h11.Event | type[h11.PAUSED]] = deque()
        self._answer_begun = False
        self._in_body = False
        self._ended = False
        self._begun = 0.0
        self._received = 0
        self.used = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self.announced: int | None = None

    @property
    def reusable(self) -> bool:
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return done and not self._http.trailing_data[0]

    async def begin(self, call: Call) -> None:
        """Sends the request and reads the head of the answer; ClientError for an answer that is not to be read on."""
        if self.used:
            self._http.start_next_cycle()
        self._call = call
        self._ahead.clear()
        self._answer_begun = self._in_body = False
        await self._send(call)
        with trio.move_on_after(self._deadlines.first_byte_s + call.wait_s) as scope:
            self._read_head(await self._head())
        if scope.cancelled_caught:
            raise ClientError(ClientFault.TIMED_OUT, "no answer in time")
        self.used = True
        self._begun = trio.current_time()
        self._received = 0
        self._in_body = True
        self._judge_head()

    def chunks(self) -> BodyStream:
        """The body as it arrives, never more of it than the limit."""
        return BodyStream(self._next_piece)

    async def _next_piece(self) -> bytes:
        now = trio.current_time()
        deadline = self._deadlines.next_piece(self._begun, self._received, self.announced, now)
        with trio.move_on_at(deadline) as scope:
            event = await self._event()
        if scope.cancelled_caught:
            raise ClientError(ClientFault.TOO_SLOW, f"{self._received} bytes in {deadline - self._begun:.0f} s")
        if not isinstance(event, h11.Data):
            return b""
        self._received += len(event.data)
        if self._received > self._call.limit:
            raise ClientError(ClientFault.TOO_LARGE, f"more than {self._call.limit} bytes")
        return bytes(event.data)

    def _start(self, call: Call) -> h11.Request:
        headers = [("host", self._authority), ("accept-encoding", "identity"), *call.headers]
        if not isinstance(call.body, bytes):
            headers.append(("transfer-encoding", "chunked"))
        elif call.body:
            headers.append(("content-length", str(len(call.body))))
        return h11.Request(method=call.method, target=call.target, headers=headers)

    async def _send(self, call: Call) -> None:
        if not isinstance(call.body, bytes):
            await self._write(self._http.send(self._start(call)))
            await self._send_pieces(call.body)
        elif len(call.body) > WHOLE_BYTES:
            await self._send_while_listening(call, call.body)
        else:
            parts = [
                self._http.send(self._start(call)),
                self._http.send(h11.Data(data=call.body)) if call.body else b"",
            ]
            await self._write(b"".join([part or b"" for part in [*parts, self._http.send(h11.EndOfMessage())]]))

    async def _send_pieces(self, pieces: AsyncIterable[bytes]) -> None:
        """A server that does not want all of it answers early and closes: then the answer says why."""
        try:
            async for piece in pieces:
                await self._write(self._http.send(h11.Data(data=piece)))
            await self._write(self._http.send(h11.EndOfMessage()))
        except (ClientError, StaleConnectionError) as error:
            if isinstance(error, ClientError) and error.reason is not ClientFault.CONNECT_FAILED:
                raise

    async def _send_while_listening(self, call: Call, body: bytes) -> None:
        """A server that does not want all of it answers early and closes, while the rest is on its way. Nothing can be
        read from a TLS connection that broke while it was written to, so that answer is read meanwhile, and whole.
        """
        fault = None
        await self._write(self._http.send(self._start(call)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._listen, nursery.cancel_scope)
            fault = await self._push(body)
            nursery.cancel_scope.deadline = trio.current_time() + (FAREWELL_S if fault else 0.0)
        if fault is not None and not self._ahead:
            raise fault

    async def _listen(self, sending: trio.CancelScope) -> None:
        """What is said while the body goes out; once it is all said, or cannot be, nothing need be sent any more."""
        size = 0
        with contextlib.suppress(ClientError, StaleConnectionError):
            while size <= self._call.limit:
                self._ahead.append(await self._next_event())
                if not isinstance(event := self._ahead[-1], h11.Response | h11.InformationalResponse | h11.Data):
                    break
                size += len(event.data) if isinstance(event, h11.Data) else 0
        sending.cancel()

    async def _push(self, body: bytes) -> ClientError | StaleConnectionError | None:
        """Why it did not all go out, or None."""
        try:
            for start in range(0, len(body), WHOLE_BYTES):
                await self._write(self._http.send(h11.Data(data=body[start : start + WHOLE_BYTES])))
            await self._write(self._http.send(h11.EndOfMessage()))
        except (ClientError, StaleConnectionError) as error:
            return error
        return None

    async def _head(self) -> h11.Response:
        for _ in range(MAX_INFORMATIONAL):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                break
        raise ClientError(ClientFault.BAD_ANSWER, "no answer, or too many informational ones")

    def _read_head(self, head: h11.Response) -> None:
        self.status = head.status_code
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        length = self.headers.get("content-length")
        self.announced = int(length) if length is not None else None

    def _judge_head(self) -> None:
        """What must not be read on, whatever the caller wants of it."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise ClientError(ClientFault.ENCODED, "the answer has a Content-Encoding")
        if 300 <= self.status < 400 and not (self.status == 304 and self._is_conditional()):
            raise ClientError(ClientFault.REDIRECTED, f"status {self.status}", status=self.status)
        if self.status < 300 and (self.announced or 0) > self._call.limit:
            raise ClientError(
                ClientFault.TOO_LARGE, f"{self.announced} bytes announced, at most {self._call.limit} wanted"
            )

    def _is_conditional(self) -> bool:
        return any(name.lower() == "if-none-match" for name, _ in self._call.headers)

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        return self._ahead.popleft() if self._ahead else await self._next_event()

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                await self._read()
        except h11.RemoteProtocolError as error:
            if self._ended:
                raise ClientError(ClientFault.TRUNCATED, "fewer bytes than announced") from error
            raise ClientError(ClientFault.BAD_ANSWER, "not an HTTP/1.1 answer within the limits") from error
        return event  # type: ignore[return-value]

    async def _read(self) -> None:
        try:
            data = await self._stream.receive_some(self._most_at_once())
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._failure(error) from error
        if not data and not self._answer_begun:
            raise self._failure(ConnectionResetError("closed before an answer"))
        self._answer_begun = True
        self._ended = not data
        self._http.receive_data(bytes(data))

    def _most_at_once(self) -> int:
        if not self._answer_begun:
            return HEAD_BYTES
        left = self.announced - self._received if self._in_body and self.announced is not None else 0
        return min(BULK_BYTES, max(READ_BYTES, left))

    async def _write(self, data: bytes | None) -> None:
        with trio.move_on_after(self._deadlines.silence_s) as scope:
            await self._send_all(data or b"")
        if scope.cancelled_caught:
            raise ClientError(ClientFault.TIMED_OUT, "the request is not taken")

    async def _send_all(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise self._failure(error) from error

    def _failure(self, error: BaseException) -> Exception:
        if self._answer_begun:
            return ClientError(ClientFault.TRUNCATED, alert_of(error))
        if is_tls(error):
            # Under TLS 1.3 our certificate is judged after our handshake has ended (threats, fact 14).
            return ClientError(ClientFault.TLS_FAILED, alert_of(error))
        if self.used:
            return StaleConnectionError()
        return ClientError(ClientFault.CONNECT_FAILED, alert_of(error))


def retry_after_s(headers: dict[str, str]) -> float | None:
    """The seconds of a Retry-After, bounded; the form with a date is passed over."""
    text = headers.get("retry-after", "").strip()
    if not (text.isascii() and text.isdigit()):
        return None
    return min(float(text[:6]), RETRY_AFTER_MAX_S)

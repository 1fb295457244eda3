"""One end of a TLS connection over a socket, for one task that reads and one that writes.

OpenSSL works between two buffers in memory; what is in them goes to and from the socket here. trio.SSLStream does the
same for any stream and any number of tasks, with locks and turns of the event loop for each of them: it took a quarter
of a heartbeat. It also refers to itself, and what OpenSSL keeps for it then waits for the collector of cycles, which
does not see it: strangers who came and went took half a GiB. Nothing here does. And it hands out a record at a time, at
most 16 KiB: of a document of a MiB that was 64 turns, and a third of what its download cost a node. Whoever asks for
more than a record gets what has come.

The socket is waited for before it is read, since a caller seldom has the next request ready; so whoever reads gives
others their turn; of records that came together, after `TURN_READS`. What is sent goes out at once where the kernel
takes it, and gives others theirs after `TURN_BYTES`.

TLS may have something to answer to what was read. Whoever reads sends that, and may be cancelled at it: what was read,
and what was not sent yet, then stay here for whoever comes next.
"""

import os
import ssl

import trio

READ_BYTES = 65536
RECORD_BYTES = 16384  # of TLS, at most
TURN_BYTES = 256 * 1024
TURN_READS = 8


class TlsStream(trio.abc.Stream):
    """`raw` belongs to it. A stream that has failed, or was cancelled while it sent, can only be closed.

    `host`: of a client, whom it means to speak to; without one it is a server's end.
    """

    __slots__ = (
        *("__weakref__", "_answered", "_fileno", "_incoming", "_is_sending", "_outgoing", "_raw", "_reads", "_sent"),
        *("_sound", "_tls", "_unsent", "_untaken", "_untold"),
    )

    def __init__(self, raw: trio.SocketStream, context: ssl.SSLContext, host: str | None = None) -> None:
        self._raw = raw
        self._fileno = raw.socket.fileno
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=host is None, server_hostname=host)
        self._sound = True
        self._is_sending = False
        self._untold: trio.BrokenResourceError | None = None  # met behind what was handed out
        self._untaken: bytes | None = None  # read by somebody who was cancelled then
        self._unsent: bytes | memoryview = b""  # of a record
        self._answered: trio.Event | None = None  # awaited by who sends beside an answer
        self._sent = 0
        self._reads = 0

    async def do_handshake(self) -> None:
        """BrokenResourceError where it fails; then `alert` says why to the other end."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill(READ_BYTES)
            except (ssl.SSLError, ssl.CertificateError) as error:
                self._sound = False
                raise trio.BrokenResourceError from error
            else:
                await self._flush()
                return

    def alert(self) -> bytes:
        """What TLS had to say last, and could not any more."""
        return self._outgoing.read()

    def peer_certificate(self) -> bytes | None:
        """DER."""
        return self._tls.getpeercert(binary_form=True)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """b"" where the other end has said that nothing more comes; BrokenResourceError where it stops without it.

        `max_bytes` beyond a record: of as many as have come.
        """
        most = max_bytes or RECORD_BYTES
        if self._untaken is None:
            self._check()
        self._reads += 1
        if self._reads > TURN_READS:
            self._reads = 0
            await trio.lowlevel.checkpoint()  # before anything is taken: a cancellation loses nothing
        while True:
            data = self._read(most)
            if (self._outgoing.pending or self._unsent) and not self._is_sending:
                data = await self._answer(data, most)
            if data is not None:
                return data
            await self._fill(most)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._check()
        if data:
            try:
                self._tls.write(data)
            except ssl.SSLError as error:
                self._sound = False
                raise trio.BrokenResourceError from error
        await self._flush()

    async def wait_send_all_might_not_block(self) -> None:
        self._check()
        await self._raw.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """Says that it ends, unless it is over already."""
        try:
            if self._sound and not self._is_sending:
                self._say_the_end()
                await self._flush()
        except trio.BrokenResourceError:
            pass
        finally:
            self._sound = False
            await self._raw.aclose()

    def _check(self) -> None:
        if self._untold is not None:
            untold, self._untold = self._untold, None
            raise untold
        if not self._sound:
            raise trio.ClosedResourceError("this TLS connection is over")

    def _read(self, most: int) -> bytes | None:
        """None: more of the other end is needed."""
        if self._untaken is not None:
            return self._take_up(most)
        data = self._read_record(most)
        if most <= RECORD_BYTES or not data:
            return data
        pieces, left = [data], most - len(data)
        while left > 0 and (piece := self._read_another(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _take_up(self, most: int) -> bytes:
        """What is here already."""
        data = self._untaken or b""
        self._untaken = data[most:] or None
        return data[:most]

    def _read_another(self, most: int) -> bytes | None:
        """What is wrong with it is told once those before it are handed out."""
        try:
            return self._read_record(most)
        except trio.BrokenResourceError as error:
            self._untold = error
            return None

    def _read_record(self, most: int) -> bytes | None:
        if not self._incoming.pending and not self._incoming.eof and not self._tls.pending():
            return None  # OpenSSL would say the same, at the price of an exception
        try:
            return self._tls.read(min(most, RECORD_BYTES))
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLError as error:
            self._sound = False
            raise trio.BrokenResourceError from error

    def _say_the_end(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            return  # nobody waits for the answer

    async def _fill(self, most: int) -> None:
        """What the socket has next, about so many bytes, once it has something."""
        self._sent = self._reads = 0
        while True:
            await trio.lowlevel.wait_readable(self._descriptor())
            if self._take(most):
                return

    def _take(self, most: int) -> bool:
        """What the socket has now; whether it had something, or its end."""
        taken = 0
        while taken < most:
            try:
                data = os.read(self._descriptor(), READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if taken:  # it is met again behind that
                    break
                self._sound = False
                raise trio.BrokenResourceError from error
            if not data:
                self._incoming.write_eof()
                return True
            self._incoming.write(data)
            taken += len(data)
            if len(data) < READ_BYTES:
                break
        return taken > 0

    async def _answer(self, data: bytes | None, most: int) -> bytes | None:
        """`data`: what was read with it, which is handed out whatever becomes of the answer."""
        if data is not None:
            self._untaken = data + (self._untaken or b"")
        try:
            await self._send_what_waits()
        except trio.BrokenResourceError as error:
            self._sound = False
            if not data:
                raise
            self._untold = error
        return None if data is None else self._take_up(most)

    async def _flush(self) -> None:
        """What TLS has to send, to its last byte: a record that is cut ends the stream."""
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            while self._is_sending:  # an answer, with which this goes out unless it is cancelled
                self._answered = self._answered or trio.Event()
                await self._answered.wait()
            await self._send_what_waits()
        except BaseException:
            self._sound = False
            raise
        if self._sent > TURN_BYTES:
            self._sent = 0
            await trio.lowlevel.checkpoint()

    async def _send_what_waits(self) -> None:
        """A cancellation loses nothing of it."""
        self._is_sending = True
        try:
            while self._unsent or self._outgoing.pending:
                if not self._unsent:
                    self._unsent = self._outgoing.read()
                    self._sent += len(self._unsent)
                if not self._send():
                    await trio.lowlevel.wait_writable(self._descriptor())
                    self._sent = 0
        finally:
            self._is_sending = False
            if self._answered is not None:
                self._answered.set()
                self._answered = None

    def _send(self) -> bool:
        """Whether the kernel has taken something. What it has is not held on to, by a view neither: that was the last
        answer of each connection, in memory for as long as its next request waits.
        """
        try:
            taken = os.write(self._descriptor(), self._unsent)
        except BlockingIOError:
            return False
        except OSError as error:
            raise trio.BrokenResourceError from error
        self._unsent = memoryview(self._unsent)[taken:] if taken < len(self._unsent) else b""
        return True

    def _descriptor(self) -> int:
        """Asked for each time: its number may be another's once the socket is closed."""
        descriptor = self._fileno()
        if descriptor < 0:
            raise trio.ClosedResourceError("the socket was closed")
        return descriptor

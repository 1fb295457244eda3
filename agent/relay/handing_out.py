"""What is handed to other nodes, at the pace of `[peers] relay_bytes_per_second`, the same share to each who waits.

`pieces` of a stream are sent on as there is room for them. While nobody waits a piece costs no switch of tasks. Of all
who wait one keeps the time; it is followed by another when it goes.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field

import trio

from agent.relay.byte_budget import FairBucket, Ticket, TokenBucket

PIECE_BYTES = 64 << 10  # of a slow rate too each one who waits has something within seconds
BURST_S = 0.25


@dataclass
class HandingOut:
    """`handed`: bytes since the start."""

    per_s: int
    handed: int = 0
    _bucket: FairBucket = field(init=False)
    _waiting: dict[Ticket, trio.Event] = field(default_factory=dict)
    _keeper: Ticket | None = None

    def __post_init__(self) -> None:
        self._bucket = FairBucket(TokenBucket(self.per_s, max(PIECE_BYTES, self.per_s * BURST_S)))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def pace(self, asker: str, pieces: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            async for data in pieces:
                for piece in _split(data):
                    await self.take(asker, len(piece))
                    yield piece

    async def take(self, asker: str, size: int) -> None:
        """Until so many bytes may be sent to this one."""
        await self._take(asker, size)
        self.handed += size

    async def _take(self, asker: str, size: int) -> None:
        ticket = self._bucket.enter(asker, size)
        self._grant()
        if ticket.is_granted:
            return
        self._waiting[ticket] = trio.Event()
        try:
            while not ticket.is_granted:
                await self._wait(ticket)
        finally:
            del self._waiting[ticket]
            if not ticket.is_granted:
                self._bucket.leave(ticket)
            if self._keeper is ticket:
                self._keeper = None
            if self._keeper is None:  # also of one that was to keep it, and had its turn before it began
                self._wake_next()

    async def _wait(self, ticket: Ticket) -> None:
        """Its own turn, or for its turn to keep the time."""
        if self._keeper is None:
            self._keeper = ticket
        if self._keeper is ticket:
            await trio.sleep(self._bucket.wait_s(trio.current_time()))
            self._grant()
        else:
            await self._waiting[ticket].wait()
            self._waiting[ticket] = trio.Event()

    def _grant(self) -> None:
        for ticket in self._bucket.grant(trio.current_time()):
            if ticket in self._waiting:
                self._waiting[ticket].set()

    def _wake_next(self) -> None:
        following = next((ticket for ticket in self._waiting if not ticket.is_granted), None)
        if following is not None:
            self._waiting[following].set()


def _split(data: bytes) -> Iterator[bytes]:
    if len(data) <= PIECE_BYTES:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(data), PIECE_BYTES):
        yield bytes(view[start : start + PIECE_BYTES])

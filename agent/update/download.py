"""Bytes into the pending slot, section by section, in flat memory (ARCHITECTURE.md, "One update"; rules S8, L39).

    download   the chunks of an answer become a sealed slot, or Rejected, NotListedError, OwnRefusalError; and what is
               to be done with it at once is done in the same visit of the thread

Nothing is kept before steps 1..5 vouch for the opening and it is what was asked for; each section's size is known from
the signed manifest before its first byte is read. The reading is done on the writing thread, so that neither a large
manifest nor a slow disk holds the event loop.
"""

from collections.abc import AsyncIterable, Callable
from typing import TypeVar

import trio

from agent.base.threads import Threads
from agent.state.own_bounds import refuse_too_far_ahead
from snapshot.container import End, ManifestRead, Need, Opening, Reader, SectionRead
from snapshot.envelope import SNAPSHOT, Envelope
from snapshot.identifiers import HEAD
from snapshot.limits import Limits
from snapshot.verifier_state import VerifierState
from snapshot.verify import judge_opening, signed_sizes
from store.base.pending import Pending
from store.store import Store

FIRST_BYTES = 16 << 10  # of which the opening is judged, before any more is taken
TOGETHER_BYTES = 512 << 10  # that one visit of the writing thread takes after that
CONTAINER_BYTES = 64 << 10  # heads of sections and signatures, beside what has limits of its own

T = TypeVar("T")


class NotListedError(Exception):
    """A good opening of another document than the one that was asked for (rules S86)."""

    def __init__(self, envelope: Envelope) -> None:
        super().__init__(f"{envelope.scope} {envelope.version} {envelope.state_hash} is not what was asked for")
        self.envelope = envelope


class Arrival:
    """One document on its way in. Synchronous; every call on the writing thread."""

    def __init__(
        self,
        store: Store,
        holder: VerifierState,
        kind: str,
        now: float,
        wanted: Callable[[Envelope], bool] | None = None,
        room: int | None = None,
    ) -> None:
        """`room`: of a candidate, the bytes that its slot may take."""
        self.envelope: Envelope | None = None
        self.slot: Pending | None = None
        self.size = 0  # of what has come
        self.has_finished_another = False  # activation, as the store does before it receives: others are to learn of it
        self._store = store
        self._holder = holder
        self._kind = kind
        self._now = now
        self._wanted = wanted
        self._room = room
        self._reader = Reader(holder.limits)

    def feed(self, data: bytes) -> None:
        """The next bytes; none say that it has ended. Rejected, NotListedError, OwnRefusalError, StoreError."""
        self.size += len(data)
        self._reader.receive_data(data)
        while (event := self._reader.next_event()) is not Need.DATA:
            match event:
                case Opening():
                    self._open(event)
                case ManifestRead():
                    sizes = signed_sizes(_require(self.envelope), event.manifest, self._holder)
                    self._reader.expect(sizes)
                    _require(self.slot).receive(event)
                case SectionRead():
                    _require(self.slot).receive(event)
                case End():
                    _require(self.slot).seal(self._now, with_next=self._kind in (HEAD, SNAPSHOT))
                    return

    def feed_last(self, data: bytes) -> Pending:
        """What is left, perhaps nothing, and the end."""
        if data:
            self.feed(data)
        self.feed(b"")
        return _require(self.slot)

    def drop(self) -> None:
        if self.slot is not None:
            self.slot.drop()

    def _open(self, opening: Opening) -> None:
        self.envelope = judge_opening(opening, self._holder, kind=self._kind, now=self._now)
        if self._wanted is not None and not self._wanted(self.envelope):
            raise NotListedError(self.envelope)
        refuse_too_far_ahead(self.envelope, self._now)
        self.slot = self._begin(self.envelope.scope)
        self.slot.receive(opening)

    def _begin(self, scope: str) -> Pending:
        if self._room is not None:
            return self._store.receive_candidate(scope, room=self._room, limits=self._holder.limits)
        self.has_finished_another = self._store.is_unfinished
        return self._store.receive(scope, now=self._now, limits=self._holder.limits, kind=self._kind)


async def download(
    threads: Threads, arrival: Arrival, chunks: AsyncIterable[bytes], then: Callable[[Pending], T]
) -> tuple[Pending, T]:
    """The sealed slot, and what `then` makes of it. What fails leaves no slot behind. Each visit of the writing thread
    costs the loop a fifth of a millisecond, so what comes is collected first: a small document takes one.
    """

    def end(data: bytes) -> tuple[Pending, T]:
        slot = arrival.feed_last(data)
        return slot, then(slot)

    together = bytearray()
    try:
        async for chunk in chunks:
            together += chunk
            if len(together) >= (FIRST_BYTES if arrival.slot is None else TOGETHER_BYTES):
                await threads.write(arrival.feed, bytes(together))
                together.clear()
        return await threads.write(end, bytes(together))
    except BaseException:
        with trio.CancelScope(shield=True):  # nor does one that is given up
            await threads.write(arrival.drop)
        raise


def most_bytes(limits: Limits) -> int:
    """Of a container under these limits."""
    signatures = limits.signatures * (limits.signature_bytes + 128)
    return (
        limits.envelope_bytes
        + signatures
        + limits.manifest_bytes
        + limits.content_bytes
        + 5 * limits.sections
        + CONTAINER_BYTES
    )


def _require(value: T | None) -> T:
    if value is None:
        raise RuntimeError("a container gives its opening first")
    return value

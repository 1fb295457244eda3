"""A relay of its site keeps the heads of its neighbours fresh, and what these list, while it has a link and they have
none.

It takes them from storage endpoints, where they lie by the hash of the node's id for whoever asks (protocol.md 1): no
coordinator has to be told whom a relay may ask for, and a relay that was taken over gets nothing by being one. Without
a storage endpoint it relays what it fetches for itself, and no heads. The neighbours take their heads from here in
their rounds (agent/update/peer_rounds.py), and judge them as ever.

Rejected: a right at the coordinator to be given the heads of others, which whoever takes a relay's key would have for
every node of the site, and which a mirror gives to anybody.

A storage endpoint is believed nothing: what it gives goes to the disk as it comes, within the bounds of `[peers]`. What
was refused, and each document that was fetched, rests: else a head that is damaged would be asked for each minute, and
where neighbours are to have more than fits here, one document would push out the other over the site's link for ever.
All of it together is bounded by `[peers] relay_fetch_bytes_per_hour`, whatever it was: a link may be paid by the byte.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import trio

from agent.base.byte_source import Chunks, opening_of
from agent.relay.relaying import Relay
from agent.sources.source import DocumentPlace, Kind, Source, document_place, head_place
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from agent.state.root_pinning import peek_envelope
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.relay import digest_of
from wire.backoff import spread
from wire.client import ClientError, Streamed
from wire.logs import log

EVERY_S, SHARE = 60.0, 0.2
HEAD_BYTES = 5 << 20
MISSING = (404, 403)
HEAD_REST_S, DOCUMENT_REST_S = 300.0, 3_600.0
MOST_RESTING = 16_384  # while as many rest, nothing further is fetched


@dataclass
class NeighbourHeads:
    node: RunningNode
    sources: Sources
    relay: Relay
    uniform: Callable[[float, float], float]
    _was_spent: bool = False
    _rests: dict[str, float] = field(default_factory=dict)  # until when, of what is not fetched again yet

    async def run(self) -> None:
        """Until cancelled; of who is no relay, at once over."""
        while self.node.settings.peers.relay and self.relay.store.bounds.most_bytes:
            await self.round()
            await trio.sleep(spread(EVERY_S, SHARE, self.uniform))

    async def round(self) -> None:
        """One neighbour of the same site after the other; nothing that a source does is raised."""
        await self.relay.drop_damaged()
        now, peers = trio.current_time(), self.sources.peers
        again = self.relay.refetch
        self._rests = {what: until for what, until in self._rests.items() if until > now and what not in again}
        again.clear()
        for node_id in [peer.node_id for peer in peers.trusted_peers() if peers.is_near(peer)]:
            for source in self._storage():
                if await self._bring(node_id, source):
                    break

    def _storage(self) -> list[Source]:
        return [source for source in self.sources.all() if source.kind is Kind.STORAGE and source.is_rested]

    async def _bring(self, node_id: str, source: Source) -> bool:
        """Whether this source need not be followed by the next one."""
        try:
            if self._is_due(node_id) and not self._is_spent():
                await self._take_head(source, node_id)
            head = await self.node.threads.read(self.relay.head_for, node_id)
            for listed in self.relay.missing(head) if head is not None else ():
                await self._take_document(source, listed.snapshot_id)
        except ClientError as error:
            if error.status not in MISSING:
                source.note_failure(error)
            return False
        except (Rejected, StoreError) as error:
            log.warning("not kept for a neighbour", neighbour=node_id, source=str(source), error=str(error))
            return False
        return True

    def _is_spent(self) -> bool:
        """What may be fetched for neighbours alone: what was begun is finished, and paid before the next."""
        spent = self.relay.fetching.is_spent()
        if spent and not self._was_spent:
            log.warning("fetched for neighbours as much as an hour has", setting="[peers] relay_fetch_bytes_per_hour")
        self._was_spent = spent
        return spent

    def _is_due(self, node_id: str) -> bool:
        kept = self.relay.store.head_of(digest_of(node_id))
        return kept is None or self.node.now() >= kept.envelope.refresh_after

    async def _take_head(self, source: Source, node_id: str) -> None:
        what = f"head of {node_id} at {source}"
        if what in self._rests:
            return
        try:
            await self._take(source, head_place(node_id, (0, 0), 0).file, HEAD_BYTES)
        except (Rejected, StoreError):
            self._rests[what] = trio.current_time() + HEAD_REST_S
            raise

    async def _take_document(self, source: Source, snapshot_id: str) -> None:
        """Whether it is kept or not, it travels over the link once, and not each minute."""
        if snapshot_id in self._rests or len(self._rests) >= MOST_RESTING or self._is_spent():
            return
        try:
            await self._take(source, document_place(snapshot_id).file, self.relay.store.bounds.most_bytes)
        except (Rejected, StoreError):
            self._rests[snapshot_id] = trio.current_time() + DOCUMENT_REST_S
            raise
        self._rests[snapshot_id] = trio.current_time() + DOCUMENT_REST_S

    async def _take(self, source: Source, file: str | None, most: int) -> None:
        """A file that is not for a neighbour, or none at all, is passed over."""

        async def use(answer: Streamed) -> None:
            async with aclosing(self._pieces(answer)) as chunks:
                opening = await opening_of(chunks)
                said = peek_envelope(opening, self.node.holder().limits)
                if said is not None and self.relay.may_keep(said):
                    await self.relay.take(Chunks(opening, chunks), said)
                    self.node.counters.add("relay_files_fetched")

        await source.ask(DocumentPlace(file or ""), use, limit=min(most, self.relay.fetching.most))

    async def _pieces(self, answer: Streamed) -> AsyncGenerator[bytes, None]:
        """Over for good once it has ended: whoever reads an answer on behind its end waits for one who says nothing.
        What came is counted, whatever becomes of it.
        """
        async for piece in answer.chunks():
            await self.relay.fetching.take(len(piece))
            self.node.counters.add("relay_bytes_fetched", len(piece))
            yield piece

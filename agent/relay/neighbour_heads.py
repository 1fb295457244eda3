"""A relay of its site keeps the heads of its neighbours fresh, and what these list, while it has a link and they have
none.

It takes them from storage endpoints, where they lie by the hash of the node's id for whoever asks (protocol.md 1): no
coordinator has to be told whom a relay may ask for, and a relay that was taken over gets nothing by being one. Without
a storage endpoint it relays what it fetches for itself, and no heads. The neighbours take their heads from here in
their rounds (agent/update/peer_rounds.py), and judge them as ever.

Rejected: a right at the coordinator to be given the heads of others, which whoever takes a relay's key would have for
every node of the site, and which a mirror gives to anybody.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import trio

from agent.relay.relaying import Relay
from agent.sources.source import DocumentPlace, Kind, Source, document_place, head_place
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from agent.state.root_pinning import peek_envelope
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.relay import digest_of
from wire.backoff import spread
from wire.client import ClientError
from wire.logs import log

EVERY_S, SHARE = 60.0, 0.2
HEAD_BYTES = 5 << 20
MISSING = (404, 403)
MOST = 1024


@dataclass
class NeighbourHeads:
    node: RunningNode
    sources: Sources
    relay: Relay
    uniform: Callable[[float, float], float]
    _not_kept: dict[str, None] = field(default_factory=dict)  # snapshot ids that are not fetched again

    async def run(self) -> None:
        """Until cancelled; of who is no relay, at once over."""
        while self.node.settings.peers.relay:
            await self.round()
            await trio.sleep(spread(EVERY_S, SHARE, self.uniform))

    async def round(self) -> None:
        """One neighbour of the same site after the other; nothing that a source does is raised."""
        peers = self.sources.peers
        for node_id in [peer.node_id for peer in peers.trusted_peers() if peers.is_near(peer)]:
            for source in self._storage():
                if await self._bring(node_id, source):
                    break

    def _storage(self) -> list[Source]:
        return [source for source in self.sources.all() if source.kind is Kind.STORAGE and source.is_rested]

    async def _bring(self, node_id: str, source: Source) -> bool:
        """Whether this source need not be followed by the next one."""
        try:
            if self._is_due(node_id):
                await self._take(source, head_place(node_id, (0, 0), 0).file, HEAD_BYTES)
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

    def _is_due(self, node_id: str) -> bool:
        kept = self.relay.store.head_of(digest_of(node_id))
        return kept is None or self.node.now() >= kept.envelope.refresh_after

    async def _take_document(self, source: Source, snapshot_id: str) -> None:
        """What cannot be kept travels over the link once, and not each minute."""
        if snapshot_id in self._not_kept:
            return
        while len(self._not_kept) >= MOST:
            del self._not_kept[next(iter(self._not_kept))]
        try:
            await self._take(source, document_place(snapshot_id).file, self.relay.store.bounds.most_bytes)
        except (Rejected, StoreError):
            self._not_kept[snapshot_id] = None
            raise
        if self.relay.store.document(snapshot_id) is None:
            self._not_kept[snapshot_id] = None

    async def _take(self, source: Source, file: str | None, most: int) -> None:
        """A file that is not for a neighbour, or none at all, is passed over."""
        body = (await source.fetch(DocumentPlace(file or ""), limit=most)).body
        said = peek_envelope(body, self.node.holder().limits)
        if said is not None and self.relay.may_keep(said):
            await self.relay.take(_once(body), said)
            self.node.counters.add("relay_files_fetched")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data

"""What peers have that this node has not: inventories are asked for, and what is higher is fetched (rules K5, X28).

A round asks each peer of the map that may be asked, one after the other: it is shown our head, so that it knows what we
may have, and says which trust bundle and which head of ours it holds. Bundles and heads that are higher are taken from
there as from anybody, verified whole; what they list is then fetched by the update, coordinators first, from whoever
has it. So a file that was handed to one node of a site that is cut off reaches the others.

While a coordinator answers and the head is fresh a round is seldom; without that they follow each other as polls do,
from a minute and a half after the link was cut.
A peer costs `ASK_S` at most, and rests after that as any source that fails: one that lies, stalls or is behind holds
up nobody else.

Rejected: that peers tell each other when they have something new. A hint that is lost would have to be made good by a
round all the same, and whoever may send hints without end may make a node ask without end (rules J42).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import trio

from agent.sources.source import DocumentPlace, Source
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from agent.update.download import NotListedError
from agent.update.own_standing import show_standing
from agent.update.update import Update
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from store.relay import digest_of
from wire.backoff import LEAST_S, BackOff, spread
from wire.client import ClientError, ClientFault
from wire.endpoint import path
from wire.logs import log
from wire.messages import BadMessageError
from wire.peers.peer_messages import HEAD_BYTES, PeerInventory

ASK_S = 30.0
STORE_RETRY_S = 300.0
SELDOM_S, OFTEN_S = 300.0, 15.0
QUIET_S = 90.0  # since a coordinator has answered
SHARE = 0.2
NEWS = 200


@dataclass
class PeerRounds:
    node: RunningNode
    sources: Sources
    update: Update
    uniform: Callable[[float, float], float]

    async def run(self) -> None:
        """Until cancelled. A hint makes the next round sooner, one that came during a round too; but however many come,
        a round follows the one before after the floor, and after one that the store did not take, after its back-off.
        """
        back_off = BackOff(self.uniform, cap_s=STORE_RETRY_S)
        while True:
            seen, kept = self.sources.wakes, True
            for source in list(self._due()):
                kept = await self.ask(source) and kept
            if kept:
                back_off.note_success()
            least_s = LEAST_S if kept else back_off.note_failure()
            await self.pause(least_s, seen)

    async def pause(self, least_s: float, seen: int) -> None:
        """Until a round is due again, or there are more hints than were seen. Looked at again and again: a coordinator
        that answered when this began may be gone a moment later.
        """
        begun, share = trio.current_time(), spread(1.0, SHARE, self.uniform)
        await trio.sleep(least_s)
        while (left_s := begun + share * self._pause_s() - trio.current_time()) > 0:
            with trio.move_on_after(min(left_s, OFTEN_S)):
                await self.sources.wait_woken(seen)
                return

    async def ask(self, source: Source) -> bool:
        """One peer; false where the store did not take what came. Raises nothing for what the other side does."""
        with trio.move_on_after(ASK_S) as scope:
            try:
                await self._take_what_is_higher(source)
            except ClientError as error:
                if not self.update.fetching.patience.is_stranger_yet(source, error):
                    self._note_failure(source, str(error), error)
            except BadMessageError as error:
                self._note_failure(source, f"bad_answer: {error}")
            except (Rejected, NotListedError) as refused:
                self._note_failure(source, str(refused))
            except StoreError as error:
                log.warning("not taken from a peer", peer=str(source), fault=error.fault, detail=error.detail)
                return False
        if scope.cancelled_caught:
            self._note_failure(source, "it took too long")
        return True

    def _due(self) -> Iterator[Source]:
        return (source for source in self.sources.peer_sources() if source.is_rested)

    def _pause_s(self) -> float:
        is_fresh = self.node.gate_facts().head_is_fresh(self.node.now())
        return SELDOM_S if is_fresh and self.sources.answered_s_ago < QUIET_S else OFTEN_S

    async def _take_what_is_higher(self, source: Source) -> None:
        node = self.node
        await show_standing(node, source)
        asked = path("v1", "inventory", **({"automatic_refresh": 1} if source.unattended else {}))
        answer = await source.fetch(DocumentPlace(asked), limit=PeerInventory.MOST_BYTES)
        found = PeerInventory.read(answer.body)
        node.counters.add("peers_asked")
        if found.cluster_id != node.settings.node.cluster_id:
            raise ClientError(ClientFault.BAD_ANSWER, "it is a node of another cluster")
        source.told_bundle = found.trust_bundle_version
        held = node.holdings.bundle
        if found.trust_bundle_version > (held.version if held else 0):
            await self.update.trust.refresh(source, urgent=True)
        own = found.heads.get(digest_of(node.settings.node.node_id))
        if own is not None and own.pair > node.holdings.held_head:
            await self._take_head(source)
        source.note_success()

    async def _take_head(self, source: Source) -> None:
        node = self.node
        epoch, generation = node.holdings.held_head
        digest = digest_of(node.settings.node.node_id)
        place = DocumentPlace(path("v1", "heads", digest, epoch=epoch, generation=generation))
        answer = await source.fetch(place, limit=HEAD_BYTES)
        news = answer.status == NEWS and await self.update.accept_head(answer.body, source)
        node.counters.add("heads_taken", int(news))
        if news:
            log.info("head taken from a peer", peer=str(source), version=node.holdings.held_head)

    def _note_failure(self, source: Source, words: str, error: ClientError | None = None) -> None:
        if source.back_off.failures == 0:
            log.warning("nothing from a peer", peer=str(source), error=words)
        source.note_failure(error if error is not None else words)

"""Following the head: one long poll after the other, at the first source that answers (protocol.md 1; rules K30, X27).

A head that is taken wakes the update; an answer without news shows that the coordinator still speaks to us. Whatever
fails is counted against the source, and the next one is asked.
"""

from dataclasses import dataclass

import trio

from agent.sources.source import Kind, Source, head_place
from agent.sources.sources import Sources
from agent.state.node import RunningNode
from agent.update.download import NotListedError
from agent.update.head_proof import Showing
from agent.update.update import Update
from snapshot.reasons import Rejected
from store.base.errors import StoreError
from wire.backoff import LEAST_S
from wire.client import ClientError, Reply
from wire.logs import log
from wire.messages import INLINE_BYTES, HeadAnswer
from wire.strict_json import BadMessageError

HEAD_BYTES = 5 << 20
NO_SOURCE_S = 1.0
HELD_SHARE = 0.5  # an answer sooner than this share of the wait was not held
NEWS = 200
POLL_S = 15.0  # rules, Numbers: poll, where no head says otherwise
MOST_POLL_S = 300.0  # whatever a head says: it comes from whom it would keep us from
REVOKED = "revoked"


@dataclass
class Refresh:
    node: RunningNode
    sources: Sources
    update: Update
    showing: Showing

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            source = self._next()
            if source is None:
                await self.sources.wait_pollable(NO_SOURCE_S, POLL_S)
                continue
            await self.ask(source)

    async def ask(self, source: Source) -> None:
        """One request and what follows from it; raises nothing for what the other side does."""
        asked_at, held = trio.current_time(), self.node.holdings.held_head
        try:
            await self._take(await self._head(source), source)
        except ClientError as error:
            self._note_failure(source, error)
        except (Rejected, NotListedError, BadMessageError) as refused:
            self._note_refusal(source, str(refused))
        except StoreError as error:
            log.warning("head not taken", fault=error.fault, detail=error.detail)
            self._note_refusal(source, str(error))
        else:
            # It may as well have become active meanwhile by another way: what is answered then says nothing of waiting.
            self._pause(source, self.node.holdings.held_head != held, trio.current_time() - asked_at)

    def _next(self) -> Source | None:
        """Coordinators first, then storage; peers hold no heads of ours."""
        return next(
            (source for source in self.sources.all() if source.kind is not Kind.PEER and source.may_be_polled), None
        )

    async def _head(self, source: Source) -> Reply:
        settings = self.node.settings
        wait_s = settings.intervals.poll_wait_s
        inline = INLINE_BYTES if source.kind is Kind.COORDINATOR else 0
        place = head_place(settings.node.node_id, self.node.holdings.held_head, wait_s, inline)
        return await source.fetch(place, wait_s=wait_s, limit=HEAD_BYTES)

    async def _take(self, answer: Reply, source: Source) -> None:
        news = answer.status == NEWS and await self._accept(answer, source)
        self.node.counters.add("heads_taken", int(news))
        if self.showing.is_asked(answer, source):  # it knows less than we do, so it confirms nothing
            await self.showing.show(source)
            source.note_success()
            return
        source.note_success()
        if source.kind is Kind.COORDINATOR:
            await self.node.note_check_in()
            await self.sources.note_answer(source)

    async def _accept(self, answer: Reply, source: Source) -> bool:
        """What comes with the head is there before its round begins, and until the next answer."""
        said = HeadAnswer.parse(answer.headers.get("content-type", ""), answer.body)
        self.update.fetching.came_along.replace(said.documents, source)
        return await self.update.accept_head(said.head, source)

    def _note_failure(self, source: Source, error: ClientError) -> None:
        self.node.counters.add("head_requests_failed")
        if source.kind is Kind.COORDINATOR and error.code == REVOKED:
            self.node.note_revocation_claim(str(source))
        if source.back_off.failures == 0:
            log.warning("no head", source=str(source), error=str(error))
        self._note_refusal(source, error)

    def _note_refusal(self, source: Source, error: ClientError | str) -> None:
        """The next head is asked for after the back-off, and never within the floor: documents that come from there
        meanwhile end the one, not the other.
        """
        source.note_failure(error)
        source.poll_in(LEAST_S)

    def _pause(self, source: Source, news: bool, took_s: float) -> None:
        """It is asked again at once, unless it holds no request or has nothing new (protocol.md 1). Without a fresh
        head the others have their turn in between: one that answers, and knows nothing, would be the only one asked.
        """
        held = took_s >= HELD_SHARE * self.node.settings.intervals.poll_wait_s
        held = held and self.node.gate_facts().head_is_fresh(self.node.now())
        if source.kind is not Kind.COORDINATOR or not (news or held):
            head = self.node.holdings.head
            source.poll_in(min(MOST_POLL_S, float(head.poll_after_s)) if head else POLL_S)

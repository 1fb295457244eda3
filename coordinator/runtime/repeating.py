"""The task that signs the last heads again while the database is away (absence.py), those that the board has.

That are the heads that this replica has published or handed out: of a node that has never asked it, it has none, and
the node goes to the next coordinator. Each has passed the nodes' own verifier before anybody is given it, as all that
is signed here has (publishing/review.py); one that says less of revocations than is known is refused there.

What is announced is never behind what the board has, so a head that was published meanwhile is not replaced.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import trio

from coordinator.base.threads import in_compiler, in_library
from coordinator.publishing import review
from coordinator.publishing.board import Board, News
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.replicas import signed_again
from coordinator.replicas.signed_again import OpenedHead
from coordinator.runtime.absence import Absence
from coordinator.runtime.context import Coordinator, Standstill
from coordinator.storage.upkeep import RepeatedHead
from snapshot.identifiers import HEAD
from snapshot.verifier_state import Mark, VerifierState
from wire.logs import log

TICK_S = 1.0
BATCH = 64


class Repeater:
    def __init__(self, coordinator: Coordinator) -> None:
        self._at = coordinator
        self._fresh: dict[str, tuple[News, int]] = {}  # heads that were looked at, and when the next one is due
        self.signed = 0  # since the database went

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(TICK_S)
            await self.repeat()

    async def repeat(self) -> None:
        """Once: whatever is due."""
        if not self._at.absence.is_away:
            if self.signed:
                log.info("the database answers again", heads_signed_again=self.signed)
            self._fresh.clear()
            self.signed = 0
            return
        due = dict(self._due(self._at.now()))
        names = sorted(due)
        for start in range(0, len(names), BATCH):
            if not await self._sign({node_id: due[node_id] for node_id in names[start : start + BATCH]}):
                return

    def _due(self, now: float) -> Iterator[tuple[str, News]]:
        for node_id, news in self._at.board.items():
            known, due_at = self._fresh.get(node_id, (None, 0))
            if news.refresh_after <= now and (known is not news or due_at <= now):
                yield node_id, news

    async def _sign(self, heads: Mapping[str, News]) -> bool:
        """Whether there is any going on."""
        absence, now = self._at.absence, self._at.now()
        issue = absence.issue
        if not absence.may_sign or issue is None or self._at.standstill.why or self._at.publisher.clock_fault():
            return False
        try:
            made = await in_compiler(repeat_heads, heads, replace(issue, now=now), now)
        except Unpublishable as fault:
            if absence.fault != str(fault):
                log.error("no head is signed again", reason=str(fault))  # noqa: TRY400 - no trace needed
            absence.fault = str(fault)
            return False
        if not absence.may_sign:  # it is back: what was made here comes too late
            return False
        absence.fault = ""
        for node_id, (news, due_at) in made.items():
            self._fresh[node_id] = news or heads[node_id], due_at
            if news is not None:
                self.signed += 1
                self._at.board.announce(node_id, news)
        return True


async def repeated_heads(board: Board, absence: Absence, standstill: Standstill) -> list[RepeatedHead]:
    """Those that stores are to have as well, while heads may be signed again: from where the cluster was exported none,
    though whoever asks there still gets them. Of a large fleet on a thread.
    """
    if not absence.may_sign or standstill.why or standstill.moved is not None:
        return []
    return await in_library(_list_repeated, board.items())


def _list_repeated(heads: Iterable[tuple[str, News]]) -> list[RepeatedHead]:
    return [
        RepeatedHead(node_id, news.first.container, news.container) for node_id, news in heads if news.first is not None
    ]


def repeat_heads(heads: Mapping[str, News], issue: Issue, now: float) -> dict[str, tuple[News | None, int]]:
    """By node its head signed again, where that is due and the verifier takes it; and when to look again, in Unix
    seconds. Unpublishable where none could be signed.
    """
    issue.signers(HEAD)
    return {node_id: _repeat(node_id, news, issue, now) for node_id, news in heads.items()}


def _repeat(node_id: str, news: News, issue: Issue, now: float) -> tuple[News | None, int]:
    first = news.first or news
    head = OpenedHead.of(first.container)
    number = signed_again.repeat_due(head, now)
    epoch, generation = head.envelope.version
    look_at = signed_again.next_look(head, now)
    if generation + number <= news.pair[1]:
        return None, look_at
    made = signed_again.sign_again(head, number, issue.signers(HEAD))
    holder = VerifierState(
        issue.cluster_id,
        node_id,
        bundle=issue.bundle,
        marks={HEAD: Mark(*news.pair, head.envelope.content_hash)},
        revocations=issue.revocations,
    )
    try:
        review.review(made, holder, now)
    except Unpublishable as fault:
        log.error("not signed again", node=node_id, reason=str(fault))  # noqa: TRY400 - no trace needed
        return None, look_at
    return News((epoch, generation + number), made.to_bytes(), look_at, news.names, first), look_at

"""What the gate decided while no coordinator could be asked is told to it afterwards (rules S55f; threats A17).

A service may ask every second, and any local user may ask anything: each decision is written down once an outage, and
no more than `MOST` of them. Nobody waits for the disk to be answered.
"""

from dataclasses import field

import trio

from agent.state.node import RunningNode
from snapshot.degraded import GateAnswer, GateReason, Mode, Question
from snapshot.frozen import mutable
from store.base.errors import StoreError
from wire.logs import log

DECIDED = "decided"
MOST = 256


@mutable
class Decisions:
    """`note` says it, `run` writes it into the journal, which the heartbeat delivers."""

    node: RunningNode
    _outage: int | None = None  # the expiry of the head that has run out
    _noted: set[tuple[object, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._said, self._heard = trio.open_memory_channel[tuple[float, str, str]](MOST)

    def note(self, question: Question, answer: GateAnswer, uid: int, now: float) -> None:
        """At once. What was decided under a fresh head, and actions that do not exist, are no news."""
        if answer.mode is Mode.NORMAL or answer.reason == GateReason.UNKNOWN_ACTION:
            return
        expired_at = self.node.holdings.head_expires_at
        if expired_at != self._outage:
            self._outage, self._noted = expired_at, set()
        asked = (question.action, question.scope, question.resource, uid, answer.allowed, answer.reason)
        if asked in self._noted:
            return
        if len(self._noted) >= MOST:
            self.node.counters.add("decisions_not_noted")
            return
        self._noted.add(asked)
        words = f"{question.action} {question.resource or ''}".strip()
        detail = f"{'yes' if answer.allowed else 'no'}, {answer.reason}: {words}, asked by uid {uid}, {answer.mode}"
        try:
            self._said.send_nowait((now, question.scope or "", detail))
        except trio.WouldBlock:
            self.node.counters.add("decisions_not_noted")

    async def run(self) -> None:
        """Until cancelled."""
        async for at, scope, detail in self._heard:
            try:
                await self.node.threads.write(self.node.store.journal.record, DECIDED, at, scope, detail)
            except StoreError as error:
                self.node.counters.add("decisions_not_noted")
                log.warning("decision not written down", fault=error.fault, detail=error.detail)

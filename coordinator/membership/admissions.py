"""Joins that come at one time are admitted together: after a power failure hundreds of nodes ask in one minute.

What others are told of newcomers is worked out from the whole declared state, and a commit waits for the disk. Both
cost about the same for one node and for sixteen. So whoever finds nobody admitting begins at once, and admits all that
wait by then; who comes meanwhile waits for the next turn.

While heads are being published, no new member's could be, so a turn begins once they are out, or after PATIENCE_S: what
is admitted meanwhile would be told later all the same, would be a batch of fewer, and could void what is being signed
for whom it touches. And once several have come together, more are on their way: for STORM_S each turn waits GATHER_S
for them. Who comes alone waits for nobody.

A batch that the database does not take is tried for the one alone whose turn it is: what another one has brought is not
held against it.

Rejected: a task of its own that gathers for some milliseconds, as collector.py does for reports. A join is followed by
a publication, which takes longer than a batch takes to gather by itself.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.declared.next_model import FEW
from coordinator.membership.enrolment import ProvenJoin
from coordinator.membership.membership import Grant

PATIENCE_S = 0.5
GATHER_S, STORM_S = 0.05, 1.0
MOST = FEW  # of more nodes at once what is known of the state before is not taken over

Admit = Callable[[Sequence[ProvenJoin]], Awaitable[list[Grant | Refused]]]


@dataclass(eq=False)
class _Waiting:
    candidate: ProvenJoin
    outcome: Grant | Refused | None = None


class Admissions:
    """`admit` is given each batch: what comes of each, in its order. `wait_for_turn`: until it is of use to admit."""

    def __init__(self, admit: Admit, wait_for_turn: Callable[[], Awaitable[None]]) -> None:
        self._admit = admit
        self._wait_for_turn = wait_for_turn
        self._waiting: list[_Waiting] = []
        self._turn = trio.Lock()
        self._storm_until = -math.inf

    async def admit(self, candidate: ProvenJoin) -> Grant:
        """The grant, once it is durable; Refused with the first code of rules J7."""
        mine = _Waiting(candidate)
        self._waiting.append(mine)
        try:
            async with self._turn:
                if mine.outcome is None:
                    await self._admit_those_that_wait(mine)
        finally:
            self._waiting.remove(mine)
        if isinstance(mine.outcome, Refused):
            raise mine.outcome
        if mine.outcome is None:
            raise AssertionError("its turn has come")
        return mine.outcome

    async def _admit_those_that_wait(self, mine: _Waiting) -> None:
        with trio.move_on_after(PATIENCE_S):
            await self._wait_for_turn()
        if trio.current_time() < self._storm_until and len(self._open()) < MOST:
            await trio.sleep(GATHER_S)
        batch = [mine, *(waiting for waiting in self._open() if waiting is not mine)][:MOST]
        if len(batch) > 1:
            self._storm_until = trio.current_time() + STORM_S
        try:
            await self._try(batch)
        except SQLAlchemyError:
            if len(batch) == 1:
                raise
            await self._try([mine])

    def _open(self) -> list[_Waiting]:
        """Those that have no answer yet."""
        return [waiting for waiting in self._waiting if waiting.outcome is None]

    async def _try(self, batch: Sequence[_Waiting]) -> None:
        outcomes = await self._admit([waiting.candidate for waiting in batch])
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.outcome = outcome

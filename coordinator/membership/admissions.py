"""Joins that come at one time are admitted together: after a power failure hundreds of nodes ask in one minute.

What others are told of newcomers is worked out from the whole declared state, and a commit waits for the disk. Both
cost about the same for one node and for sixteen. So whoever finds nobody admitting begins at once, and admits all that
wait by then; who comes meanwhile waits for the next turn. Nobody waits for others to come.

A batch that the database does not take is tried for the one alone whose turn it is: what another one has brought is not
held against it.

Rejected: a task of its own that gathers for some milliseconds, as collector.py does for reports. A join is followed by
a publication, which takes longer than a batch takes to gather by itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.declared.next_model import FEW
from coordinator.membership.enrolment import ProvenJoin
from coordinator.membership.membership import Grant

MOST = FEW  # of more nodes at once what is known of the state before is not taken over

Admit = Callable[[Sequence[ProvenJoin]], Awaitable[list[Grant | Refused]]]


@dataclass(eq=False)
class _Waiting:
    candidate: ProvenJoin
    outcome: Grant | Refused | None = None


class Admissions:
    """`admit` is given each batch: what comes of each, in its order."""

    def __init__(self, admit: Admit) -> None:
        self._admit = admit
        self._waiting: list[_Waiting] = []
        self._turn = trio.Lock()

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
        others = [waiting for waiting in self._waiting if waiting is not mine and waiting.outcome is None]
        batch = [mine, *others][:MOST]
        try:
            await self._try(batch)
        except SQLAlchemyError:
            if len(batch) == 1:
                raise
            await self._try([mine])

    async def _try(self, batch: Sequence[_Waiting]) -> None:
        outcomes = await self._admit([waiting.candidate for waiting in batch])
        for waiting, outcome in zip(batch, outcomes, strict=True):
            waiting.outcome = outcome

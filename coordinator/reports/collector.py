"""Collects heartbeats for a few milliseconds and commits them together; each is answered after its commit.

Level-triggered and without a timer while nothing comes: the first report opens a batch, the batch is written when it is
full or `wait_s` has passed, and meanwhile the next one fills. Where several come at a time more are to come, as when a
fleet votes: the next batch is given longer, since what a commit costs is shared by all of it. A failed commit fails the
reports of that batch alone; and where a report is at fault, not the database, that report alone (rules K53).
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import trio
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.database.database_fault import line_of
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.reports.report_merge import RecordedAnswer
from wire.logs import log

Write = Callable[[Sequence[ReceivedHeartbeat]], Awaitable[list[RecordedAnswer]]]
WAIT_S, LONGER_S = 0.004, 0.025
MOST = 512


class NotRecorded(Exception):
    """The batch could not be written: the node is told to try again, and nothing was acknowledged."""


@dataclass
class _Waiting:
    heartbeat: ReceivedHeartbeat
    done: trio.Event = field(default_factory=trio.Event)
    outcome: RecordedAnswer | Refused | None = None


class HeartbeatCollector:
    """`write` is given each batch, on the loop: usually `heartbeats.record` through `threads.in_database`. `newer`: how
    many reports said something that is not known here.
    """

    def __init__(self, write: Write, *, wait_s: float = WAIT_S, most: int = MOST, queue: int = 4_096) -> None:
        self._write = write
        self._wait_s = wait_s
        self._most = most
        self._queue = queue
        self._waiting: deque[_Waiting] = deque()
        self._came = trio.Event()
        self._full = trio.Event()
        self._taken = trio.Event()
        self._longer = False
        self.newer = 0

    async def report(self, heartbeat: ReceivedHeartbeat) -> RecordedAnswer:
        """The answer, once the heartbeat is durable. NotRecorded when it is not; Refused `bad_request` where the
        database takes the others but not this one. Waits while the queue is full.
        """
        while len(self._waiting) >= self._queue:
            await self._taken.wait()
        self.newer += heartbeat.is_newer
        waiting = _Waiting(heartbeat)
        self._waiting.append(waiting)
        self._came.set()
        if len(self._waiting) >= self._most:
            self._full.set()
        await waiting.done.wait()
        if waiting.outcome is None:
            raise NotRecorded
        if isinstance(waiting.outcome, Refused):
            raise waiting.outcome
        return waiting.outcome

    async def run(self) -> None:
        """Write batches until cancelled."""
        while True:
            batch = await self._gather()
            try:
                await self._record(batch)
            finally:
                for waiting in batch:
                    waiting.done.set()

    async def _record(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._write([waiting.heartbeat for waiting in batch])
        except (DataError, IntegrityError) as error:
            await self._record_apart(batch, error)
        except SQLAlchemyError as error:  # the database's fault, not this program's: the next batch may go well
            log.error("heartbeats not recorded", reports=len(batch), reason=line_of(error))  # noqa: TRY400 - no trace needed
        else:
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.outcome = answer

    async def _record_apart(self, batch: Sequence[_Waiting], error: DataError | IntegrityError) -> None:
        """In halves, down to the one that is at fault: the others are recorded."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._record(batch[:middle])
            await self._record(batch[middle:])
            return
        node_id = batch[0].heartbeat.node_id
        log.error("a heartbeat that the database does not take", node=node_id, reason=line_of(error))
        batch[0].outcome = Refused(Code.BAD_REQUEST, f"the database does not take this report of {node_id}")

    async def _gather(self) -> list[_Waiting]:
        """Woken by the first report and by the one that fills the batch; those between cost no step of this task."""
        while not self._waiting:
            self._came = trio.Event()
            await self._came.wait()
        if len(self._waiting) < self._most:
            self._full = trio.Event()
            with trio.move_on_after(max(self._wait_s, LONGER_S) if self._longer else self._wait_s):
                await self._full.wait()
        batch = [self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))]
        self._longer = len(batch) > 1
        self._taken.set()
        self._taken = trio.Event()
        return batch

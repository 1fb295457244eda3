"""When members are trimmed (membership/trimming.py): once an hour; and once a minute the word that they could be seen.

    Trims.note_readiness    this replica is ready, and of some member it has heard within the hour
    Trims.run               whoever is due by then

A coordinator that nobody reaches may be the one that is cut off, so it says nothing, and nobody is trimmed for it. What
this replica has heard in the last minute is written before anybody goes. Another one writes its own within a minute: a
node that returns on the last day of its window, to another replica, and in that very minute, may be told `removed`.
"""

from collections.abc import Sequence
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database
from coordinator.database import readiness
from coordinator.database.database_fault import line_of
from coordinator.membership import trimming
from coordinator.runtime.context import Coordinator
from coordinator.runtime.metrics import Readiness
from wire.logs import log

NOTE_S = 60.0
TRIM_S = 3_600.0


class Trims:
    def __init__(self, coordinator: Coordinator, readiness: Readiness) -> None:
        self._at = coordinator
        self._readiness = readiness

    async def note_readiness(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(NOTE_S)
            await self.note()

    async def note(self) -> None:
        """Once, where it is so."""
        at = self._at
        if not self._is_ready() or at.now() - at.seen.latest > readiness.GAP_S:
            return
        try:
            await in_database(partial(readiness.note, now=at.now()), at.database)
        except SQLAlchemyError as error:  # the next minute is as good
            log.warning("readiness not recorded", reason=line_of(error))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(TRIM_S)
            await self.trim()

    async def trim(self) -> None:
        """Once, where this replica is ready."""
        at = self._at
        if not self._is_ready():
            return
        await at.seen.write()
        try:
            gone = await in_database(partial(trimming.trim, now=at.now(), settings=at.settings), at.database)
        except (SQLAlchemyError, Refused) as error:  # the next hour is as good
            detail = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.error("members not trimmed", reason=detail)  # noqa: TRY400 - no trace needed
            return
        for node_id in gone:
            log.warning("a member that nobody has seen was removed", node=node_id, window_s=at.settings.trim_window_s)
        await follow_trim(at, gone)

    def _is_ready(self) -> bool:
        return not (self._readiness.reason or self._at.fault or self._at.publisher.clock_fault())


async def follow_trim(at: Coordinator, gone: Sequence[str]) -> None:
    """Whoever depends on who is a member is told; open connections of those that have gone end (threats M07)."""
    if gone:
        await at.pins.load()
        for node_id in gone:
            at.board.forget(node_id)
        at.rollouts.wake()
        at.publisher.wake()

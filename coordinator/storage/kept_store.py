"""One store that this coordinator knows a way to: whether it is this one's to keep up, a round, and how it stands.

Who comes to nothing there gives way (storage_records.py), and does not take the store back while it rests itself: so
two coordinators that both fail take turns no more often than each would have tried alone.
"""

import random
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base import clock
from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database, in_library
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.storage import storage_records
from coordinator.storage.storage_error import StorageError
from coordinator.storage.storage_records import KEEP_S, StoreLease, StoreReport
from coordinator.storage.upkeep import RepeatedHead, StoreUpkeep, WantedFiles
from coordinator.storage.ways import StoreWay
from wire.backoff import BackOff
from wire.logs import log

MOST_REST_S = 300.0
REPEAT_S = 30.0  # between two rounds while the database is away


@dataclass(frozen=True)
class Keeping:
    """What all stores of one coordinator have in common, as storages.py says it."""

    database: Database
    coordinator_id: str
    now: Callable[[], float]
    fault: Callable[[], str]
    check_s: float
    reports: MutableMapping[str, StoreReport]
    failures: MutableMapping[str, int]


class KeptStore:
    def __init__(self, keeper: Keeping, endpoint_id: str, way: StoreWay) -> None:
        self.way = way
        self._keeper = keeper
        self._upkeep = StoreUpkeep(keeper.database, keeper.check_s)
        self._rest = BackOff(random.uniform, cap_s=MOST_REST_S)
        self._rests_until = float("-inf")
        self._is_ours = self._is_begun = False
        self._report = StoreReport(way.name)
        self._id = endpoint_id
        place = way.place or storage_records.SHARED
        self._lease = StoreLease(keeper.database, endpoint_id, place, keeper.coordinator_id, clock.elapsed_s)

    async def turn(self, wanted: WantedFiles) -> None:
        """Once, unless it rests."""
        if self._keeper.fault():  # whoever can is to go on; what lies there by then is compared before anything is put
            self._upkeep.suspect()
            return
        if not self._is_ours and self._rests:
            return
        if not self._is_begun:
            await self._recall()
        await self._note_lacking(wanted)
        if not await self._hold() or self._rests or not await self._upkeep.is_work(wanted):
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_lease, wanted)
            await self._round(wanted)
            nursery.cancel_scope.cancel()
        await self._hold()

    async def repeat(self, heads: Sequence[RepeatedHead]) -> None:
        """While the database is away: of who kept the store up when it went, which nobody can be asked about."""
        self._upkeep.suspect()
        if not self._is_ours or self._rests:
            return
        self._rests_until = trio.current_time() + REPEAT_S
        try:
            async with AsyncExitStack() as stack:
                store = await stack.enter_async_context(self.way.open())
                count = await self._upkeep.bring_repeated(store, heads)
        except StorageError as error:
            self._note_failure(str(error.fault), error.detail, error.retry_after_s)
        else:
            if count:
                log.info("heads that were signed again are in a store", storage=self._id, heads=count)

    @property
    def _rests(self) -> bool:
        return trio.current_time() < self._rests_until

    async def _round(self, wanted: WantedFiles) -> None:
        try:
            async with AsyncExitStack() as stack:
                store = await stack.enter_async_context(self.way.open())
                is_whole = await self._upkeep.bring(store, wanted)
        except StorageError as error:
            self._note_failure(str(error.fault), error.detail, error.retry_after_s)
        except (SQLAlchemyError, Refused) as error:  # ours, and no verdict on the store
            reason = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.info("a store was not brought up to date", storage=self._id, reason=reason)
            self._rests_until = trio.current_time() + self._rest.note_failure()
            self._report = replace(self._report, gives_way=True)
        else:
            await self._note_round(wanted, is_whole=is_whole)
            return
        await self._note_lacking(wanted)

    async def _recall(self) -> None:
        """How it stood by the last word of whoever kept it up, this coordinator before its start or another one."""
        try:
            before = await in_library(self._lease.recall)
        except SQLAlchemyError:  # the next turn asks again
            return
        self._is_begun = True
        if before is not None:
            self._report = replace(before, way=self.way.name)
            self._upkeep.written, self._upkeep.removed = before.written, before.removed

    async def _note_round(self, wanted: WantedFiles, *, is_whole: bool) -> None:
        upkeep = self._upkeep
        refused: Sequence[tuple[str, str]] = sorted(upkeep.refused.items())
        if refused:
            path, why = refused[0]
            fault, _, detail = why.partition(": ")
            self._note_failure(fault, f"{path}: {detail}", None)
            self._report = replace(self._report, gives_way=False)  # another one would bring the same file
        else:
            if self._report.fault:
                log.info("a store is written again", storage=self._id)
            self._rest.note_success()
            self._report = replace(self._report, fault="", detail="", gives_way=False)
        good_at = self._keeper.now() if is_whole else self._report.good_at
        self._report = replace(self._report, refused=len(refused), good_at=good_at)
        await self._note_lacking(wanted)

    def _note_failure(self, fault: str, detail: str, retry_after_s: float | None) -> None:
        if self._report.fault != fault:
            log.warning("a store is not up to date", storage=self._id, fault=fault, detail=detail)
        failures = self._keeper.failures
        failures[self._id] = failures.get(self._id, 0) + 1
        self._rests_until = trio.current_time() + self._rest.note_failure(retry_after_s)
        self._report = replace(self._report, fault=fault, detail=detail, gives_way=True)

    async def _note_lacking(self, wanted: WantedFiles) -> None:
        """As far as is known: until a store has been listed, what was said of it before stands; of one that fails from
        the beginning nothing is known to lie there.
        """
        upkeep = self._upkeep
        self._report = replace(self._report, written=upkeep.written, removed=upkeep.removed)
        if not upkeep.is_known and (self._report.files or not self._report.fault):
            return
        behind = len(await in_library(upkeep.lacking, wanted))
        since = (self._report.behind_since or self._keeper.now()) if behind else None
        self._report = replace(self._report, files=upkeep.files, behind=behind, behind_since=since)

    async def _hold(self) -> bool:
        """Whether it is ours now; who gets it lists it first."""
        was_ours = self._is_ours
        try:
            self._is_ours = await in_database(self._lease.hold, self._report, self._keeper.now())
        except SQLAlchemyError:  # it may be another one's by now
            self._upkeep.suspect()
            return False
        if not (was_ours and self._is_ours):
            self._upkeep.forget()
        if self._is_ours:
            self._keeper.reports[self._id] = self._report
        else:
            self._is_begun = False
            self._keeper.reports.pop(self._id, None)
        return self._is_ours

    async def _keep_lease(self, wanted: WantedFiles) -> None:
        while True:
            await trio.sleep(KEEP_S)
            await self._note_lacking(wanted)
            await self._hold_on()

    async def _hold_on(self) -> None:
        """In the middle of a round, which goes on in any case."""
        try:
            await in_database(self._lease.hold, self._report, self._keeper.now())
        except SQLAlchemyError as error:
            log.info("nothing was said of a store", storage=self._id, reason=line_of(error))

"""What this coordinator says of itself, twice a minute and at its end (membership/replica_reports.py)."""

from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_database
from coordinator.database.database_fault import line_of
from coordinator.membership import replica_reports
from coordinator.membership.replica_reports import ReplicaReport
from coordinator.runtime.context import Coordinator
from coordinator.runtime.maintenance import Keeper
from coordinator.runtime.metrics import Readiness
from wire.logs import log
from wire.version import VERSION


class OwnReport:
    def __init__(self, coordinator: Coordinator, readiness: Readiness, keeper: Keeper) -> None:
        self._at = coordinator
        self._readiness = readiness
        self._keeper = keeper
        self._started_at = coordinator.now()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(replica_reports.NOTE_S)
            await self.note()

    async def note(self, *, is_stopped: bool = False) -> None:
        """Once."""
        at = self._at
        report = ReplicaReport(
            coordinator_id=at.coordinator_id,
            at=at.now(),
            started_at=self._started_at,
            version=VERSION,
            certificate_sha256=at.shown.certificate.fingerprint,
            reason="" if is_stopped else self._readiness.reason or at.fault or at.publisher.clock_fault(),
            mark=self._keeper.newest,
            is_stopped=is_stopped,
        )
        try:
            await in_database(partial(replica_reports.note, at.database, report))
        except (SQLAlchemyError, Refused) as error:  # the next one is as good; where none arrives, that is seen
            reason = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.info("nothing was said to the other coordinators", reason=reason)

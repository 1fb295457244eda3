"""What goes with time: whether this replica is ready, what other replicas have done, what may be thrown away.

Other replicas are noticed by polling alone (rules H10: everything passes without a notification): their publications
wake our polls, their changes of the catalog move our pins, within `store_polling_s`.
"""

import structlog
import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator import authority, library, put_back, situation, upkeep
from coordinator.database import Database
from coordinator.metrics import Readiness
from coordinator.refusal import Refused
from coordinator.running import Coordinator
from coordinator.threads import in_database, in_library

TRIM_S = 3_600.0

_log = structlog.get_logger(__name__)


class Keeper:
    def __init__(self, coordinator: Coordinator, readiness: Readiness) -> None:
        self._at = coordinator
        self._readiness = readiness
        self._known: authority.Standing | None = None

    async def look(self) -> None:
        """Once: the state of the database, and what has changed there without us."""
        at = self._at
        try:
            standing, fault = await in_library(_standing, at.database, at.now())
            self._stand(put_back.reason_of(standing))
            self._ready(fault)
            if self._known is None or standing.state_id != self._known.state_id:
                self._known = standing
                await at.pins.load()
                at.publisher.wake()
            if not at.database.is_sqlite:  # of a SQLite file we are the only one (rules P8)
                await self._others()
        except Refused as refused:
            self._ready(str(refused))
        except SQLAlchemyError as error:
            self._ready(f"the database does not answer: {type(error).__name__}")

    async def poll(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(self._at.settings.store_polling_s)
            await self.look()

    async def trim(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(TRIM_S)
            try:
                gone = await in_database(upkeep.trim, self._at.database, now=self._at.now(), settings=self._at.settings)
                _log.info("trimmed", **gone)
            except SQLAlchemyError as error:  # the next hour is as good
                _log.error("not trimmed", error=type(error).__name__)

    async def _others(self) -> None:
        known = self._at.board.nodes()
        published = await in_library(library.pairs, self._at.database)
        for node_id, pair in published.items():
            if pair > known.get(node_id, (0, 0)):
                self._at.board.forget(node_id)

    def _stand(self, reason: str) -> None:
        if reason and not self._at.standstill.reason:
            _log.error("nothing is signed or served", reason=reason)
            self._at.board.wake_all()
        self._at.standstill.reason = reason

    def _ready(self, reason: str) -> None:
        if reason != self._readiness.reason:
            _log.info("ready" if not reason else "not ready", reason=reason)
        self._readiness.reason = reason


def _standing(database: Database, now: float) -> tuple[authority.Standing, str]:
    """The state, and what keeps it from being served, or nothing."""
    with database.read() as transaction:
        standing = authority.standing(transaction)
        found = situation.latest_bundle(transaction)
    if found is None:
        return standing, "no trust bundle was added yet"
    return standing, "the trust bundle has expired" if now >= found[1].expires_at else ""

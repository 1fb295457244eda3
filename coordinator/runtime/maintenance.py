"""What goes with time: whether this replica is ready, what other replicas have done, what may be thrown away.

Other replicas are noticed by polling alone (rules H10: everything passes without a notification): their publications
wake our polls, their changes of the catalog move our pins, within `store_polling_s`.
"""

from collections.abc import Sequence
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database, in_library
from coordinator.database import cluster_state, history, history_check
from coordinator.database.continuity import Continuity, LastSeen, LinkMark
from coordinator.database.database import Database
from coordinator.database.database_fault import is_silence, line_of
from coordinator.database.history import LinkedHistory
from coordinator.keys.signing_key import SigningKey
from coordinator.membership import ca_exchange, moving, refused_joins
from coordinator.publishing import head_cache, published_state
from coordinator.publishing.board import Board
from coordinator.publishing.signing_context import Issue, Unpublishable
from coordinator.runtime import retention
from coordinator.runtime.context import Coordinator
from coordinator.runtime.metrics import Readiness
from coordinator.trust import restored_backup
from snapshot.bundle import ACTIVE, CONFIG
from snapshot.ending import short
from snapshot.identifiers import HEAD
from wire.logs import log

TRIM_S = 3_600.0
LINK_S = 60.0
_OF_THE_HISTORY = (Code.UNTRUSTED_HISTORY, Code.NOT_IN_MANIFEST, Code.RECOVERY_MODE)


class Keeper:
    def __init__(self, coordinator: Coordinator, readiness: Readiness) -> None:
        self._at = coordinator
        self._readiness = readiness
        self._said: str | None = None
        self._continuity = Continuity()
        self.newest = LinkMark()  # the newest link of the history, as it was seen last
        self._broken = ""

    @property
    def continuity(self) -> Continuity:
        """That of the history: it may come while this runs (recovering.py)."""
        kept = self._at.database.history
        return (kept.continuity if isinstance(kept, LinkedHistory) else None) or self._continuity

    async def look(self) -> None:
        """Once: the state of the database, and what has changed there without us."""
        async with self._at.standstill.reading:
            await self._look()

    async def _look(self) -> None:
        at = self._at
        try:
            publisher = at.publisher
            looked = partial(_look_at_keys, at.database, publisher.keys, at.settings, at.now())
            standing, unable, without_keys, issue = await in_library(looked)
            await self._look_at_history()
            at.standstill.moved = await in_library(moving.exported_to, at.database)
            if at.absence.unread:
                at.standstill.lost = at.standstill.lost or await in_library(_lost_heads, at.database, at.board)
            known, behind = at.standstill.known, at.standstill.behind(standing)
            self._stand(restored_backup.reason_of(standing) or behind, without_keys)
            await self._remember(standing, behind)
            publisher.health.outlook = publisher.clock_fault() or unable
            if behind and known is None:  # members are told that we are not ready, and not that they are strangers
                await at.pins.load()
            if not behind and (known is None or standing.state_id != known.state_id):
                await self._list_authority()
                at.standstill.known = standing
                await at.pins.load()
                at.publisher.wake()
            if not at.database.is_sqlite:  # of a SQLite file we are the only one (rules P8)
                await self._others()
            if at.database.write_fault:  # nobody else may write while we are not ready
                await in_database(at.database.check_writing)
            at.absence.note_answer(None if unable or at.standstill.why else issue, now=at.now())
            self._ready(at.database.shortage())
        except Refused as refused:
            at.absence.note_answer(None, now=at.now())
            self._ready(str(refused))
        except SQLAlchemyError as error:
            if is_silence(error):
                self._be_without(line_of(error))
            else:
                self._note_refusal(line_of(error))
        except OSError as error:  # the place of a SQLite file is gone
            self._be_without(str(error))

    async def _list_authority(self) -> None:
        """A database from before an exchange of CAs is told which one is shown; until then nothing is published."""
        at, shown = self._at, self._at.shown
        named = (at.database, at.coordinator_id, shown.certificate.der, shown.authorities)
        if not await in_library(partial(ca_exchange.is_followed, *named, is_exchanged=shown.is_exchanged)):
            await in_database(partial(ca_exchange.follow, *named, is_exchanged=shown.is_exchanged, now=at.now()))
            at.publisher.reconsider()

    async def _look_at_history(self) -> None:
        """Its newest link, and whether it has what was seen of it before, also where it cannot be believed."""
        at = self._at.standstill
        seen = self.continuity.seen  # before what is read: what is made meanwhile need not be in it
        try:
            self.newest = await in_library(_read_newest, self._at.database)
        except Refused as refused:
            if refused.code not in _OF_THE_HISTORY:
                raise
            is_recovering = refused.code is Code.RECOVERY_MODE and at.recovery
            at.history = f"{refused}; {at.recovery}" if is_recovering else str(refused)
        else:
            at.history = self._broken
        at.gap_epoch = seen.authority_epoch
        at.gap = await in_library(_find_gap, self._at.database, seen)

    async def walk(self) -> None:
        """Until cancelled: link by link from the oldest one, and then whatever comes. What is broken is looked at again
        from the beginning, once a minute: it may have been put right.
        """
        at = LinkMark()
        while True:
            try:
                before, at = at, await in_library(history_check.walk, self._at.database, at)
                self._broken = ""
                is_done = at == before
            except Refused as refused:
                at, is_done = LinkMark(), True
                if isinstance(self._at.database.history, LinkedHistory):
                    self._broken = str(refused)
            except SQLAlchemyError:  # `look` says so
                is_done = True
            await trio.sleep(LINK_S if is_done else 0)

    async def link(self) -> None:
        """Until cancelled: audit rows of reports are proven within a minute, though nothing else changes."""
        while True:
            await trio.sleep(LINK_S)
            try:
                await in_database(history.link_strays, self._at.database, now=self._at.now())
            except (SQLAlchemyError, Refused) as error:  # `look` says why
                log.info("audit rows were not linked", reason=str(error))

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
                gone = await in_database(
                    retention.trim, self._at.database, now=self._at.now(), settings=self._at.settings
                )
                log.info("trimmed", **gone)
                while await in_database(self._at.database.shrink):  # what others want to write comes between
                    pass
            except (SQLAlchemyError, Refused) as error:  # the next hour is as good
                reason = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
                log.error("not trimmed", reason=reason)  # noqa: TRY400 - no trace needed

    async def note_refused_joins(self) -> None:
        """Until cancelled: once a minute, in one transaction."""
        while True:
            await trio.sleep(refused_joins.FLUSH_S)
            await self._at.refused_joins.flush(self._at.database, self._at.now())

    async def _others(self) -> None:
        known = self._at.board.nodes()
        published = await in_library(head_cache.pairs, self._at.database)
        for node_id, pair in published.items():
            if pair > known.get(node_id, (0, 0)):
                self._at.board.forget(node_id)

    async def _remember(self, standing: cluster_state.ClusterState, behind: str) -> None:
        """What was seen, over a restart; and of a database that has gone back, for the others."""
        if not behind:
            await in_database(self.continuity.note, self.newest, standing.authority_epoch)
        elif self._at.standstill.gap and not standing.is_restored:
            await self._put_back(standing)

    async def _put_back(self, standing: cluster_state.ClusterState) -> None:
        """What this replica alone knows the others are to know as well, and whoever starts here later."""
        try:
            why = (self._at.standstill.gap, max(standing.authority_epoch, self.continuity.seen.authority_epoch))
            kept = partial(restored_backup.keep_gap, self._at.database, self._at.coordinator_id, *why)
            await in_database(partial(kept, now=self._at.now()))
        except Refused as refused:
            log.error("the others do not know that the database has gone back", reason=str(refused))  # noqa: TRY400

    def _stand(self, reason: str, without_keys: str) -> None:
        standstill = self._at.standstill
        stood = standstill.why
        standstill.reason, standstill.without_keys = reason, without_keys
        if standstill.why and not stood:
            log.error("nothing is signed or served", reason=standstill.why)
            self._at.board.wake_all()
        if stood and not standstill.why:
            self._at.publisher.reconsider()

    def _be_without(self, fault: str) -> None:
        """The database is away; what is done about it is said beside it."""
        absence = self._at.absence
        absence.note_silence()
        self._ready("; ".join(filter(None, (f"the database does not answer: {fault}", absence.words))))

    def _note_refusal(self, fault: str) -> None:
        """The database answers, and it is no work of ours any more, or not yet."""
        self._at.absence.note_refusal()
        self._ready(f"the database refuses this coordinator: {fault}; nothing is signed, nor signed again")

    def _ready(self, reason: str) -> None:
        """What the log is told is what the probe says."""
        self._readiness.reason = reason
        said = reason or self._at.fault
        if said and said != self._said:
            log.error("not ready", reason=said)
        elif said != self._said:
            log.info("ready")
        self._said = said


def _read_newest(database: Database) -> LinkMark:
    return history.look(database) or LinkMark()


def _find_gap(database: Database, seen: LastSeen) -> str:
    """What of the history is missing, or nothing."""
    with database.read() as transaction:
        return seen.gap(transaction, cluster_state.standing(transaction).authority_epoch)


def _lost_heads(database: Database, board: Board) -> str:
    """What a database that was away lacks of heads that were out before, or nothing. Those of nodes that have left are
    kept, so that one which is missing was lost, too.
    """
    found = head_cache.pairs(database)
    lost = sorted(node_id for node_id, news in board.items() if found.get(node_id, (0, 0)) < news.base)
    return f"the database lacks the last head of {', '.join(lost[:3])}: it was restored" if lost else ""


def _look_at_keys(
    database: Database, keys: Sequence[SigningKey], settings: CoordinatorSettings, now: float
) -> tuple[cluster_state.ClusterState, str, str, Issue | None]:
    """The state; why no head could be signed from it now; which keys others may have and we lack: or nothing. And by
    what heads are signed.
    """
    with database.read() as transaction:
        standing = cluster_state.standing(transaction)
        try:
            issue = published_state.read_issue(transaction, keys, settings, now)
        except (Unpublishable, Refused) as fault:
            return standing, str(fault), "", None
    try:
        issue.signers(HEAD)
    except Unpublishable as fault:
        return standing, str(fault), _missing_keys(issue), None
    return standing, "the trust bundle has expired" if now >= issue.bundle.expires_at else "", "", issue


def _missing_keys(issue: Issue) -> str:
    """Nothing where nobody could sign: there is no replica that nodes could go to, and they are given what there is."""
    needed = issue.bundle.config_threshold(HEAD)
    able = [
        key_id
        for key_id, record in issue.bundle.keys.items()
        if record.status == ACTIVE
        and record.fault(issue.cluster_id, issue.now, HEAD, CONFIG, key_id in issue.revocations.key_ids) is None
    ]
    held = {key.key_id for key in issue.keys}
    missing = [short(key_id) for key_id in able if key_id not in held]
    if len(able) < needed or not missing:
        return ""
    has = len(able) - len(missing)
    said = f"this replica is without its keys: {needed} of the config keys must sign, and it holds {has}; missing: "
    return said + ", ".join(missing)

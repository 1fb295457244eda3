"""The task that keeps what is published up with what is declared: compiles on change, renews, re-signs heads.

One task, one straight loop: which nodes are due, compile a batch, publish it, tell who waits. It is woken by a change
and looks by itself every second, so a missed wake-up costs a second and nothing else (rules J42). A batch that fails is
made again from what then stands in the database, after that second; nothing is resumed. Nodes that cannot be signed
rest ever longer (backoff.py): a batch in vain costs the others that second, and no more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.backoff import Resting
from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_compiler, in_database
from coordinator.database.database import Database
from coordinator.database.database_fault import told
from coordinator.database.documents import Document
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, heads
from coordinator.publishing.backlog import Backlog, Batch
from coordinator.publishing.board import Board, News
from coordinator.publishing.heads import Publication
from coordinator.publishing.signing_context import Unpublishable
from snapshot import container
from snapshot.identifiers import HEAD

TICK_S = 1.0
BATCH = 64
ROUNDS = 30  # of renewals, at most, in the time of one head: half a minute as it is set
ACTOR = "coordinator"

_log = structlog.get_logger(__name__)


@dataclass
class Health:
    """How publishing goes. `failed`: by node and scope, what could not be published and why, until it could.

    Why nothing can be published at all, or nothing: `fault` as the last attempt has shown, `outlook` as an attempt
    would find now (maintenance.py), while nothing is due.
    """

    published_heads: int = 0
    published_documents: int = 0
    conflicts: int = 0
    database_faults: int = 0
    behind: int = 0
    fault: str = ""
    outlook: str = ""
    failed: dict[str, dict[str, Unpublishable]] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        return self.fault or self.outlook


class Publisher:
    """`now` reads the clock, in Unix seconds; `keys` are the config keys that this replica signs with.

    `clock_fault`: why nothing is signed by that clock now, or nothing (clock_jump.py). `standstill`: why nothing may be
    signed from this database now, or nothing (maintenance.py).
    """

    def __init__(
        self,
        database: Database,
        keys: Sequence[SigningKey],
        settings: CoordinatorSettings,
        board: Board,
        now: Callable[[], float],
        clock_fault: Callable[[], str] = str,
        standstill: Callable[[], str] = str,
    ) -> None:
        self._database = database
        self.keys = tuple(keys)
        self._settings = settings
        self._board = board
        self._now = now
        self.clock_fault = clock_fault
        self._standstill = standstill
        self._backlog = Backlog()
        self._urgent: list[str] = []
        self._woken = trio.Event()
        self.health = Health()
        self._resting = Resting(trio.current_time)

    def wake(self) -> None:
        """Something has changed: look now."""
        self._woken.set()

    def sign_with(self, keys: Sequence[SigningKey]) -> None:
        """From now on; what was said of the keys before no longer counts."""
        self.keys = tuple(keys)
        self.reconsider()

    def reconsider(self) -> None:
        """What stood in the way may be gone."""
        self.health.fault = self.health.outlook = ""
        self._resting.clear()
        self.wake()

    async def published(self, node_id: str) -> None:
        """Until a head of this node has gone out that was made from now on; it goes first."""
        self._urgent.append(node_id)
        self.wake()
        await self._board.wait(node_id)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken = trio.Event()
            try:
                await self._publish_due()
            except SQLAlchemyError as error:  # the database's fault, not this program's: it may come back
                self.health.database_faults += 1
                _log.error("nothing published", reason=told(error))
                await trio.sleep(TICK_S)  # whoever wakes us meanwhile
            with trio.move_on_after(TICK_S):
                await self._woken.wait()

    async def _publish_due(self) -> None:
        round_s = self._settings.head_refresh_s / ROUNDS
        due = await in_compiler(backlog.due, self._database, self._now(), round_s=round_s, most=BATCH)
        if not due:
            self.health.fault = ""  # what could not be published is not to be any more
        rested = self._resting.ready(due)
        first = [node_id for node_id in dict.fromkeys(self._urgent) if node_id in set(rested)]
        self._urgent.clear()
        waiting = [*first, *(node_id for node_id in rested if node_id not in set(first))]
        self.health.behind = len(due)
        while waiting:
            chunk, waiting = waiting[:BATCH], waiting[BATCH:]
            if not await self._publish(chunk):
                await trio.sleep(TICK_S)  # nor is this tried again at once
                return
            self.health.behind = len(waiting) + len(self._resting)
            if self._urgent:
                return  # somebody waits: begin anew, with them first

    async def _publish(self, node_ids: Sequence[str]) -> bool:
        """Whether to go on."""
        now = self._now()
        fault = self.clock_fault() or self._standstill()  # asked after it was read: a leap in between is one
        if fault:
            self._cannot(fault)
            return False
        keys = self.keys
        try:
            batch: Batch = await in_compiler(
                backlog.prepare, self._database, self._backlog, keys, self._settings, node_ids, now
            )
            if keys is not self.keys:  # exchanged meanwhile: made, or not made, by keys that are not ours any more
                self.wake()
                return True
            self._note(batch)
            await self._put_out([each.publication for each in batch.drafts])
        except (Unpublishable, Refused) as fault:  # no trust bundle, no state, or one that was restored meanwhile
            self._cannot(str(fault))
            return False
        return not (batch.unsigned and not batch.drafts)

    async def _put_out(self, publications: Sequence[Publication]) -> None:
        if publications:
            refusals = await in_database(heads.publish, self._database, publications, actor=ACTOR, now=self._now())
            self._tell(publications, refusals)

    def _cannot(self, fault: str) -> None:
        if fault != self.health.fault:
            _log.error("nothing can be published", reason=fault)
        self.health.fault = fault

    def _note(self, batch: Batch) -> None:
        if batch.drafts:
            self.health.fault = ""
        for node_id, fault in batch.unsigned.items():
            self.health.failed[node_id] = {"head": fault}
            is_known = self._resting.has_failed(node_id)
            self._resting.failed(node_id)
            if is_known:
                continue
            if batch.drafts:
                _log.error("not published", node=node_id, scope=HEAD, reason=str(fault))
            else:
                self._cannot(str(fault))
        for each in batch.drafts:
            self.health.failed.pop(each.publication.node_id, None)
            if each.failed:
                self.health.failed[each.publication.node_id] = dict(each.failed)
            for scope, fault in each.failed.items():
                _log.error("not published", node=each.publication.node_id, scope=scope, reason=str(fault))

    def _tell(self, publications: Sequence[Publication], refusals: "dict[str, Refused]") -> None:
        for each in publications:
            refused = refusals.get(each.node_id)
            if refused is not None:
                self.health.conflicts += 1
                self._backlog.failed(each.node_id)
                _log.info("changed or published by somebody else meanwhile", node=each.node_id, detail=refused.detail)
                self._resting.outrun(each.node_id)
                continue
            self._resting.succeeded(each.node_id)
            self.health.published_heads += 1
            self.health.published_documents += len(each.documents)
            self._backlog.done(each.node_id)
            self._board.announce(each.node_id, news_of(each.head, each.refresh_after))


def news_of(head: Document, refresh_after: int) -> News:
    return News((head.authority_epoch, head.config_version), container_of(head), refresh_after)


def container_of(document: Document) -> bytes:
    return b"".join(container.encode(document.envelope, document.signatures, document.manifest, document.sections))

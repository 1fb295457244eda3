"""The task that keeps what is published up with what is declared: compiles on change, renews, re-signs heads.

One task, one straight loop: which nodes are due, compile a batch, publish it, tell who waits. It is woken by a change
and looks by itself every second, so a missed wake-up costs a second and nothing else (rules J42). A batch that fails is
made again from what then stands in the database, after that second; nothing is resumed. Nodes that cannot be signed
rest ever longer (backoff.py): a batch in vain costs the others that second, and no more.

The rules of the room:

1. What is due is a question to the database (`backlog.due`), not a list in memory: a replica that starts, or one that
   was beaten to it, finds the same answer.
2. Three steps, in three places: compile and sign in a thread of the compiler, publish in one transaction, tell those
   who wait on the event loop. Only the second changes anything, and it is refused where the first is outdated.
3. What changes faster than it compiles loses each swap. So the nodes whose head ends first go first, a batch after one
   that has lost some is half as large, and whoever was outrun MOST_OUTRUN times in a row is compiled within the
   transaction that publishes it (locked_batch.py), which nothing can outrun: one node at least with each of these.
4. Several coordinators may publish at once. Each says first which nodes it takes (replicas/claims.py), so that none
   makes what another one makes. Who comes second for a node all the same gets `conflict` and leaves it alone for a
   moment; there is no leader, and nothing is lost when one dies between two steps.
5. Nothing is signed while the clock is in doubt, while the database turned out to be restored, or with keys that were
   exchanged in between.

Example. An apply touches 3,000 of 4,000 nodes. They are compiled in batches, and each batch goes out before the
next is compiled, so the first nodes have theirs after a fraction of the time. While the third batch is made, a node
joins: it is put first (`wait_published`), and does not wait for the rest. One of the 3,000 has a scope that cannot be
compiled: its head lists the version before of that scope, everything else of it is new, and `health.failed` says why.

Rejected:

- A queue of jobs with rows of its own: it would have to agree with the declared state for ever, and each crash would
  be a question about half-done jobs. Generation against published generation is one comparison.
- Electing a leader: the swap in `heads.publish` is needed anyway, and makes an election a mere optimisation that
  brings its own failures.
- Signing when a node asks: a coordinator in a storm would sign for it, and an answer would depend on when it was
  asked.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base import clock
from coordinator.base.backoff import Resting
from coordinator.base.refusal import Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_compiler, in_database
from coordinator.database.database import Database
from coordinator.database.database_fault import line_of
from coordinator.database.documents import Document, container_of
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, heads, locked_batch
from coordinator.publishing.backlog import Backlog, Batch
from coordinator.publishing.board import Board, News
from coordinator.publishing.handouts import Handouts
from coordinator.publishing.newcomers import Newcomers
from coordinator.publishing.publication import Draft
from coordinator.publishing.signing_context import Unpublishable
from coordinator.replicas import claims
from coordinator.replicas.claims import Claims
from snapshot.identifiers import HEAD
from wire.logs import log

TICK_S = 1.0
BATCH = 256  # nodes, at most; fewer where much is compiled of each (backlog.py)
MOST_OUTRUN = 2
ROUNDS = 30  # of renewals, at most, in the time of one head: half a minute as it is set
ACTOR = "coordinator"


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
    signed from this database now, or nothing (maintenance.py). `claimed`: by which others know what this one is at.
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
        claimed: Claims | None = None,
    ) -> None:
        self._database = database
        self.keys = tuple(keys)
        self._settings = settings
        self._board = board
        self._now = now
        self.clock_fault = clock_fault
        self._standstill = standstill
        self._claims = claimed
        self._backlog = Backlog()
        self._newcomers = Newcomers()
        self.handouts = Handouts()
        self._urgent: list[str] = []
        self._woken = trio.Event()
        self._at_rest = trio.Event()
        self._at_rest.set()
        self.health = Health()
        self._resting = Resting(trio.current_time)
        self._most = BATCH

    def wake(self) -> None:
        """Something has changed: look now."""
        self._woken.set()

    def require_listed(self, unlisted: Callable[[Sequence[bytes]], str]) -> None:
        """From now on: why nodes must not be told of these CAs, or nothing (ca_exchange.py)."""
        self._backlog.unlisted = unlisted

    def sign_with(self, keys: Sequence[SigningKey]) -> None:
        """From now on; what was said of the keys before no longer counts."""
        self.keys = tuple(keys)
        self.reconsider()

    def reconsider(self) -> None:
        """What stood in the way may be gone."""
        self.health.fault = self.health.outlook = ""
        self._resting.clear()
        self.wake()

    async def wait_published(self, node_id: str) -> None:
        """Until a head of this node has gone out that was made from now on; it goes first."""
        self._urgent.append(node_id)
        if self._at_rest.is_set():  # else it is looked at then, unless it is out by then
            self.wake()
        await self._board.wait(node_id)

    async def wait_at_rest(self) -> None:
        """Until no batch is being made, and what the last ones were made for is out."""
        await self._at_rest.wait()

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            if self._claims is not None:
                nursery.start_soon(self._keep, self._claims)
            await self._run()

    async def _run(self) -> None:
        while True:
            self._woken, self._at_rest = trio.Event(), trio.Event()
            try:
                await self._publish_due()
            except SQLAlchemyError as error:  # the database's fault, not this program's: it may come back
                self.health.database_faults += 1
                log.error("nothing published", reason=line_of(error))  # noqa: TRY400 - no trace needed
                await trio.sleep(TICK_S)  # whoever wakes us meanwhile
            finally:
                self._at_rest.set()
            with trio.move_on_after(0 if self._urgent else TICK_S):
                await self._woken.wait()

    async def _keep(self, claimed: Claims) -> None:
        """Until cancelled: others see that this one is at it still."""
        while True:
            await trio.sleep(claims.KEEP_S)
            if claimed.holds:
                with suppress(SQLAlchemyError):  # then nothing can be published either, and that says so
                    await in_database(claimed.keep)

    async def _publish_due(self) -> None:
        now, round_s = self._now(), self._settings.head_refresh_s / ROUNDS
        urgent, self._urgent = dict.fromkeys(self._urgent), []
        due = await in_compiler(backlog.due, self._database, now, round_s=round_s, most=BATCH)
        if not due:
            self.health.fault = ""  # what could not be published is not to be any more
        rested = self._resting.ready(due)
        if rested:
            rested = await in_compiler(self._newcomers.choose, self._database, rested, trio.current_time(), urgent)
        ready = set(rested)
        first = [node_id for node_id in urgent if node_id in ready]
        waiting = [*first, *(node_id for node_id in rested if node_id not in urgent)]
        self.health.behind = len(due)
        try:
            await self._publish_all(waiting, now + round_s)
        finally:
            if self._claims is not None and self._claims.holds:
                await in_database(self._claims.release)

    async def _publish_all(self, waiting: Sequence[str], due_by: float) -> None:
        while waiting:
            batch = self._next_of(waiting)
            taken = await self._take(batch, due_by)
            tried = await self._publish(taken) if taken else ()
            if taken and not tried:
                await trio.sleep(TICK_S)  # nor is this tried again at once
                return
            over = {*batch}.difference(taken).union(tried)  # what another one is at is not ours
            waiting = [node_id for node_id in waiting if node_id not in over]
            self.health.behind = len(waiting) + len(self._resting)
            if self._urgent:
                return  # somebody waits: begin anew, with them first

    def _next_of(self, waiting: Sequence[str]) -> Sequence[str]:
        """The first one, and those after it that are published as it is."""
        is_outrun = self._is_outrun(waiting[0])
        like_it = [node_id for node_id in waiting if self._is_outrun(node_id) is is_outrun]
        return like_it[: locked_batch.MOST if is_outrun else self._most]

    def _is_outrun(self, node_id: str) -> bool:
        return self._resting.times_outrun(node_id) >= MOST_OUTRUN

    async def _take(self, node_ids: Sequence[str], due_by: float) -> Sequence[str]:
        """Of these, what no other replica is at work on."""
        if self._claims is None or self.clock_fault() or self._standstill():
            return node_ids
        return await in_database(self._claims.take, node_ids, at=trio.current_time(), due_by=due_by)

    async def _publish(self, node_ids: Sequence[str]) -> Sequence[str]:
        """Who was tried: the first of them. Nobody where there is no going on."""
        now = self._now()
        fault = self.clock_fault() or self._standstill()  # asked after it was read: a leap in between is one
        if fault:
            self._cannot(fault)
            return ()
        keys = self.keys
        try:
            if self._is_outrun(node_ids[0]):
                return await self._publish_under_lock(node_ids, now)
            batch: Batch = await in_compiler(
                backlog.prepare, self._database, self._backlog, keys, self._settings, node_ids, now
            )
            if keys is not self.keys:  # exchanged meanwhile: made, or not made, by keys that are not ours any more
                self.wake()
                return node_ids
            self._note(batch)
            await self._put_out(batch.drafts)
        except (Unpublishable, Refused) as fault:  # no trust bundle, no state, or one that was restored meanwhile
            self._cannot(str(fault))
            return ()
        return () if batch.unsigned and not batch.drafts else batch.node_ids

    async def _publish_under_lock(self, node_ids: Sequence[str], now: float) -> Sequence[str]:
        """A refusal is no conflict here: there is nobody to come second to."""
        batch, refusals = await in_database(
            locked_batch.publish,
            self._database,
            self._backlog,
            self.keys,
            self._settings,
            node_ids,
            actor=ACTOR,
            now=now,
            elapsed_s=clock.elapsed_s,
        )
        self._note(batch)
        self._tell(batch.drafts, refusals)
        for node_id, refused in refusals.items():
            self._backlog.note_failure(node_id)
            self._resting.note_failure(node_id)
            self.health.failed[node_id] = {HEAD: Unpublishable(refused.code.value, refused.detail)}
        return batch.node_ids

    async def _put_out(self, drafts: Sequence[Draft]) -> None:
        if drafts:
            publications = [draft.publication for draft in drafts]
            refusals = await in_database(heads.publish, self._database, publications, actor=ACTOR, now=self._now())
            self._most = max(1, len(drafts) // 2) if refusals else min(BATCH, 2 * self._most)
            self._tell(drafts, refusals)

    def _cannot(self, fault: str) -> None:
        if fault != self.health.fault:
            log.error("nothing can be published", reason=fault)
        self.health.fault = fault

    def _note(self, batch: Batch) -> None:
        if batch.drafts:
            self.health.fault = ""
        for node_id, fault in batch.unsigned.items():
            self.health.failed[node_id] = {"head": fault}
            is_known = self._resting.has_failed(node_id)
            self._resting.note_failure(node_id)
            if is_known:
                continue
            if batch.drafts:
                log.error("not published", node=node_id, scope=HEAD, reason=str(fault))
            else:
                self._cannot(str(fault))
        for draft in batch.drafts:
            self.health.failed.pop(draft.publication.node_id, None)
            if draft.failed:
                self.health.failed[draft.publication.node_id] = dict(draft.failed)
            for scope, fault in draft.failed.items():
                log.error("not published", node=draft.publication.node_id, scope=scope, reason=str(fault))

    def _tell(self, drafts: Sequence[Draft], refusals: "dict[str, Refused]") -> None:
        documents: set[str] = set()  # many nodes may share one
        for draft in drafts:
            publication = draft.publication
            refused = refusals.get(publication.node_id)
            self._newcomers.note_attempt(publication.node_id)
            if refused is not None:
                self._resting.outrun(publication.node_id)
                continue
            self._resting.note_success(publication.node_id)
            self.health.published_heads += 1
            documents.update(document.snapshot_id for document in publication.documents)
            self._backlog.note_published(draft)
            self.handouts.keep(publication.documents)
            self._board.announce(publication.node_id, _news_of_draft(draft))
        self.health.published_documents += len(documents)
        told = {draft.publication.node_id for draft in drafts} - refusals.keys()
        self._urgent = [node_id for node_id in self._urgent if node_id not in told]
        if lost := [draft.publication.node_id for draft in drafts if draft.publication.node_id in refusals]:
            self._tell_lost(lost, refusals[lost[0]].detail)

    def _tell_lost(self, node_ids: Sequence[str], detail: str) -> None:
        """One line a batch: where a fleet reports while it is published for the first time, hundreds lose at once.
        `detail`: of the first of them.
        """
        self.health.conflicts += len(node_ids)
        what = "changed or published by somebody else meanwhile"
        log.info(what, nodes=len(node_ids), node=node_ids[0], detail=detail)


def _news_of_draft(draft: Draft) -> News:
    publication, names = draft.publication, draft.known.names
    new = tuple([document.entry.snapshot_id for document in draft.new])
    follows = publication.based_on.published
    return news_of(publication.head, publication.refresh_after, names, follows=follows, new=new)


def news_of(
    head: Document, refresh_after: int, names: frozenset[str], *, follows: int = 0, new: tuple[str, ...] = ()
) -> News:
    """`names`: the ids of what it lists, and of what it announces as coming."""
    pair = (head.authority_epoch, head.config_version)
    return News(pair, container_of(head), refresh_after, names, follows=follows, new=new)

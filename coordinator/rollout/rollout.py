"""The task that takes changes on: looks at those that are open, decides (progress.py), carries it out (steps.py).

Level-triggered: what comes next follows from what stands in the database, so a look too many changes nothing, and one
that was missed costs a second. It is woken by an apply, by a person's word, by what nodes report, and when a bake is
over; nothing is kept in memory but how long things have lasted (watch.py). A coordinator that is killed at any moment
goes on where it was, and two of them look at the same changes: each decision is saved against the revision that it was
made from, and who comes second has changed nothing and looks again.

While nodes vote, reports come by the hundred a second, and a look reads all nodes of a change: one for each batch of
them would cost the square of the fleet. So what they say is looked at for a tenth of the time at most, and a person's
word at once.

Looking is reading alone. Only where there is something to do is a transaction begun for it, in which all is read and
decided once more: what a node has said in between counts. Of a change that has just begun that is known without a look.

Where the database is away nothing goes on, and nothing is lost; what was not heard meanwhile is no silence.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.base.threads import in_database, in_planner
from coordinator.changes import records
from coordinator.changes.order import changes_before, in_order
from coordinator.changes.progress import NextMoves, NodeProgress, decide
from coordinator.changes.records import ChangeNode, ChangeRecord, change_name
from coordinator.changes.states import SETTLED, ChangeState, Outcome, Verdict
from coordinator.changes.votes import IGNORED, VoteCount
from coordinator.database.database import Database, Transaction
from coordinator.database.database_fault import line_of
from coordinator.rollout import commands, steps
from coordinator.rollout.facts import RolloutFacts
from coordinator.rollout.watch import AgeWatch
from snapshot.codes import CATALOGUE, Area
from wire.logs import log

ACTOR = "coordinator"
TICK_S = 1.0
REST, MOST_REST_S = 9, 2.0  # times as long as a look took, reports are gathered before the next one
MOST_AT_ONCE = 200  # lines of a timeline in one transaction
MOST_ROUNDS = 16  # in one look: whatever goes on for longer goes on with the next
_SAID = (Outcome.REFUSED, Outcome.REVERTED)
STATES = tuple(state.value for state in ChangeState)
VERDICTS = (Verdict.ACCEPTED.value, Verdict.REFUSED.value, IGNORED)
BY_OPERATOR, BY_COORDINATOR, BY_NODE = REVERTED_BY = ("operator", "coordinator", "node")
OTHER = "other"
_REASONS = CATALOGUE[Area.DOCUMENT].keys() | CATALOGUE[Area.NODES_OWN].keys()  # what else nodes say names no series

Moment = tuple[str, str, str]
"""A line of a timeline: what, node, detail."""


@dataclass
class RolloutHealth:
    """How changes go, for metrics and people. `waits`: by change, what each group waits for. Counted since the start:
    `votes` by verdict, `refusals` by reason, of the reasons that there are; `reverts` by who took something back.
    """

    waits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    votes: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    reverts: Counter[str] = field(default_factory=Counter)
    database_faults: int = 0


@dataclass(frozen=True)
class _Look:
    """One change at one look. `news`: what is not in its timeline yet; `waits_for`: the last change before it that is
    open; `reverting`: of one that goes back, the change that does it. `is_unseen`: its nodes were not looked at yet.
    """

    record: ChangeRecord
    nodes: Sequence[ChangeNode] = ()
    decided: NextMoves = field(default_factory=NextMoves)
    waits_for: int | None = None
    news: tuple[Moment, ...] = ()
    reverting: ChangeRecord | None = None
    is_unseen: bool = False

    @property
    def is_to_do(self) -> bool:
        if self.is_unseen:
            return True
        is_decided = bool(self.decided.moves) or self.decided.state is not None
        return is_decided or bool(self.news) or self.waits_for != self.record.waits_for or self.is_to_go_back

    @property
    def is_up_to_nodes(self) -> bool:
        """All that is to do is to give it to nodes: then nothing follows before they say something, where no other
        change waits for that. One more look reads all of them, while the publisher makes their heads.
        """
        decided = self.decided
        is_given = bool(decided.moves) and all(move.release for move in decided.moves)
        return is_given and decided.state in (None, ChangeState.ROLLING) and not self.news

    @property
    def is_to_go_back(self) -> bool:
        """Nobody has begun to take it back, or that is over."""
        if self.record.state is not ChangeState.REVERTING:
            return False
        return self.reverting is None or self.reverting.state in SETTLED


class Rollouts:
    """`now` reads the clock, in Unix seconds, `elapsed` the one that only runs. `wake_publisher`: nodes are to get new
    heads.
    """

    def __init__(
        self,
        database: Database,
        settings: CoordinatorSettings,
        now: Callable[[], float],
        elapsed: Callable[[], float],
        wake_publisher: Callable[[], None],
    ) -> None:
        self._database = database
        self._now = now
        self._elapsed = elapsed
        self._wake_publisher = wake_publisher
        self._watch = AgeWatch()
        self._facts = RolloutFacts(settings, self._watch, elapsed)
        self._noted: set[tuple[int, str, str]] = set()
        self._foreign: set[str] = set()
        self._tried: set[int] = set()  # changes that are open, and were gone on with
        self._woken, self._told = trio.Event(), trio.Event()
        self._due_at = math.inf  # of trio's clock
        self.health = RolloutHealth()

    def wake(self) -> None:
        """Somebody has decided something: look now."""
        self._woken.set()
        self._told.set()

    def take_note(self, counted: VoteCount) -> None:
        """What a batch of reports has brought."""
        self.health.votes.update(counted.verdicts)
        for reason, times in counted.reasons.items():
            self.health.refusals[reason if reason in _REASONS else OTHER] += times
        self.health.reverts[BY_NODE] += counted.taken_back
        for node_id in set(counted.foreign) - self._foreign:
            self._foreign.add(node_id)
            log.warning("a vote on what was never made for this node is ignored", node=node_id)
        if counted.has_news:
            self._told.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._woken, self._told = trio.Event(), trio.Event()
            begun = trio.current_time()
            try:
                await self.look()
            except SQLAlchemyError as error:  # the database's fault, not this program's: it may come back
                self.health.database_faults += 1
                log.error("changes not looked at", reason=line_of(error))  # noqa: TRY400 - no trace needed
                await trio.sleep(TICK_S)
            await self._rest(trio.current_time() - begun)

    async def _rest(self, taken_s: float) -> None:
        """Until there is something to look at; after a look that took so long."""
        with trio.move_on_after(min(REST * taken_s, MOST_REST_S)):
            await self._woken.wait()
        with trio.move_on_at(min(trio.current_time() + TICK_S, self._due_at)):
            await self._told.wait()

    async def look(self) -> None:
        """Until nothing is left to do now."""
        for _ in range(MOST_ROUNDS):
            self._watch.begin(self._now(), self._elapsed())
            seen = await in_planner(self._read)
            self._watch.end()
            self._due_at = trio.current_time() + min((look.decided.due_s for look in seen), default=math.inf)
            acts = [(look, await self._act(look)) for look in seen if look.is_to_do]
            acted = [act for _, act in acts if act is not None]
            if acted:
                self._wake_publisher()
            elif not any(look.is_unseen for look, _ in acts):
                return
            if len(seen) == len(acted) == 1 and acted[0].is_up_to_nodes:
                return

    def _read(self) -> list[_Look]:
        with self._database.read() as transaction:
            changes = records.open_changes(transaction)
            open_ids = {record.change_id for record in changes}
            seen = [
                self._begin(transaction, record)
                if self._is_unseen(record)
                else self._look_at(transaction, record, changes)
                for record in changes
            ]
        self.health.waits = {look.record.name: tuple(look.decided.waits.values()) for look in seen}
        if not any(look.is_unseen for look in seen):
            self._facts.forget({node.node_id for look in seen for node in look.nodes})
        self._noted = {line for line in self._noted if line[0] in open_ids}
        self._tried &= open_ids
        return seen

    def _is_unseen(self, record: ChangeRecord) -> bool:
        """It has just begun, and there is surely something to do: what that is is decided where it is done, so that all
        its nodes are read once before they are given anything, and not twice. Once: if it was nothing, it is looked at
        like any other.
        """
        is_new = record.revision == 1 and record.state is ChangeState.PREPARING and not record.follows
        return is_new and record.change_id not in self._tried

    def _begin(self, transaction: Transaction, record: ChangeRecord) -> _Look:
        """Of its nodes only what they say of themselves is read: nobody waits for that here."""
        self._facts.read_words(transaction, record.change_id)
        return _Look(record, is_unseen=True)

    def _look_at(self, transaction: Transaction, record: ChangeRecord, changes: Sequence[ChangeRecord]) -> _Look:
        nodes = records.nodes_of(transaction, record.change_id)
        if record.state is ChangeState.REVERTING:
            return _Look(record, nodes, reverting=commands.reverting(transaction, record.change_id))
        waits_for = next((change_id for change_id in reversed(in_order(changes)) if change_id in record.follows), None)
        before = changes_before(record.change_id, changes)
        change, read = self._facts.read(transaction, record, nodes, before, is_waiting=waits_for is not None)
        news = tuple(self._news(transaction, record, read))
        return _Look(record, nodes, decide(change, read), waits_for, news)

    def _news(self, transaction: Transaction, record: ChangeRecord, nodes: Sequence[NodeProgress]) -> Iterator[Moment]:
        """Each refusal once, with the words of who refused."""
        said = [(node, outcome) for node in nodes if (outcome := _no_of(node)) is not None]
        lines = {(record.change_id, node.node_id, outcome.value) for node, outcome in said}
        if lines <= self._noted:
            return
        self._noted |= records.noted_nodes(transaction, record.change_id, [outcome.value for outcome in _SAID])
        new = [
            (node, outcome) for node, outcome in said if (record.change_id, node.node_id, outcome) not in self._noted
        ]
        yield from ((outcome.value, node.node_id, node.words) for node, outcome in new[:MOST_AT_ONCE])

    # ---- acts

    async def _act(self, look: _Look) -> _Look | None:
        """By what it has gone on; None where it has not."""
        self._tried.add(look.record.change_id)
        try:
            if look.is_to_go_back:
                await in_database(self._go_back, look)
                return look
            return await in_database(self._go_on, look.record.change_id)
        except Refused as refused:
            if refused.code not in (Code.CONFLICT, Code.MOVED):  # what was under way goes on elsewhere
                log.error("a change does not go on", change=look.record.name, reason=str(refused))  # noqa: TRY400 - no trace needed
            return None  # somebody else was faster: the next look sees what has come of it

    def _go_on(self, change_id: int) -> _Look:
        """Read and decided once more, where nobody else decides."""
        with self._database.change(actor=ACTOR, now=self._now()) as transaction:
            changes = records.open_changes(transaction)
            record = next((record for record in changes if record.change_id == change_id), None)
            if record is None:
                raise Refused(Code.CONFLICT, f"{change_name(change_id)} is over")
            look = self._look_at(transaction, record, changes)
            if not look.is_to_do:
                raise Refused(Code.CONFLICT, f"{change_name(change_id)} has nothing to do any more")
            records.note_all(transaction, change_id, look.news)
            if look.decided.moves or look.decided.state is not None:
                steps.carry_out(transaction, look.record, look.nodes, look.decided)
                return look
            records.save(transaction, replace(look.record, waits_for=look.waits_for))
            transaction.audit("change.news", look.record.name, None, [list(moment[:2]) for moment in look.news])
            return look

    def _go_back(self, look: _Look) -> None:
        """What failed is taken back: by a change of its own, of which the first look after a kill finds none or one."""
        record, now = look.record, self._now()
        if look.reverting is not None:
            with self._database.change(actor=ACTOR, now=now) as transaction:
                steps.end_revert(transaction, record, ChangeState.SUPERSEDED, look.reverting.name)
            return
        try:
            revert = partial(commands.revert, now_reason=record.why, is_automatic=True)
            revert(self._database, record.change_id, actor=ACTOR, now=now)
            self.health.reverts[BY_COORDINATOR] += 1
        except Refused as refused:
            with self._database.change(actor=ACTOR, now=now) as transaction:
                steps.give_up_revert(transaction, records.get(transaction, record.change_id), refused)


def _no_of(node: NodeProgress) -> Outcome | None:
    if node.outcome in _SAID:
        return node.outcome
    return Outcome.REFUSED if node.verdict is Verdict.REFUSED else None

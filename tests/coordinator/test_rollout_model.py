"""A model of changes: six nodes, rings, votes, failing checks, crashes, partitions, leaping clocks, racing engines.

What is decided is the product's (progress.py, votes.py, facts.py, watch.py); what the model adds is a database, a
publisher and nodes, in a few lines each. Held, whatever happens:

- No node of a ring gets a change before the ring before it has passed.
- Nothing that a node refuses runs on it.
- Once a change is taken back, every node that hears of it runs content that was good.
- What is halted stays so over a restart.
- What nodes have seen never falls.
"""

import json
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import progress, votes
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.progress import ChangeProgress, Move, NextMoves, NodeProgress, decide
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.rollout_policy import EVERYBODY, Rollout
from coordinator.changes.states import SETTLED, ChangeState, Outcome, Step, Verdict
from coordinator.changes.votes import ListedHead, RefusedVersion, SaidOfChanges, TakenBack
from coordinator.declared.kinds import RolloutRing
from coordinator.rollout.facts import AgentWords, MemberLine, RolloutFacts
from coordinator.rollout.watch import AgeWatch
from tests.examples import examples
from wire.messages import Vote

IDS = [f"n{number}" for number in range(6)]
SCOPE = "config/edge"
BAKE_S = 20
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
FORWARD, BACK = 1, 2
node_ids = st.sampled_from(IDS)


@dataclass
class Node:
    """An agent. `refuses`: its validator says no to the new content; `is_sick`: its check fails with it."""

    id: str
    proves: bool
    refuses: bool = False
    is_sick: bool = False
    is_alive: bool = True
    is_reachable: bool = True
    active: str = OLD
    mark: int = 1
    good: set[str] = field(default_factory=lambda: {OLD})
    failed: str = ""
    since: float = 0.0
    head: tuple[int, str, str] = (1, OLD, "")  # version, content, what comes

    @property
    def hears(self) -> bool:
        return self.is_alive and self.is_reachable

    def takes(self, content: str) -> bool:
        return content == OLD or not self.refuses

    def follow(self, head: tuple[int, str, str], now: float) -> None:
        """What its head lists, unless it says no to it, or has given it up."""
        version, content, _ = self.head = head
        assert version >= self.mark or content == self.active, "what it has seen never falls"
        if content not in (self.active, self.failed) and self.takes(content):
            self.active, self.mark, self.since, self.failed = content, max(self.mark, version), now, ""

    def check(self, now: float) -> None:
        """Goes back by itself; its mark stays."""
        if not self.proves or self.active in self.good:
            return
        if self.is_sick and now - self.since >= 3:
            self.active, self.failed = OLD, self.active
        elif now - self.since >= BAKE_S:
            self.good.add(self.active)


@dataclass
class Line:
    """What the database has of a member."""

    last_seen: float
    generation: int = 1
    published: int = 1
    version: int = 1
    listing: str = OLD
    coming: str = ""


@dataclass
class Engine:
    watch: AgeWatch = field(default_factory=AgeWatch)
    is_alive: bool = True
    decided: dict[int, tuple[int, NextMoves, list[NodeProgress]]] = field(default_factory=dict)  # by change

    def __post_init__(self) -> None:
        self.facts = RolloutFacts(CoordinatorSettings(), self.watch, lambda: 0.0)


class Rollout6(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.time, self.leapt = 1_000.0, 0.0
        self.nodes = {node_id: Node(node_id, proves=number % 2 == 0) for number, node_id in enumerate(IDS)}
        self.lines = {node_id: Line(self.wall) for node_id in IDS}
        self.records: dict[int, ChangeRecord] = {}
        self.rows: dict[int, dict[str, ChangeNode]] = {}
        self.engines = [Engine(), Engine()]
        self.ran: dict[tuple[int, str], float] = {}  # when the database was first told of it, in true time
        self.aside: set[tuple[int, str]] = set()
        self.halted: set[int] = set()
        self.has_been_killed = False

    @property
    def wall(self) -> float:
        return 1_000_000.0 + self.time + self.leapt

    @initialize(
        prepare=st.sampled_from(["all", "ring", "none"]),
        on_failure=st.sampled_from(["halt", "revert"]),
        is_immediate=st.sampled_from([False, False, False, True]),
    )
    def apply(self, prepare: str, on_failure: str, is_immediate: bool) -> None:
        rings = (RolloutRing(nodes=1), RolloutRing(percent=50), *EVERYBODY)
        rollout = Rollout(prepare, rings, BAKE_S, 99, on_failure)
        self.begin(FORWARD, rollout.at_once if is_immediate else rollout, IDS, is_immediate=is_immediate)

    def begin(self, change_id: int, rollout: Rollout, held: list[str], *, is_immediate: bool) -> None:
        group, words = ChangeGroup("", rollout), "it burns" if is_immediate else ""
        self.records[change_id] = ChangeRecord(
            change_id, self.wall, "alice", "", ChangeState.PREPARING, "", "", (group,), immediately=words
        )
        self.rows[change_id] = {node_id: ChangeNode(change_id, node_id, (SCOPE,)) for node_id in held}

    # ---- the world

    @rule(node_id=node_ids, what=st.sampled_from(["refuses", "is_sick", "is_reachable", "is_alive"]))
    def disturb(self, node_id: str, what: str) -> None:
        """A validator says no, a check fails with it, the way is cut, the machine is off; or that is over."""
        setattr(self.nodes[node_id], what, not getattr(self.nodes[node_id], what))

    @rule()
    def cut_all_off(self) -> None:
        for node in self.nodes.values():
            node.is_reachable = False

    @rule()
    def bring_all_back(self) -> None:
        for node in self.nodes.values():
            node.is_reachable = node.is_alive = True

    @precondition(lambda self: not self.has_been_killed)
    @rule(seconds=st.sampled_from([-3_600, -50, 50, 3_600]))
    def leap(self, seconds: int) -> None:
        """Of an engine that looks already: one that starts has only the wall clock to go by."""
        for number in (0, 1):
            self.read(number)
            self.commit(number)
        self.leapt += seconds

    @precondition(lambda self: not self.leapt)
    @rule(number=st.sampled_from([0, 1]))
    def kill(self, number: int) -> None:
        """And start it anew: it knows nothing."""
        self.engines[number], self.has_been_killed = Engine(), True

    @rule(seconds=st.integers(1, 25), engines=st.sampled_from([(0,), (1,), (0, 1)]))
    def pass_time(self, seconds: int, engines: tuple[int, ...]) -> None:
        """As it goes on by itself: nodes report, engines look, heads follow."""
        for _ in range(seconds):
            self.time += 1
            for number, (node_id, node) in enumerate(self.nodes.items()):
                node.check(self.time)
                if int(self.time) % 7 == number:
                    self.tell(node_id)
                    self.hear(node_id)
            for number in engines:
                self.read(number)
                self.commit(number)

    @rule(seconds=st.sampled_from([25, 60, 130]))
    def pass_much_time(self, seconds: int) -> None:
        self.pass_time(seconds, (0, 1))

    @rule()
    def all_hear(self) -> None:
        for node_id in IDS:
            self.tell(node_id)
            self.hear(node_id)

    # ---- publisher and nodes

    @rule(node_id=node_ids)
    def tell(self, node_id: str) -> None:
        """The head says what the rows say."""
        line, content, coming = self.lines[node_id], self.content(node_id), self.coming(node_id)
        if content != line.listing:
            line.version += 1
        line.listing, line.coming, line.published = content, coming, line.generation

    def content(self, node_id: str) -> str:
        has = [change_id for change_id in self.records if self.has_it(change_id, node_id)]
        return {FORWARD: NEW, BACK: OLD}[max(has)] if has else OLD

    def has_it(self, change_id: int, node_id: str) -> bool:
        row = self.rows[change_id].get(node_id)
        return row.step is Step.RELEASED if row is not None else self.records[change_id].state in SETTLED

    def coming(self, node_id: str) -> str:
        offered = [change_id for change_id, rows in self.rows.items() if self.is_offered(rows.get(node_id))]
        return {FORWARD: NEW, BACK: OLD}[max(offered)] if offered else ""

    def is_offered(self, row: ChangeNode | None) -> bool:
        return row is not None and row.step is Step.OFFERED

    @rule(node_id=node_ids)
    def hear(self, node_id: str) -> None:
        """The node follows its head, and says what it does of it."""
        node, line = self.nodes[node_id], self.lines[node_id]
        if not node.hears:
            return
        node.follow((line.version, line.listing, line.coming), self.time)
        line.last_seen = self.wall
        self.report(node, line)

    def report(self, node: Node, line: Line) -> None:
        coming = {SCOPE: _entry(line.version + 1, line.coming)} if line.coming else {}
        head = ListedHead(coming, {SCOPE: _entry(line.version, line.listing)}, line.published >= line.generation)
        verdict = "accepted" if node.takes(line.coming) else "refused"
        step = None if verdict == "accepted" else 12
        said = [Vote(SCOPE, "doc-1", line.coming, verdict, step, "", "")] if line.coming else []
        no = (
            {}
            if node.takes(line.listing) or node.active == line.listing
            else {SCOPE: RefusedVersion(line.version, "validator")}
        )
        back = {SCOPE: TakenBack(node.failed, "health")} if node.failed else {}
        good = {SCOPE: node.active} if node.proves and node.active in node.good else {}
        report = SaidOfChanges(node.id, said, {SCOPE: node.active}, no, good, back)
        for change_id, rows in self.rows.items():
            if node.id in rows and self.records[change_id].settled_at is None:
                before, rows[node.id] = rows[node.id], votes.follow(rows[node.id], report, head, self.wall)
                if before.active_at is None and rows[node.id].active_at is not None:
                    self.ran[change_id, node.id] = self.time

    # ---- engines

    @rule(number=st.sampled_from([0, 1]))
    def read(self, number: int) -> None:
        engine = self.engines[number]
        engine.watch.begin(self.wall, self.time)
        engine.facts.told.update(
            {id_: AgentWords(0.0, 30.0, True, frozenset(), node.proves) for id_, node in self.nodes.items()}
        )
        engine.decided = {change_id: self.look_at(engine, change_id) for change_id in self.records}
        engine.watch.end()

    def look_at(self, engine: Engine, change_id: int) -> tuple[int, NextMoves, list[NodeProgress]]:
        record = self.records[change_id]
        read = [
            engine.facts.progress_of(record, row, self.member(node_id)) for node_id, row in self.rows[change_id].items()
        ]
        change = ChangeProgress(
            change_id,
            record.state,
            record.groups,
            is_immediate=bool(record.immediately),
            takes_back=record.reverts is not None,
        )
        return record.revision, decide(change, read), read

    def member(self, node_id: str) -> MemberLine:
        line = self.lines[node_id]
        coming = {SCOPE: _entry(line.version + 1, line.coming)} if line.coming else {}
        return MemberLine(line.generation, line.published, json.dumps(coming), line.last_seen, is_well=True)

    @rule(number=st.sampled_from([0, 1]))
    def commit(self, number: int) -> None:
        """Compare and swap; what has been reported since the reading stands beside it."""
        decided, self.engines[number].decided = self.engines[number].decided, {}
        for change_id, (revision, moves, read) in decided.items():
            if self.records[change_id].revision == revision and (moves.moves or moves.state is not None):
                self.carry_out(change_id, moves, read)
        if self.records[FORWARD].state is ChangeState.REVERTING:
            self.go_back()

    def carry_out(self, change_id: int, decided: NextMoves, read: list[NodeProgress]) -> None:
        record = self.records[change_id]
        for move in decided.moves:
            self.check_release(change_id, move.ring, move.release, read)
            self.make(self.rows[change_id], move)
            (group,) = record.groups
            record = replace(record, groups=(replace(group, phase=move.phase, ring=move.ring),))
        self.records[change_id] = replace(record, state=decided.state or record.state, revision=record.revision + 1)
        if decided.state in (ChangeState.HALTED, ChangeState.REVERTING):
            self.withdraw(change_id)
        if decided.state is ChangeState.HALTED:
            self.halted.add(change_id)
        if decided.state is ChangeState.DONE:
            self.settle(change_id, ChangeState.DONE)
            if change_id == BACK:
                self.settle(FORWARD, ChangeState.REVERTED)

    def make(self, rows: dict[str, ChangeNode], move: Move) -> None:
        for node_id in move.offer:
            rows[node_id] = replace(rows[node_id], step=Step.OFFERED)
        for node_id in move.release:
            rows[node_id] = replace(rows[node_id], step=Step.RELEASED, ring=move.ring)
        for node_id, outcome in move.outcomes.items():
            rows[node_id] = replace(rows[node_id], outcome=outcome)
        for node_id in (*move.offer, *move.release):
            self.lines[node_id].generation += 1

    def withdraw(self, change_id: int) -> None:
        for node_id, row in self.rows[change_id].items():
            if row.step is Step.OFFERED:
                self.rows[change_id][node_id] = replace(row, step=Step.HELD)
                self.lines[node_id].generation += 1

    def settle(self, change_id: int, state: ChangeState) -> None:
        record = self.records[change_id]
        self.records[change_id] = replace(record, state=state, settled_at=self.wall, revision=record.revision + 1)
        for node_id in self.rows[change_id]:
            self.lines[node_id].generation += 1
        self.rows[change_id] = {}

    def go_back(self) -> None:
        """A change of those that have the new content; who was kept from it goes on with the old."""
        if BACK in self.records:
            return
        have = [node_id for node_id, row in self.rows[FORWARD].items() if row.step is Step.RELEASED]
        self.begin(BACK, Rollout(rings=EVERYBODY, bake_s=0), have, is_immediate=True)

    @precondition(lambda self: self.halted)
    @rule()
    def resume(self) -> None:
        for change_id in sorted(self.halted):
            record, rows = self.records[change_id], self.rows[change_id]
            stands = [NodeProgress(id_, 0, row.step, row.ring, Outcome(row.outcome)) for id_, row in rows.items()]
            resumed = progress.resume(ChangeProgress(change_id, record.state, record.groups), stands)
            for node_id in resumed.aside:
                rows[node_id] = replace(rows[node_id], ring=None)
                self.aside.add((change_id, node_id))
            state = ChangeState.ROLLING if any(group.ring for group in resumed.groups) else ChangeState.PREPARING
            self.records[change_id] = replace(record, state=state, groups=resumed.groups, revision=record.revision + 1)
        self.halted.clear()

    # ---- what holds

    def check_release(self, change_id: int, ring: int, node_ids: tuple[str, ...], read: list[NodeProgress]) -> None:
        """No node of a ring gets it before the one before has passed, and none that has said no."""
        rollout = self.records[change_id].groups[0].rollout
        known = {node.node_id: node for node in read}
        for node_id in node_ids:
            assert known[node_id].verdict is not Verdict.REFUSED or rollout.prepare == "none"
            assert rollout.prepare == "none" or known[node_id].verdict is Verdict.ACCEPTED or rollout.bake_s == 0
        for row in known.values() if node_ids else ():
            if row.ring is not None and row.ring < ring:
                assert row.outcome in (Outcome.ACTIVE, Outcome.GOOD), f"{row.node_id} of ring {row.ring} has not passed"
                assert self.nodes[row.node_id].mark > 1, f"{row.node_id} has never had it"
                lasted = self.time - self.ran[change_id, row.node_id]
                assert lasted >= rollout.bake_s, f"{row.node_id} has baked for {lasted} s"
                assert row.outcome is Outcome.GOOD or not row.proves or not rollout.bake_s

    @invariant()
    def what_is_halted_waits_for_a_person(self) -> None:
        assert all(self.records[change_id].state is ChangeState.HALTED for change_id in self.halted)

    @invariant()
    def nothing_runs_where_it_was_refused(self) -> None:
        """A node that says no from the start has never run it."""
        for node in self.nodes.values():
            assert node.active in (OLD, NEW) and (node.active == OLD or node.mark > 1)
            assert node.failed != node.active, "what was given up is not taken again"

    @precondition(lambda self: self.records.get(FORWARD) and self.records[FORWARD].state is ChangeState.REVERTED)
    @rule()
    def all_hear_that_it_was_taken_back(self) -> None:
        for node_id, node in self.nodes.items():
            self.tell(node_id)
            self.hear(node_id)
            assert not node.hears or node.active == OLD


def _entry(version: int, content: str) -> dict[str, object]:
    return {"authority_epoch": 1, "config_version": version, "content_hash": content, "snapshot_id": "doc-1"}


Rollout6.TestCase.settings = examples(100, stateful_step_count=50, suppress_health_check=list(HealthCheck))
TestRollout6 = Rollout6.TestCase


def test_the_model_comes_to_its_end() -> None:
    """It can fail: where nothing goes wrong it is done, with three rings and no more time than they need."""
    model = Rollout6()
    model.apply("all", "revert", False)
    model.pass_time(110, (0, 1))
    assert model.records[FORWARD].state is ChangeState.DONE
    assert {node.active for node in model.nodes.values()} == {NEW}


def test_a_sick_canary_is_all_that_is_touched() -> None:
    model = Rollout6()
    model.apply("all", "revert", False)
    for node in model.nodes.values():
        node.is_sick = node.proves = True
    model.pass_time(60, (0, 1))
    assert model.records[FORWARD].state is ChangeState.REVERTED and len(model.ran) == 2
    assert {node.active for node in model.nodes.values()} == {OLD}
    assert sum(node.mark > 1 for node in model.nodes.values()) == 1

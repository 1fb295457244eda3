"""A fleet that reports to a real database, whose heads are written by hand: what is decided, and no document.

fleet = RolloutFleet(database, 5)
fleet.change(9)               an apply that changes a service of all of them, as a change
fleet.look()                  the task looks once
fleet.tell()                  heads follow, as the publisher would have it
fleet.report("n1", vote="accepted")
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import trio
from sqlalchemy import delete, insert, select

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.change_start import StartedChange
from coordinator.changes.records import ChangeEvent, ChangeNode, ChangeRecord
from coordinator.changes.states import Step
from coordinator.changes.votes import VoteCount
from coordinator.database import schema
from coordinator.database.database import Database, Transaction
from coordinator.reports import heartbeats
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.rollout.rollout import Rollouts
from snapshot import canonical
from tests.coordinator import copies, reports
from tests.coordinator.candidates import NOW, admit, found
from tests.coordinator.publishing import Press

SCOPE = "service_assignment/web"
NODE = "kind: Node\nid: {id}\nspec: {{roles: [egress_service], organizations: [acme], labels: {{tier: t{tier}}}}}"
SERVICE = """
kind: Service
id: web
spec: {{organization: acme, runs_on: {{roles: [egress_service]}}, settings: {{workers: {workers}}}}}
"""
Entries = dict[str, dict[str, object]]
CLUSTER = "kind: Cluster\nid: prod\nspec: {coordinators: ['https://localhost:7443']}"


def content(applied: Iterable[int]) -> str:
    """Of a node that has these changes."""
    return "sha256:" + hashlib.sha256(repr(sorted(applied)).encode()).hexdigest()


@dataclass
class RolloutFleet:
    """`now` moves only when a test moves it, and so does `elapsed`, the clock that only runs."""

    database: Database
    count: int
    policy: str = ""
    now: float = NOW
    elapsed: float = 1_000.0
    woken: int = 0
    counted: list[VoteCount] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.press = Press(self.database)
        self.ids = [f"n{number}" for number in range(self.count)]
        self.engine = self.new_engine()

    @classmethod
    def of(
        cls,
        database: Database,
        count: int,
        policy: str = "",
        *,
        tiers: int = 1,
        people: Callable[[Database], None] | None = None,
    ) -> "RolloutFleet":
        """Members of a new cluster, which run the first content and have just reported. `people`: adds operators."""

        def make(new: Database) -> tuple[VoteCount, ...]:
            found(new)
            if people is not None:
                people(new)
            fleet = cls(new, count, policy)
            fleet._begin(tiers)
            return tuple(fleet.counted)

        counted = copies.made(database, ("rollouts", count, policy, tiers, people), make)
        fleet = cls(database, count, policy)
        for counts in counted:
            fleet.engine.take_note(counts)
        return fleet

    def _begin(self, tiers: int) -> None:
        for node_id in self.ids:
            admit(self.database, node_id)
        nodes = [NODE.format(id=node_id, tier=number % tiers) for number, node_id in enumerate(self.ids)]
        texts = [CLUSTER, "{kind: Organization, id: acme}", *nodes, SERVICE.format(workers=1)]
        self.press.apply("\n---\n".join([*texts, *filter(None, [self.policy])]))
        self.tell()
        self.counted.append(self.report(*self.ids))

    def new_engine(self) -> Rollouts:
        """As after a restart, or another coordinator's."""
        return Rollouts(self.database, CoordinatorSettings(), lambda: self.now, lambda: self.elapsed, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    # ---- what operators and time do

    def change(self, workers: int, **asked: object) -> StartedChange:
        self.press.now = self.now
        return self.press.change(SERVICE.format(workers=workers), **asked)

    def look(self, engine: Rollouts | None = None) -> None:
        trio.run((engine or self.engine).look)

    def wait(self, seconds: int, *node_ids: str, every_s: int = 5, **said: object) -> None:
        """Looks in these steps, at the last second too, though the task looks each second; all who are named report
        meanwhile, as they stand, every ten.
        """
        until = self.elapsed + seconds
        while self.elapsed < until:
            step = min(every_s, until - self.elapsed)
            is_time = (self.elapsed + step) // 10 > self.elapsed // 10
            self.now, self.elapsed = self.now + step, self.elapsed + step
            if node_ids and is_time:
                self.report(*node_ids, **said)
            self.look()
            self.tell()

    # ---- what the publisher does

    def tell(self, *node_ids: str) -> None:
        """Heads say what the rows say; those that do already stay."""
        table, nodes, wanted = schema.heads, schema.nodes, node_ids or self.ids
        with self.database.read() as transaction:
            chosen = select(nodes.c.node_id, nodes.c.generation).where(nodes.c.node_id.in_(wanted))
            generations = {row.node_id: row.generation for row in transaction.rows(chosen)}
            columns = (table.c.node_id, table.c.generation, table.c.listing, table.c.candidates)
            out = set(map(tuple, transaction.rows(select(*columns).where(table.c.node_id.in_(wanted)))))
            said = self._read(transaction, wanted)
        rows = [
            {"node_id": node_id, "generation": generations[node_id], "listing": _text(one), "candidates": _text(coming)}
            for node_id, (one, coming) in said.items()
        ]
        new = [row for row in rows if tuple(row.values()) not in out]
        if not new:
            return
        rest = {"authority_epoch": 1, "refresh_after": 0, "expires_at": 0}
        with self.database.change(actor="coordinator", now=self.now) as transaction:
            transaction.run(delete(table).where(table.c.node_id.in_([row["node_id"] for row in new])))
            transaction.run(insert(table), [{**row, **rest, "snapshot_id": f"h-{row['node_id']}"} for row in new])
            transaction.audit("test", "heads")

    def listed(self, node_id: str) -> Entries:
        """What its head is to list."""
        return self._said(node_id)[node_id][0]

    def coming(self, node_id: str) -> Entries:
        """What it is to announce."""
        return self._said(node_id)[node_id][1]

    def _said(self, *node_ids: str) -> dict[str, tuple[Entries, Entries]]:
        with self.database.read() as transaction:
            return self._read(transaction, node_ids)

    def _read(self, transaction: Transaction, node_ids: Sequence[str]) -> dict[str, tuple[Entries, Entries]]:
        """Of each what is listed, of the changes of which it has what they changed, and what is coming."""
        every = [record.change_id for record in records.list_changes(transaction)]
        held = records.holding(transaction, node_ids)
        found = {}
        for node_id in node_ids:
            steps = {row.change_id: row.step for row in held.get(node_id, ())}
            applied = [change_id for change_id in every if steps.get(change_id, Step.RELEASED) is Step.RELEASED]
            offered = [change_id for change_id, step in steps.items() if step is Step.OFFERED]
            coming = {SCOPE: _entry([*applied, *offered])} if offered else {}
            found[node_id] = {SCOPE: _entry(applied)}, coming
        return found

    # ---- what nodes do

    def report(
        self, *node_ids: str, vote: str = "", reason: str = "validator", runs: str | None = None, **other: object
    ) -> VoteCount:
        """What each has of its head, or `runs`; with its vote on what comes, where one is given."""
        said = self._said(*node_ids)
        batch = [
            self._heartbeat(node_id, *said[node_id], vote=vote, reason=reason, runs=runs, **other)
            for node_id in node_ids
        ]
        counted: list[VoteCount] = []
        heartbeats.record(self.database, batch, now=self.now, count=counted.append)
        for counts in counted:
            self.engine.take_note(counts)
        return counted[0]

    def heartbeat(self, node_id: str, **said: object) -> ReceivedHeartbeat:
        return self._heartbeat(node_id, *self._said(node_id)[node_id], **said)

    def _heartbeat(
        self,
        node_id: str,
        listing: Entries,
        candidates: Entries,
        *,
        vote: str = "",
        reason: str = "validator",
        runs: str | None = None,
        **other: object,
    ) -> ReceivedHeartbeat:
        listed, coming = listing[SCOPE], candidates.get(SCOPE)
        mark = {**reports.mark(1 if runs else listed["config_version"]), "content_hash": runs or listed["content_hash"]}
        scope = {**reports.scope(mark), **other.pop("scope", {})}
        votes = []
        if vote and coming is not None:
            said = reason if vote == "refused" else ""
            named = {"snapshot_id": coming["snapshot_id"], "content_hash": coming["content_hash"]}
            votes = [reports.vote(SCOPE, said, **named)]
        return reports.heartbeat(node_id, scopes={SCOPE: scope}, votes=other.pop("votes", votes), **other)

    # ---- what there is

    def record(self, change_id: int = 1) -> ChangeRecord:
        with self.database.read() as transaction:
            return records.get(transaction, change_id)

    def rows(self, change_id: int = 1) -> dict[str, ChangeNode]:
        with self.database.read() as transaction:
            return {row.node_id: row for row in records.nodes_of(transaction, change_id)}

    def at(self, step: Step, change_id: int = 1) -> set[str]:
        return {node_id for node_id, row in self.rows(change_id).items() if row.step is step}

    def timeline(self, change_id: int = 1) -> list[ChangeEvent]:
        with self.database.read() as transaction:
            return records.events_of(transaction, change_id)


def _text(value: object) -> str:
    return canonical.dumps(value).decode()


def _entry(applied: list[int]) -> dict[str, object]:
    found = content(applied)
    return {
        "authority_epoch": 1,
        "config_version": 1 + len(applied),
        "content_hash": found,
        "snapshot_id": f"doc-{found[7:19]}",
    }

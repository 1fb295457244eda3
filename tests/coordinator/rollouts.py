"""A fleet that reports to a real database, whose heads are written by hand: what is decided, and no document.

fleet = RolloutFleet(database, 5)
fleet.change(9)               an apply that changes a service of all of them, as a change
fleet.look()                  the task looks once
fleet.tell()                  heads follow, as the publisher would have it
fleet.report("n1", vote="accepted")
"""

import hashlib
from collections.abc import Iterable
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
from coordinator.database.database import Database
from coordinator.reports import heartbeats
from coordinator.reports.heartbeat_form import ReceivedHeartbeat
from coordinator.rollout.rollout import Rollouts
from snapshot import canonical
from tests.coordinator import reports
from tests.coordinator.candidates import NOW, admit
from tests.coordinator.publishing import Press

SCOPE = "service_assignment/web"
NODE = "kind: Node\nid: {id}\nspec: {{roles: [egress_service], organizations: [acme], labels: {{tier: t{tier}}}}}"
SERVICE = """
kind: Service
id: web
spec: {{organization: acme, runs_on: {{roles: [egress_service]}}, settings: {{workers: {workers}}}}}
"""
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
    def of(cls, database: Database, count: int, policy: str = "", *, tiers: int = 1) -> "RolloutFleet":
        """Members of an initialised cluster, which run the first content and have just reported."""
        fleet = cls(database, count, policy)
        for node_id in fleet.ids:
            admit(database, node_id)
        nodes = [NODE.format(id=node_id, tier=number % tiers) for number, node_id in enumerate(fleet.ids)]
        texts = [
            CLUSTER,
            "{kind: Organization, id: acme}",
            *nodes,
            SERVICE.format(workers=1),
            *([policy] if policy else []),
        ]
        fleet.press.apply("\n---\n".join(texts))
        fleet.tell()
        fleet.report(*fleet.ids)
        return fleet

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

    def wait(self, seconds: int, *node_ids: str, every_s: int = 1, **said: object) -> None:
        """Looks each second, as the task does, or more seldom, which costs less; all who are named report meanwhile, as
        they stand.
        """
        for _ in range(0, seconds, every_s):
            self.now, self.elapsed = self.now + every_s, self.elapsed + every_s
            if node_ids and int(self.elapsed) % 10 == 0:
                self.report(*node_ids, **said)
            self.look()
            self.tell()

    # ---- what the publisher does

    def tell(self, *node_ids: str) -> None:
        """Heads say what the rows say."""
        with self.database.change(actor="coordinator", now=self.now) as transaction:
            for node_id in node_ids or self.ids:
                table, nodes = schema.heads, schema.nodes
                generation = transaction.number(select(nodes.c.generation).where(nodes.c.node_id == node_id))
                listing, coming = self._listing(node_id), self._coming(node_id)
                transaction.run(delete(table).where(table.c.node_id == node_id))
                row = {
                    "node_id": node_id,
                    "authority_epoch": 1,
                    "generation": generation,
                    "snapshot_id": f"h-{node_id}",
                }
                said = {"listing": _text(listing), "candidates": _text(coming)}
                transaction.run(insert(table).values(**row, **said, refresh_after=0, expires_at=0))
            transaction.audit("test", "heads")

    def _applied(self, node_id: str) -> list[int]:
        """The changes of which it has what they changed."""
        with self.database.read() as transaction:
            every = [record.change_id for record in records.list_changes(transaction)]
            held = records.holding(transaction, [node_id]).get(node_id, [])
        return [
            change_id
            for change_id in every
            if change_id not in {row.change_id for row in held if row.step is not Step.RELEASED}
        ]

    def _listing(self, node_id: str) -> dict[str, object]:
        return {SCOPE: _entry(self._applied(node_id))}

    def _coming(self, node_id: str) -> dict[str, object]:
        with self.database.read() as transaction:
            held = records.holding(transaction, [node_id]).get(node_id, [])
        offered = [row.change_id for row in held if row.step is Step.OFFERED]
        return {SCOPE: _entry([*self._applied(node_id), *offered])} if offered else {}

    # ---- what nodes do

    def report(
        self, *node_ids: str, vote: str = "", reason: str = "validator", runs: str | None = None, **other: object
    ) -> VoteCount:
        """What each has of its head, or `runs`; with its vote on what comes, where one is given."""
        batch = [self.heartbeat(node_id, vote=vote, reason=reason, runs=runs, **other) for node_id in node_ids]
        counted: list[VoteCount] = []
        heartbeats.record(self.database, batch, now=self.now, count=counted.append)
        for counts in counted:
            self.engine.take_note(counts)
        return counted[0]

    def heartbeat(
        self, node_id: str, *, vote: str = "", reason: str = "validator", runs: str | None = None, **other: object
    ) -> ReceivedHeartbeat:
        listed, coming = self._listing(node_id)[SCOPE], self._coming(node_id).get(SCOPE)
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

"""A fleet whose changes go their whole way: the product's publishing and its rollouts, over one database.

fleet = GuardedFleet.founded(database, "node-a", "node-b")
fleet.press.change(WEB_9)
fleet.go_on(3)              heads, votes, reports and looks, as seconds pass
fleet.nodes["node-a"]       what it has and refuses
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import trio

from coordinator.changes import records
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import HeadEntry
from coordinator.publishing.backlog import Backlog
from coordinator.reports import heartbeat_form, heartbeats
from coordinator.rollout.rollout import Rollouts
from snapshot import canonical
from tests.coordinator import copies, reports
from tests.coordinator.bundles import Bundles
from tests.coordinator.publishing import Press, copied

QUICK = """
kind: RolloutPolicy
id: standard
spec: {rings: [{nodes: 1}, {percent: 100}], bake_s: 2, on_failure: halt}
"""


@dataclass
class GuardedNode:
    """It takes what its head lists, but for contents that it refuses, and votes on what comes."""

    press: Press
    node_id: str
    refuses: set[str] = field(default_factory=set)  # content hashes
    refused: set[str] = field(default_factory=set)  # contents that it has said no to
    is_content: bool = True  # with whatever comes; else it refuses all that it does not have
    active: dict[str, HeadEntry] = field(default_factory=dict)
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    sequence: int = 0
    is_away: bool = False

    def follow(self, listed: Mapping[str, HeadEntry]) -> None:
        for scope in self.active.keys() - listed.keys():
            del self.active[scope]
        for scope, entry in listed.items():
            assert entry.pair >= self.marks.get(scope, (0, 0)), f"{self.node_id} {scope} falls to {entry.pair}"
            self.marks[scope] = entry.pair
            if self.takes(scope, entry):
                self.active[scope] = entry

    def takes(self, scope: str, entry: HeadEntry) -> bool:
        if not self.is_content and entry.content_hash != self.active[scope].content_hash:
            self.refuses.add(entry.content_hash)
        return entry.content_hash not in self.refuses

    def votes(self, coming: Mapping[str, HeadEntry]) -> list[dict[str, object]]:
        return [
            reports.vote(
                scope,
                "" if self.takes(scope, entry) else "validator",
                snapshot_id=entry.snapshot_id,
                content_hash=entry.content_hash,
            )
            for scope, entry in sorted(coming.items())
        ]

    def heartbeat(self, coming: Mapping[str, HeadEntry]) -> heartbeat_form.ReceivedHeartbeat:
        marks = {
            scope: {**reports.mark(entry.config_version), **vars(entry)} for scope, entry in sorted(self.active.items())
        }
        scopes = {scope: reports.scope(mark) for scope, mark in marks.items()}
        return heartbeat_form.parse(
            canonical.dumps(reports.value(self.node_id, scopes=scopes, votes=self.votes(coming)))
        )


@dataclass
class GuardedFleet:
    press: Press
    nodes: dict[str, GuardedNode]
    elapsed: float = 1_000.0

    def __post_init__(self) -> None:
        self.engine = self.new_engine()

    @classmethod
    def founded(cls, database: Database, *node_ids: str) -> "GuardedFleet":
        """Published to, and heard from once."""

        def publish(new: Database) -> tuple[Bundles, Backlog]:
            press = Press.founded(new, *node_ids)
            press.apply(QUICK)
            press.publish()
            return replace(press.bundles), copied(press.kept)

        bundles, kept = copies.made(database, ("guarded", node_ids), publish)
        press = Press(database, bundles=replace(bundles), kept=copied(kept))
        fleet = cls(press, {node_id: GuardedNode(press, node_id) for node_id in node_ids})
        fleet.hear()
        return fleet

    def new_engine(self) -> Rollouts:
        """As after a restart."""
        return Rollouts(
            self.press.database, self.press.settings, lambda: self.press.now, lambda: self.elapsed, lambda: None
        )

    def join(self, node_id: str) -> GuardedNode:
        self.nodes[node_id] = GuardedNode(self.press, node_id)
        return self.nodes[node_id]

    def hear(self, *node_ids: str, also: Callable[[GuardedNode], None] | None = None) -> None:
        """Nodes follow their heads, and report: together, as a coordinator takes what has come meanwhile."""
        present = [node for node_id in node_ids or sorted(self.nodes) if not (node := self.nodes[node_id]).is_away]
        if not present:
            return
        with self.press.database.read() as transaction:
            names = [node.node_id for node in present]
            listed, coming = documents.listings(transaction, names), documents.candidates(transaction, names)
        batch = []
        for node in present:
            node.follow(listed.get(node.node_id, {}))
            if also is not None:
                also(node)
            batch.append(node.heartbeat(coming.get(node.node_id, {})))
        heartbeats.record(self.press.database, batch, now=self.press.now, count=self.engine.take_note)

    def look(self) -> None:
        trio.run(self.engine.look)

    def go_on(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.press.now, self.elapsed = self.press.now + 1, self.elapsed + 1
            self.look()
            self.press.publish()
            self.hear()

    def record(self, change_id: int = 1) -> ChangeRecord:
        with self.press.database.read() as transaction:
            return records.get(transaction, change_id)

    def rows(self, change_id: int = 1) -> dict[str, ChangeNode]:
        with self.press.database.read() as transaction:
            return {row.node_id: row for row in records.nodes_of(transaction, change_id)}

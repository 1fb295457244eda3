"""A coordinator's publishing without its tasks, and nodes that take what was published straight from the database."""

import json
from dataclasses import dataclass, field, replace

from sqlalchemy import select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import CoordinatorSettings
from coordinator.changes import records
from coordinator.changes.change_start import StartedChange
from coordinator.changes.records import ChangeRequest, change_name
from coordinator.changes.states import SETTLED, ChangeState, Step
from coordinator.database import documents, schema, uploads
from coordinator.database.database import Database
from coordinator.database.documents import Document, HeadEntry, container_of
from coordinator.declared import resources, value_shapes
from coordinator.keys.signing_key import SigningKey
from coordinator.publishing import backlog, declarations, file_contents, heads, proposals, published_state
from coordinator.publishing.backlog import Backlog, Batch
from coordinator.publishing.proposals import PlanVerdict, Proposal
from coordinator.publishing.remembered import PublishedMemory
from coordinator.trust import trust_import
from snapshot import canonical
from snapshot.container import ChunkParts
from snapshot.manifest import Head, parse_head
from snapshot.verifier_state import VerifierState
from snapshot.verify import Verified, verify
from tests.coordinator import candidates, copies
from tests.coordinator.bundles import Bundles, roots_of
from tests.coordinator.candidates import CLUSTER, NOW, admit
from tests.fakes.node import accepted

DAY = 86_400
HOUR = 3_600

STATE = """
kind: Cluster
id: prod
spec: {coordinators: ["https://localhost:7443"]}
---
{kind: Organization, id: acme}
---
{kind: Organization, id: wayne}
---
kind: Node
id: node-a
spec: {roles: [core_mesh, egress_service], organizations: [acme]}
---
kind: Node
id: node-b
spec: {roles: [ingress], organizations: [acme]}
---
kind: Service
id: web
spec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {workers: 4}}
---
kind: Route
id: front
spec: {organization: acme, service: web, match: {hosts: [www.example]}}
---
kind: DegradedModePolicy
id: standard
spec: {allow: [continue_services]}
"""


@dataclass
class Press:
    """`now` moves only when a test moves it."""

    database: Database
    now: float = NOW
    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    bundles: Bundles = field(default_factory=Bundles)
    kept: Backlog = field(default_factory=Backlog)

    def __post_init__(self) -> None:
        self.keys: tuple[SigningKey, ...] = (self.bundles.config,)

    @classmethod
    def founded(cls, database: Database, *nodes: str) -> "Press":
        """A cluster with these members and STATE, nothing published yet: a copy of one that was founded before, with
        its keys. To found it is more work than most tests do with it.
        """
        bundles = copies.made(database, ("founded", nodes), lambda new: cls._found(new, *nodes))
        return cls(database, bundles=replace(bundles))

    @classmethod
    def published(cls, database: Database, *nodes: str, also: str = "", prune: bool = False) -> "Press":
        """Founded, and published to once, with STATE and what is declared `also`, or that alone: a copy as well, with
        the memory of who has published it.
        """

        def publish(new: Database) -> tuple[Bundles, Backlog]:
            press = cls.founded(new, *nodes)
            if also:
                press.apply(also, prune=prune)
            press.publish()
            return replace(press.bundles), copied(press.kept)

        bundles, kept = copies.made(database, ("published", nodes, also, prune), publish)
        return cls(database, bundles=replace(bundles), kept=copied(kept))

    def over(self, database: Database) -> "Press":
        """The same, with a memory of its own, over a copy of its database."""
        return replace(self, database=database, bundles=replace(self.bundles), kept=copied(self.kept))

    @classmethod
    def _found(cls, database: Database, *nodes: str) -> Bundles:
        candidates.found(database)
        press = cls(database)
        press.add_bundle()
        for node_id in nodes:
            admit(database, node_id)
        press.apply(STATE)
        return replace(press.bundles)

    def add_bundle(self, **changes: object) -> None:
        trust_import.add_trust_bundle(self.database, self.bundles.next(**changes), actor="root", now=self.now)

    def apply(self, text: str, **flags: object) -> declarations.ApplyPlan:
        return declarations.apply(self.database, {"state.yaml": text}, actor="root", now=self.now, **flags)

    def propose(self, text: str, *, prune: bool = False) -> Proposal:
        declared = resources.read({"state.yaml": text})
        settled = file_contents.settle(self.database, declared, {}, value_shapes.shipped_shapes())
        uploads.add_all(self.database, settled.parts.values(), now=self.now)
        return proposals.propose(self.database, settled.declared, prune=prune)

    def change(self, text: str, *, prune: bool = False, actor: str = "alice", **asked: object) -> StartedChange:
        """Apply it as a change. With `allow` it is one that the guard would not have let pass."""
        ask = ChangeRequest(**asked)
        proposal = proposals.weigh(self.database, self.propose(text, prune=prune), reverts=ask.reverts)
        proposal = replace(proposal, verdict=PlanVerdict(is_allowed=bool(ask.allow)))
        plan = declarations.carry_out(self.database, proposal, actor=actor, now=self.now, ask=ask)
        assert plan.change is not None
        return plan.change

    def move(self, change_id: int, step: Step, *node_ids: str, ring: int | None = None) -> None:
        """Nodes of a change, or all of them, go on, as the rollout decides it."""
        with self.database.change(actor="coordinator", now=self.now) as transaction:
            transaction.audit("change.move", change_name(change_id))
            record = records.get(transaction, change_id)
            everybody = [row.node_id for row in records.nodes_of(transaction, change_id)]
            records.move(transaction, records.save(transaction, record), node_ids or everybody, step, ring=ring)

    def become(self, change_id: int, state: ChangeState) -> None:
        with self.database.change(actor="coordinator", now=self.now) as transaction:
            transaction.audit("change.become", change_name(change_id))
            settled_at = self.now if state in SETTLED else None
            records.save(transaction, replace(records.get(transaction, change_id), state=state, settled_at=settled_at))

    def candidates(self, node_id: str = "node-a") -> dict[str, HeadEntry]:
        with self.database.read() as transaction:
            return documents.candidates(transaction, [node_id]).get(node_id, {})

    def due(self) -> list[str]:
        return backlog.due(self.database, self.now)

    def prepare(self, *node_ids: str) -> Batch:
        wanted = node_ids or self.due()
        return backlog.prepare(self.database, self.kept, self.keys, self.settings, wanted, self.now)

    def publish(self, *node_ids: str) -> Batch:
        """All that is due, or these; as the publisher has it, nothing is read where nothing is due."""
        wanted = node_ids or self.due()
        if not wanted:
            return Batch((), {})
        batch = self.prepare(*wanted)
        refused = heads.publish(
            self.database, [each.publication for each in batch.drafts], actor="coordinator", now=self.now
        )
        assert refused == {}
        for each in batch.drafts:
            self.kept.note_published(each)
        return batch

    def check_remembered(self) -> None:
        """What this coordinator need not read again is what it would read."""
        table, known = schema.nodes, PublishedMemory()
        known.heads._values.update(self.kept.remembered.heads._values)
        known.documents._values.update(self.kept.remembered.documents._values)
        with self.database.read() as transaction:
            node_ids = [row.node_id for row in transaction.rows(select(table.c.node_id))]
            remembered = published_state.read_situations(transaction, node_ids, known)
            read = published_state.read_situations(transaction, node_ids)
            assert {node_id: one._replace(standing=None) for node_id, one in remembered.items()} == read

    def head(self, node_id: str = "node-a") -> Head:
        """As its node reads it."""
        return parse_head(documents.head(self.database, node_id).manifest)

    def listing(self, node_id: str = "node-a") -> dict[str, HeadEntry]:
        with self.database.read() as transaction:
            return documents.listing(transaction, node_id)

    def document(self, scope: str, node_id: str = "node-a") -> Document:
        return documents.document(self.database, node_id, self.listing(node_id)[scope].snapshot_id)

    def section(self, scope: str, name: str, node_id: str) -> dict[str, object]:
        """What a node is told there, once its verifier has taken it; nothing where the section is none."""
        self.reader(node_id).follow()
        document = self.document(scope, node_id)
        sections = dict(zip(sorted(json.loads(document.manifest)), document.section_bytes, strict=True))
        return canonical.loads(sections.get(name, b"{}"))

    def reader(self, node_id: str = "node-a") -> "Reader":
        return Reader(self, node_id)


def copied(kept: Backlog) -> Backlog:
    """What goes on by itself: values do not change."""
    memory = kept.remembered
    remembered = PublishedMemory(
        replace(memory.heads, _values=memory.heads._values.copy()),
        replace(memory.documents, _values=memory.documents._values.copy()),
    )
    return Backlog(followed=kept.followed, known=dict(kept.known), changed=dict(kept.changed), remembered=remembered)


class Reader:
    """A node with a verifier and a memory of its own."""

    def __init__(self, press: Press, node_id: str) -> None:
        self.press = press
        self.holder = VerifierState(CLUSTER, node_id, roots=roots_of(press.bundles.first))
        self.taken: list[tuple[str, str]] = []  # (kind, scope), of the last following
        self.brought: list[str] = []  # kinds of the candidates that were judged last
        self.head_id = ""  # of the head that was followed last: the same again brings nothing

    def take(self, document: Document, kind: str | None = None) -> Verified:
        kept: dict[str, bytes] = {}
        parts = ChunkParts([container_of(document)])
        verdict = verify(parts, self.holder, kind=kind or document.kind, now=self.press.now, keep=kept.__setitem__)
        assert isinstance(verdict, Verified), verdict
        self.holder = accepted(self.holder, verdict, kept)
        self.taken.append((verdict.kind, verdict.scope))
        return verdict

    def follow(self) -> "Reader":
        """Everything that the head lists, by increments where there are some."""
        self.taken = []
        database, node_id = self.press.database, self.holder.node_id
        version = self.holder.bundle.version if self.holder.bundle else 0
        for bundle in documents.trust_bundles(database, version):
            self.take(bundle)
        document = documents.head(database, node_id)
        if document.snapshot_id == self.head_id:
            return self
        head, self.head_id = self.take(document).head, document.snapshot_id
        first = ("trust_bundle", "node_bootstrap", "node_runtime")
        for scope in sorted(head.scopes, key=lambda name: (name not in first, name)):
            listed, mark, held = head.scopes[scope], self.holder.marks.get(scope), self.holder.active.get(scope)
            if held is not None and held.envelope.snapshot_id == listed.snapshot_id:
                continue
            if mark is not None and mark.version == (listed.authority_epoch, listed.config_version):
                assert mark.content_hash == listed.content_hash
                continue
            if mark is not None and listed.config_version < mark.config_version:
                self.take(documents.recovery(database, node_id, scope))
            self._take_scope(scope, listed.snapshot_id, mark)
        return self

    def judge(self) -> dict[str, bytes]:
        """What the head announces as coming, by increments where there are some; nothing is taken. Those that say what
        the node is come first, and the others are judged by them. All sections of each, one after the other.
        """
        database, node_id = self.press.database, self.holder.node_id
        judged, holder, brought = {}, self.holder, []
        candidates = parse_head(documents.head(database, node_id).manifest).candidates
        for scope in sorted(candidates, key=lambda name: (name not in ("node_bootstrap", "node_runtime"), name)):
            mark, document = self.holder.marks.get(scope), None
            try:
                document = documents.increment(database, node_id, scope, 0 if mark is None else mark.config_version)
            except Refused as refused:
                assert refused.code is Code.NOT_FOUND
                document = documents.document(database, node_id, candidates[scope].snapshot_id)
            kept: dict[str, bytes] = {}
            parts = ChunkParts([container_of(document)])
            verdict = verify(parts, holder, kind=document.kind, now=self.press.now, keep=kept.__setitem__)
            assert isinstance(verdict, Verified), verdict
            assert verdict.content_hash == candidates[scope].content_hash
            holder = accepted(holder, verdict, kept)
            held = holder.active[scope]
            judged[scope] = b"".join(held.read(name) for name in held.sections)
            brought.append(document.kind)
        self.brought = brought
        return judged

    def _take_scope(self, scope: str, snapshot_id: str, mark: object) -> None:
        database, node_id = self.press.database, self.holder.node_id
        try:
            base = 0 if mark is None else mark.config_version
            self.take(documents.increment(database, node_id, scope, base))
        except Refused as refused:
            assert refused.code is Code.NOT_FOUND
            self.take(documents.document(database, node_id, snapshot_id))

    def text(self, scope: str) -> bytes:
        """All sections, one after the other."""
        held = self.holder.active[scope]
        return b"".join(held.read(name) for name in held.sections)

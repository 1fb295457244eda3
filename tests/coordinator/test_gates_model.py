"""A model of what nodes are told: the product's publishing and rollouts on a real database, and five nodes.

Each change marks what it changes with a word of its own, so what a node is told names the changes that it has. Held,
whatever is applied, halted, resumed, taken back, refused, trimmed, or joins:

- No head lists anything of a change that its node waits for still.
- What a node has refused is not listed for it, unless a person went on over it.
- Versions never fall, and no candidate is at or below what is listed beside it.
- What a head lists or announces can be read, with all that it is made of.
- In the end every node can be brought to what is declared.
"""

import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from coordinator.base.refusal import Code, Refused
from coordinator.changes import records
from coordinator.changes.states import ChangeState, Step
from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import HeadEntry
from coordinator.rollout import commands
from coordinator.runtime import retention
from tests.coordinator import candidates, migrated
from tests.coordinator.bundles import Bundles
from tests.coordinator.guarded import QUICK, GuardedFleet, GuardedNode
from tests.coordinator.publishing import DAY, Press
from tests.examples import examples
from tests.memory import memory_folder

NODES = ("n1", "n2", "n3", "n4")
LATE = "n5"
ALL = ", ".join((*NODES, LATE))
CLUSTER = "{kind: Cluster, id: prod, spec: {coordinators: ['https://localhost:7443']}}"
NODE = "kind: Node\nid: {}\nspec: {{roles: [core_mesh, egress_service], organizations: [acme]}}"
RESOURCES = {
    "motd": (
        f"kind: Config\nid: motd\nspec: {{{{to: {{{{nodes: [{ALL}]}}}}, "
        "files: {{motd: {{text: '${{node.id}} {}', template: true}}}}}}"
    ),
    "tool": "kind: Config\nid: tool\nspec: {{to: {{nodes: [n1, n2]}}, files: {{motd: {{text: '{}'}}}}}}",
    "web": (
        "kind: Service\nid: web\nspec: {{organization: acme, runs_on: {{nodes: [n2, n3]}}, settings: {{mark: '{}'}}}}"
    ),
    "front": ("kind: Route\nid: front\nspec: {{organization: acme, service: web, match: {{hosts: ['{}.example']}}}}"),
    "back": "kind: Route\nid: back\nspec: {{organization: acme, service: web, match: {{hosts: ['{}.example']}}}}",
}
FIRST = "m0m"
MOST_DAYS = 40  # the keys of the trust bundle end at some time
ENDS_WITHIN, EACH = 80, 4  # seconds, once all are there and content: and for each change, since they follow each other

names = st.sets(st.sampled_from(sorted(RESOURCES)), min_size=1, max_size=2)
node_ids = st.sampled_from(NODES)
numbers = st.integers(0, 20)


def text_of(marks: dict[str, str]) -> str:
    return "\n---\n".join(RESOURCES[name].format(mark) for name, mark in sorted(marks.items()))


@cache
def founded() -> tuple[Path, Bundles]:
    """Published to once; each example has a copy."""
    place = Path(tempfile.mkdtemp(prefix="gates-", dir=memory_folder())) / "state.db"
    database = Database(migrated.at(place))
    candidates.found(database)
    press = Press(database)
    press.add_bundle()
    for node_id in NODES:
        candidates.admit(database, node_id)
    nodes = "\n---\n".join(map(NODE.format, (*NODES, LATE)))
    start = text_of(dict.fromkeys(RESOURCES, FIRST))
    press.apply(f"{CLUSTER}\n---\n{{kind: Organization, id: acme}}\n---\n{nodes}\n---\n{QUICK}\n---\n{start}")
    press.publish()
    database.close()
    return place, press.bundles


class Texts:
    """What documents say. Each is read once: what was read stays as it is until something is trimmed."""

    def __init__(self, press: Press) -> None:
        self._press = press
        self._read: dict[tuple[str, str], str] = {}

    def of(self, node_id: str, entry: HeadEntry) -> str:
        key = node_id, entry.snapshot_id
        if key not in self._read:
            found = documents.document(self._press.database, *key)
            self._read[key] = b"\n".join(found.section_bytes).decode(errors="replace")
        return self._read[key]

    def forget(self) -> None:
        self._read.clear()


@dataclass
class Judge(GuardedNode):
    """Refuses what says one of these words."""

    texts: Texts | None = None

    def takes(self, scope: str, entry: HeadEntry) -> bool:
        if self.active.get(scope) == entry:
            return True
        is_good = not any(word in self.texts.of(self.node_id, entry) for word in self.refuses)
        if not is_good:
            self.refused.add(entry.content_hash)
        return is_good


class Heads(NamedTuple):
    """Of each node: documents that are listed, those that are coming, and the changes that it waits for."""

    listed: dict[str, dict[str, HeadEntry]]
    coming: dict[str, dict[str, HeadEntry]]
    waits: dict[str, set[int]]


class GuardedHeads(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gates-", dir=memory_folder()))
        place, bundles = founded()
        for part in place.parent.glob("state.db*"):
            shutil.copy(part, self.folder / part.name)
        self.database = Database(f"sqlite:///{self.folder}/state.db")
        press = Press(self.database, bundles=bundles)
        self.texts = Texts(press)
        self.fleet = GuardedFleet(press, {node_id: Judge(press, node_id, texts=self.texts) for node_id in NODES})
        self.press = press
        self.marks: dict[int, str] = {}  # by change, the word that it brings
        self.insisted: set[str] = set()  # contents that were refused before a person went on
        self.fleet.hear()

    def teardown(self) -> None:
        try:
            self.come_to_an_end()
        finally:
            self.database.close()
            shutil.rmtree(self.folder)

    # ---- what people do

    @rule(changed=names)
    def apply(self, changed: set[str]) -> None:
        word = f"m{len(self.marks) + 1}m"
        self.marks[self.press.change(text_of(dict.fromkeys(changed, word))).record.change_id] = word

    @rule(number=numbers)
    def halt(self, number: int) -> None:
        self.ask(number, commands.halt)

    @rule(number=numbers)
    def resume(self, number: int) -> None:
        self.insisted |= {content for node in self.fleet.nodes.values() for content in node.refused}
        self.ask(number, commands.resume)

    def ask(self, number: int, command: object) -> None:
        changes = self.open_changes()
        if changes:
            try:
                command(self.database, changes[number % len(changes)].change_id, "", actor="ann", now=self.press.now)
            except Refused as refused:
                assert refused.code is Code.CONFLICT and refused.remedy

    @rule(number=numbers)
    def revert(self, number: int) -> None:
        with self.database.read() as transaction:
            changes = records.list_changes(transaction)
        if not changes:
            return
        wanted = changes[number % len(changes)].change_id
        try:
            plan = commands.revert(self.database, wanted, actor="ann", now=self.press.now)
        except Refused as refused:
            assert refused.code is Code.CONFLICT and refused.remedy
        else:
            if plan.change is not None:
                self.marks.setdefault(plan.change.record.change_id, "nothing new")

    # ---- what nodes do

    @rule(node_id=node_ids)
    def refuse_the_next(self, node_id: str) -> None:
        self.fleet.nodes[node_id].refuses.add(f"m{len(self.marks) + 1}m")

    @rule(node_id=node_ids)
    def go_away_or_come_back(self, node_id: str) -> None:
        node = self.fleet.nodes[node_id]
        node.is_away = not node.is_away

    @precondition(lambda self: LATE not in self.fleet.nodes)
    @rule()
    def join(self) -> None:
        candidates.admit(self.database, LATE)
        self.press.publish()
        self.fleet.nodes[LATE] = Judge(self.press, LATE, texts=self.texts)

    # ---- what time does

    @rule(seconds=st.integers(1, 4))
    def go_on(self, seconds: int) -> None:
        self.fleet.go_on(seconds)

    @precondition(lambda self: self.press.now < candidates.NOW + MOST_DAYS * DAY)
    @rule(days=st.integers(1, 9))
    def trim(self, days: int) -> None:
        self.press.now, self.fleet.elapsed = self.press.now + days * DAY, self.fleet.elapsed + days * DAY
        self.press.publish()
        retention.trim(self.database, now=self.press.now, settings=self.press.settings)
        self.texts.forget()
        self.fleet.hear()

    @rule()
    def restart(self) -> None:
        self.fleet.engine = self.fleet.new_engine()
        self.press.kept = type(self.press.kept)()

    # ---- what holds

    @invariant()
    def what_heads_say_holds(self) -> None:
        """As they are after a step, read once."""
        heads = self.read_heads()
        self.nobody_has_what_it_waits_for(heads)
        self.nothing_refused_is_listed(heads)
        self.what_comes_lies_above_what_is_there_and_can_be_read(heads)

    def nobody_has_what_it_waits_for(self, heads: Heads) -> None:
        for node_id, entries in heads.listed.items():
            said = "\n".join(self.texts.of(node_id, entry) for entry in entries.values())
            for change_id in heads.waits[node_id]:
                word = self.marks.get(change_id, "nothing new")
                assert word not in said, f"{node_id} has {word} of c-{change_id} already"

    def nothing_refused_is_listed(self, heads: Heads) -> None:
        for node_id, entries in heads.listed.items():
            node = self.fleet.nodes[node_id]
            listed = {entry.content_hash for entry in entries.values()}
            had = {entry.content_hash for entry in node.active.values()}
            assert not (listed & node.refused) - self.insisted - had, f"{node_id} is given what it has refused"

    def what_comes_lies_above_what_is_there_and_can_be_read(self, heads: Heads) -> None:
        for node_id, coming in heads.coming.items():
            for scope, entry in coming.items():
                listed = heads.listed[node_id].get(scope)
                assert listed is None or entry.pair > listed.pair
                assert self.texts.of(node_id, entry)

    @invariant()
    def what_is_remembered_is_what_is_out(self) -> None:
        self.press.check_remembered()

    def come_to_an_end(self) -> None:
        """All are there and content, and a last change is about everything: it supersedes what stands halted."""
        for node in self.fleet.nodes.values():
            node.refuses, node.is_away = set(), False
        self.insisted |= {content for node in self.fleet.nodes.values() for content in node.refused}
        self.fleet.go_on(1)
        self.press.change(text_of(dict.fromkeys(RESOURCES, "last")))
        for _ in range(ENDS_WITHIN + EACH * len(self.open_changes())):
            if not self.open_changes():
                break
            self.fleet.go_on(1)
            self.nobody_has_what_it_waits_for(self.read_heads())
        stands = {change.name: (change.state, change.why, change.follows) for change in self.open_changes()}
        assert not stands, f"{stands} {self.fleet.engine.health.waits}"
        self.press.publish()
        self.fleet.hear()
        heads = self.read_heads()
        for node_id, node in self.fleet.nodes.items():
            said = "\n".join(self.texts.of(node_id, entry) for entry in heads.listed[node_id].values())
            assert "last" in said and not any(word in said for word in self.marks.values())
            assert node.active == self.press.listing(node_id) and heads.coming[node_id] == {}

    # ---- what there is

    def read_heads(self) -> Heads:
        names = list(self.fleet.nodes)
        with self.database.read() as transaction:
            listed, coming = documents.listings(transaction, names), documents.candidates(transaction, names)
            rows = records.holding(transaction, names)
        return Heads(
            {
                name: {scope: entry for scope, entry in listed.get(name, {}).items() if scope != documents.TRUST_BUNDLE}
                for name in names
            },
            {name: coming.get(name, {}) for name in names},
            {name: {row.change_id for row in rows.get(name, ()) if row.step is not Step.RELEASED} for name in names},
        )

    def open_changes(self) -> list[records.ChangeRecord]:
        with self.database.read() as transaction:
            return records.open_changes(transaction)


GuardedHeads.TestCase.settings = examples(10, stateful_step_count=20, suppress_health_check=list(HealthCheck))
TestGuardedHeads = GuardedHeads.TestCase


def test_the_model_can_tell() -> None:
    """Nothing goes wrong: the first ring has it before the others, and in the end all do."""
    model = GuardedHeads()
    model.apply({"motd"})
    seen = set()
    for _ in range(20):
        model.go_on(1)
        heads = model.read_heads()
        model.nobody_has_what_it_waits_for(heads)
        seen.add(frozenset(node_id for node_id in NODES if not heads.waits[node_id]))
    assert {len(have) for have in seen} == {0, 1, 4}
    with model.database.read() as transaction:
        assert records.get(transaction, 1).state is ChangeState.DONE
    model.teardown()

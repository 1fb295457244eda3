"""Equal content for many nodes is one document, and every node only goes forward (format.md 7)."""

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import func, select

from coordinator.base.refusal import Code, Refused
from coordinator.configs.compiled_contents import CompiledContents
from coordinator.database import catalog, documents, schema
from coordinator.database.database import Database
from coordinator.database.documents import Document, HeadEntry
from coordinator.declared.compiler import compile_scope
from coordinator.publishing import heads, published_state
from coordinator.publishing.backlog import Batch
from coordinator.publishing.shared_documents import SharedDocuments
from coordinator.runtime import retention
from snapshot import envelope
from snapshot.identifiers import Scope
from tests.coordinator import candidates, copies, migrated
from tests.coordinator.bundles import Bundles
from tests.coordinator.candidates import admit
from tests.coordinator.publishing import DAY, HOUR, Press, Reader
from tests.coordinator.query_plans import plans_of

NODES = ("node-a", "node-b", "node-c", "node-d")
GROUPS = ("left", "right")
POLICY = "degraded_mode_policy"
EDGE = "config/edge"


@dataclass
class State:
    """What is declared. `groups`: of each node; `minutes`: by group, what decides the content of a scope."""

    groups: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NODES, "left"))
    minutes: dict[str, int] = field(default_factory=lambda: {"left": 1, "right": 2})
    roles: dict[str, str] = field(default_factory=lambda: dict.fromkeys(NODES, "core_mesh"))
    text: str = "hello " * 300
    template: bool = False
    to: str = "{roles: [core_mesh, thin]}"

    def yaml(self) -> str:
        parts = ["kind: Cluster\nid: prod\nspec: {coordinators: ['https://localhost:7443']}"]
        parts += [
            f"{{kind: Node, id: {node}, spec: {{roles: [{self.roles[node]}], labels: {{group: {group}}}}}}}"
            for node, group in self.groups.items()
        ]
        parts += [
            f"{{kind: DegradedModePolicy, id: {group}, spec: {{applies_to: {{labels: {{group: {group}}}}},"
            f" allow: [continue_services], max_duration_s: {60 * minutes}}}}}"
            for group, minutes in self.minutes.items()
        ]
        content = f"text: '{self.text}${{node.id}}', template: true" if self.template else f"text: '{self.text}'"
        parts.append(f"{{kind: Config, id: edge, spec: {{to: {self.to}, files: {{motd: {{{content}}}}}}}}}")
        return "\n---\n".join(parts)


@pytest.fixture
def press(database: Database) -> Press:
    return copies.made(database, "shared documents, published", published).over(database)


def published(database: Database) -> Press:
    made = founded(database, State())
    made.publish()
    return made.over(database)


def founded(database: Database, state: State) -> Press:
    def found(new: Database) -> Bundles:
        candidates.found(new)
        press = Press(new)
        press.add_bundle()
        for node_id in NODES:
            admit(new, node_id)
        press.apply(state.yaml())
        return replace(press.bundles)

    return Press(database, bundles=replace(copies.made(database, ("shared documents", state.yaml()), found)))


def listed(press: Press, scope: str) -> dict[str, HeadEntry]:
    return {node_id: entry for node_id in NODES if (entry := press.listing(node_id).get(scope)) is not None}


def kept(press: Press, scope: str, kind: str = "snapshot") -> int:
    table = schema.documents
    with press.database.read() as transaction:
        chosen = select(func.count()).select_from(table).where(table.c.scope == scope, table.c.kind == kind)
        return transaction.number(chosen)


def only(entries: dict[str, HeadEntry]) -> HeadEntry:
    (found,) = set(entries.values())
    return found


# ---- one document


def test_equal_content_is_one_document(press: Press) -> None:
    """Which names no node, and each of them takes it."""
    for scope in (EDGE, POLICY, "route_policy", "qos_policy", "storage_directory"):
        assert set(listed(press, scope)) == set(NODES)
        document = press.document(scope, "node-b")
        assert (only(listed(press, scope)).snapshot_id, document.subject) == (document.snapshot_id, "*")
        assert kept(press, scope) == 1
    for node_id in NODES:
        assert EDGE in press.reader(node_id).follow().holder.active


def test_it_is_one_over_several_batches(database: Database) -> None:
    press = founded(database, State())
    for node_id in NODES:
        (made,) = press.prepare(node_id).drafts
        assert heads.publish(database, [made.publication], actor="coordinator", now=press.now) == {}
    assert kept(press, EDGE) == 1
    assert len(set(listed(press, EDGE).values())) == 1


def test_it_is_found_by_its_hash_and_not_among_all_of_its_scope(press: Press) -> None:
    """A directory of each node, all of them shared: of 10,000 each newcomer's was looked for among all."""
    with press.database.read() as transaction:
        content = compile_scope(catalog.load(transaction), "node-b", Scope("peer_directory"))
        assert SharedDocuments(transaction).newest(content, 1) is not None

    (plan, *_) = plans_of(press.database, lambda transaction: SharedDocuments(transaction).newest(content, 1))
    assert "documents_by_scope" not in plan
    assert "documents_by_content" in plan or not press.database.is_sqlite, plan


def test_what_is_of_the_node_stays_the_nodes_own(press: Press) -> None:
    """A template, and what a storage node runs; their numbers come from the same counter."""
    press.apply(State(template=True, roles={**dict.fromkeys(NODES, "core_mesh"), "node-d": "storage_config"}).yaml())
    press.publish()
    own = {node_id: press.document(EDGE, node_id) for node_id in NODES if node_id != "node-d"}
    assert {node_id: each.subject for node_id, each in own.items()} == {node_id: node_id for node_id in own}
    assert sorted(each.config_version for each in own.values()) == [2, 3, 4]
    assert press.document("storage_directory", "node-d").subject == "node-d"


def test_a_node_without_a_role_has_its_own_policy(press: Press) -> None:
    """Of what every node may hold a shared document has to name a role (format.md 7, step 3); a Config need not."""
    roles = {**dict.fromkeys(NODES, "core_mesh"), "node-d": ""}
    press.apply(State(roles=roles, to="{labels: {group: left}}").yaml())
    press.publish()
    assert press.document(POLICY, "node-d").subject == "node-d"
    assert press.document(POLICY, "node-a").subject == press.document(EDGE, "node-d").subject == "*"
    press.reader("node-d").follow()


def test_what_a_batch_compiles_once_is_what_each_node_would_be_told(press: Press) -> None:
    """A Config whose nodes share it; a template, and a node that may not hold it, are looked at each."""
    press.apply(State(to="{labels: {group: left}}", groups={**State().groups, "node-d": "right"}).yaml())
    with press.database.read() as transaction:
        model, read = catalog.load(transaction), published_state.reader(transaction)
        contents, edge = CompiledContents(model, read), Scope("config", ("edge",))
        found = [contents.compile(node_id, edge) for node_id in NODES[:3]]
        assert found == [compile_scope(model, node_id, edge, read) for node_id in NODES[:3]]
        assert found[0] is found[1] is found[2]
        for node_id in ("node-d", "stranger"):
            with pytest.raises(KeyError):
                contents.compile(node_id, edge)
        policies = [contents.compile(node_id, Scope(POLICY)) for node_id in NODES]
        assert policies == [compile_scope(model, node_id, Scope(POLICY), read) for node_id in NODES]
        assert policies[0] != policies[3]
    press.apply(State(template=True).yaml())
    with press.database.read() as transaction:
        model, read = catalog.load(transaction), published_state.reader(transaction)
        contents = CompiledContents(model, read)
        assert contents.compile("node-a", edge) != contents.compile("node-b", edge)


# ---- a change, a renewal


def test_a_change_is_signed_once_with_one_increment(press: Press) -> None:
    readers = [press.reader(node_id).follow() for node_id in NODES]
    press.apply(State(text="hello " * 299 + "you").yaml().replace("motd:", "other: {text: more}, motd:"))
    press.publish()
    assert (kept(press, EDGE), kept(press, EDGE, "increment")) == (2, 0)  # its one file is all that there is
    press.apply(State(text="hello " * 299 + "you").yaml().replace("motd:", "other: {text: else}, motd:"))
    press.publish()
    assert (kept(press, EDGE), kept(press, EDGE, "increment")) == (3, 1)
    for reader in readers:
        reader.follow()


def test_it_is_renewed_once_and_by_each_in_its_time(press: Press) -> None:
    readers = [press.reader(node_id).follow() for node_id in NODES]
    first = only(listed(press, EDGE))
    for _ in range(30):
        press.now += HOUR
        if press.due():
            press.publish()
    second = only(listed(press, EDGE))
    assert second.content_hash == first.content_hash and second.config_version == first.config_version + 1
    assert (kept(press, EDGE), kept(press, EDGE, "increment")) == (2, 1)
    for reader in readers:
        assert ("increment", EDGE) in reader.follow().taken


def test_a_new_epoch_signs_each_once(press: Press) -> None:
    press.add_bundle(epoch=2)
    press.publish()
    for scope in (EDGE, POLICY):
        assert only(listed(press, scope)).pair == (2, 2)


# ---- groups


def test_from_one_group_to_another_and_back(press: Press) -> None:
    """There and back it goes forward; what was made for it is everybody's at the next renewal."""
    reader = press.reader("node-a").follow()
    state = State()
    state.groups["node-b"] = "right"
    press.apply(state.yaml())
    press.publish()
    left, right = listed(press, POLICY)["node-c"], listed(press, POLICY)["node-b"]

    state.groups["node-a"] = "right"
    press.apply(state.yaml())
    press.publish()
    assert press.listing("node-a")[POLICY] == right  # nothing is signed for it
    reader.follow()

    state.groups["node-a"] = "left"
    press.apply(state.yaml())
    press.publish()
    again = press.listing("node-a")[POLICY]
    assert again.content_hash == left.content_hash and again.config_version > right.config_version
    assert listed(press, POLICY)["node-c"] == left  # what one node does costs the others nothing
    reader.follow()

    press.now += press.settings.snapshot_refresh_s
    before = kept(press, POLICY)
    press.publish()
    entries = listed(press, POLICY)
    assert entries["node-a"] == entries["node-c"] == entries["node-d"] != entries["node-b"]
    assert kept(press, POLICY) == before + 2


def test_a_config_that_is_withdrawn_and_comes_back(press: Press) -> None:
    """Its version lies behind the node, which would take it for what it has."""
    reader, first = press.reader("node-a").follow(), only(listed(press, EDGE))
    state = State(to="{labels: {group: left}}")
    state.groups["node-a"] = "right"
    press.apply(state.yaml())
    press.publish()
    assert set(listed(press, EDGE)) == set(NODES) - {"node-a"}
    with pytest.raises(Refused) as caught:  # it was published for it once: a restore may ask for it
        documents.document(press.database, "node-zzz", first.snapshot_id)
    assert caught.value.code is Code.NOT_FOUND
    state.groups["node-a"] = "left"
    press.apply(state.yaml())
    press.publish()
    assert press.listing("node-a")[EDGE].config_version > first.config_version
    assert press.listing("node-b")[EDGE] == first
    reader.follow()


def test_another_role_takes_another_document(press: Press) -> None:
    reader = press.reader("node-a").follow()
    state = State()
    state.roles["node-a"] = "thin"
    press.apply(state.yaml())
    press.publish()
    roles = envelope.parse(press.document(POLICY, "node-a").envelope, "snapshot").roles
    assert roles == ("thin",)
    assert press.listing("node-a")[EDGE] == press.listing("node-b")[EDGE]
    reader.follow()


# ---- several coordinators, and what lies before


def test_two_coordinators_sign_the_same_at_once(press: Press, second: Database) -> None:
    """One version wins; the other is told so, and finds it."""
    other = Press(second, press.now, press.settings, press.bundles)
    press.apply(State(text="other " * 300).yaml())
    mine, theirs = press.prepare("node-a", "node-b"), other.prepare("node-c", "node-d")
    assert put_out(press, mine) == {}
    assert {each.code for each in put_out(other, theirs).values()} == {Code.CONFLICT}
    assert put_out(other, other.prepare("node-c", "node-d")) == {}
    assert (kept(press, EDGE), len(set(listed(press, EDGE).values()))) == (2, 1)


def test_a_crash_between_signing_and_publishing_leaves_nothing(press: Press) -> None:
    press.apply(State(text="other " * 300).yaml())
    press.prepare()
    assert kept(press, EDGE) == 1
    press.publish()
    assert only(listed(press, EDGE)).config_version == 2


def test_one_that_loses_its_swap_keeps_the_document_from_nobody(press: Press) -> None:
    """It was the first that needed it."""
    press.apply(State(text="other " * 300).yaml())
    batch = press.prepare()
    press.apply(State(text="other " * 300, groups={**State().groups, "node-a": "right"}).yaml())
    assert set(put_out(press, batch)) == {"node-a"}
    assert len(set(listed(press, EDGE).values())) == 2
    press.publish()
    assert len(set(listed(press, EDGE).values())) == 1


def test_two_documents_of_one_number_in_one_batch_are_refused(press: Press) -> None:
    """The first has it. Who lost its swap has taken none."""
    press.apply(State(text="other " * 300).yaml())
    drafts = [draft for node_id in NODES[:3] for draft in press.prepare(node_id).drafts]
    press.apply(State(text="other " * 300, groups={**State().groups, "node-a": "right"}).yaml())
    refused = put_out(press, Batch(tuple(drafts), {}))
    assert {node_id: each.code for node_id, each in refused.items()} == dict.fromkeys(
        ("node-a", "node-c"), Code.CONFLICT
    )
    assert "another document" in refused["node-c"].detail
    assert press.listing("node-b")[EDGE].config_version == 2
    press.publish()
    assert kept(press, EDGE) == 2
    assert only(listed(press, EDGE)) == press.listing("node-b")[EDGE]


def put_out(press: Press, batch: Batch) -> dict[str, Refused]:
    publications = [each.publication for each in batch.drafts]
    return heads.publish(press.database, publications, actor="coordinator", now=press.now)


def test_history_is_kept_for_each_group(press: Press) -> None:
    """One counter numbers all groups; the few versions of one are not pushed out by those of another."""
    press.settings = replace(press.settings, increment_history_versions=8)
    state = State()
    state.groups["node-d"] = "right"
    for minutes in range(3, 14):
        state.minutes["left"] = minutes
        press.apply(state.yaml())
        press.publish()
    before = listed(press, POLICY)
    retention.trim(press.database, now=press.now, settings=press.settings)
    assert kept(press, POLICY) >= 12
    assert listed(press, POLICY) == before
    press.now += 8 * DAY
    press.publish()
    retention.trim(press.database, now=press.now, settings=press.settings)
    assert kept(press, POLICY) == len(set(listed(press, POLICY).values()))


# ---- any sequence


class Groups(RuleBasedStateMachine):
    """Two coordinators over one database, and nodes that follow whatever is published."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        url = migrated.at(Path(self.folder.name) / "state.db")
        self.databases = [Database(url), Database(url)]

    @initialize()
    def begin(self) -> None:
        self.state = State()
        first = founded(self.databases[0], self.state)
        self.presses = [first, Press(self.databases[1], bundles=first.bundles)]
        self.readers: dict[str, Reader] = {}
        self.epoch = 1
        self.contents: dict[tuple[str, int, int], tuple[str, str]] = {}
        self.last: dict[tuple[str, str], HeadEntry] = {}
        self.publish(0)

    def teardown(self) -> None:
        for each in self.databases:
            each.close()
        self.folder.cleanup()

    @property
    def press(self) -> Press:
        return self.presses[0]

    @rule(node_id=st.sampled_from(NODES), group=st.sampled_from(GROUPS))
    def move(self, node_id: str, group: str) -> None:
        self.state.groups[node_id] = group
        self._apply()

    @rule(node_id=st.sampled_from(NODES), role=st.sampled_from(["core_mesh", "thin", ""]))
    def change_role(self, node_id: str, role: str) -> None:
        self.state.roles[node_id] = role
        self._apply()

    @rule(group=st.sampled_from(GROUPS), minutes=st.integers(1, 3))
    def change_content(self, group: str, minutes: int) -> None:
        self.state.minutes[group] = minutes
        self._apply()

    @rule(text=st.sampled_from(["one ", "two "]), template=st.booleans(), everybody=st.booleans())
    def change_config(self, text: str, template: bool, everybody: bool) -> None:
        self.state.text, self.state.template = text * 300, template
        self.state.to = "{roles: [core_mesh, thin]}" if everybody else "{labels: {group: left}}"
        self._apply()

    @rule(hours=st.sampled_from([1, 8, 23, 25, 72]))
    def wait(self, hours: int) -> None:
        for each in self.presses:
            each.now += hours * HOUR

    @rule()
    def raise_epoch(self) -> None:
        self.epoch += 1
        self.press.add_bundle(epoch=self.epoch)
        self.publish(0)  # a reader takes each bundle at once, and the head has to list it

    @rule()
    def trim(self) -> None:
        retention.trim(self.press.database, now=self.press.now, settings=self.press.settings)

    @rule(at=st.sampled_from([0, 1]))
    def publish(self, at: int) -> None:
        """Whatever is due; and then nothing is."""
        batch = self.presses[at].publish()
        self._check(batch)

    @rule(at=st.sampled_from([0, 1]), split=st.integers(1, 3))
    def publish_at_once(self, at: int, split: int) -> None:
        """Both have signed before one publishes: each some of the nodes, which overlap."""
        due = self.press.due()
        one, other = self.presses[at], self.presses[1 - at]
        shares = [(one, due[:split]), (other, due[split - 1 :])]
        batches = [(press, press.prepare(*nodes)) for press, nodes in shares if nodes]
        for press, batch in batches:
            refused = put_out(press, batch)
            assert {each.code for each in refused.values()} <= {Code.CONFLICT}
            for draft in batch.drafts:
                if draft.publication.node_id in refused:
                    press.kept.note_failure(draft.publication.node_id)
                else:
                    press.kept.note_published(draft)

    @rule(node_id=st.sampled_from(NODES))
    def follow(self, node_id: str) -> None:
        """With the verifier of a node; one that comes for the first time too. Its head has to be fresh."""
        if self.press.due():
            self.publish(0)
        reader = self.readers.setdefault(node_id, self.press.reader(node_id))
        reader.follow()
        listing = self.press.listing(node_id)
        held = reader.holder.active
        assert all(held[scope].content_hash == entry.content_hash for scope, entry in listing.items() if scope in held)

    @invariant()
    def every_version_is_one_document(self) -> None:
        """Of a scope that nodes may share it says one thing to whoever is given it; and each only goes forward."""
        with self.databases[0].read() as transaction:
            listings = documents.listings(transaction, NODES)
        for node_id, listed_now in listings.items():
            for scope, entry in listed_now.items():
                before = self.last.get((node_id, scope))
                assert before is None or entry == before or entry.pair > before.pair
                self.last[node_id, scope] = entry
                if scope in (POLICY, EDGE, "route_policy", "peer_directory", "storage_directory"):
                    said = (entry.content_hash, entry.snapshot_id)
                    assert self.contents.setdefault((scope, *entry.pair), said) == said

    @invariant()
    def what_is_remembered_is_what_is_out(self) -> None:
        for press in self.presses:
            press.check_remembered()

    def _apply(self) -> None:
        self.press.apply(self.state.yaml())

    def _check(self, batch: Batch) -> None:
        """What one publication brings to several nodes with equal content, for the same audience, is one document."""
        assert all(not each.failed for each in batch.drafts), [each.failed for each in batch.drafts]
        brought: dict[tuple[object, ...], set[str]] = defaultdict(set)
        for draft in batch.drafts:
            for each in draft.publication.documents:
                if each.kind == "snapshot" and each.subject == "*":
                    brought[_audience(each)].add(each.snapshot_id)
        assert all(len(ids) == 1 for ids in brought.values())


def _audience(each: Document) -> tuple[object, ...]:
    one = envelope.parse(each.envelope, each.kind)
    return each.scope, each.content_hash, one.roles, one.organization_ids


def test_who_follows_again_finds_nothing_new() -> None:
    """A step of the model that its few examples rarely take."""
    model = Groups()
    model.begin()
    model.follow("node-b")
    model.follow("node-b")
    assert model.readers["node-b"].taken == []
    model.teardown()


Groups.TestCase.settings = settings(
    max_examples=4, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroups = Groups.TestCase

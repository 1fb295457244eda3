"""What a node is given of Configs: which folders, which bytes, and what a change of them costs."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import contents, increments, views
from coordinator.declared.compiler import ScopeContent, StoredSection, compile_scope
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.kinds import Config, ConfigFile, FileContent, Node, Organization, Selector
from coordinator.declared.model import Model
from coordinator.declared.references import faults_of
from coordinator.fleet import explain
from snapshot.identifiers import Scope
from tests.coordinator.models import model
from tests.fakes.binary import random_bytes

SCOPE = Scope(CONFIG, ("edge",))
EDGE = Selector(labels={"app": "edge"})


class Store:
    """Parts by their hashes, and what was read of them."""

    def __init__(self) -> None:
        self.parts: dict[str, bytes] = {}
        self.reads: list[str] = []

    def file(self, data: bytes, names: tuple[str, ...] = (), **more: str) -> ConfigFile:
        parts = contents.split(data)
        hashes = tuple(hashlib.sha256(part).hexdigest() for part in parts)
        self.parts |= dict(zip(hashes, parts, strict=True))
        return ConfigFile(content=FileContent(len(data), hashes, names), template=bool(names), **more)

    def read(self, sha256: str) -> bytes:
        self.reads.append(sha256)
        return self.parts[sha256]

    def compiled(self, state: Model, node_id: str = "n1") -> ScopeContent:
        return compile_scope(state, node_id, SCOPE, self.read)


@pytest.fixture
def store() -> Store:
    return Store()


def fleet(*configs: Config, **labels: str) -> Model:
    nodes = [Node(f"n{number}", labels={"app": "edge", **labels}, organizations=("acme",)) for number in (1, 2)]
    return model(
        *nodes, Node("other"), Node("w", kind="witness", labels={"app": "edge"}), Organization("acme"), *configs
    )


def files_of(found: ScopeContent) -> dict[str, bytes]:
    """As a node would put them together (format.md 11)."""
    loaded = found.read_all()
    index = json.loads(loaded.pop("files"))
    files = {path: b"".join(loaded.pop(name) for name in each["sections"]) for path, each in index.items()}
    assert loaded == {}, "each section is of one file"
    assert {path: len(data) for path, data in files.items()} == {path: each["size"] for path, each in index.items()}
    return files


def test_files_are_given_as_they_are(store: Store) -> None:
    big = random_bytes((3 << 20) + 7)
    config = Config(
        "edge", EDGE, {"a/big": store.file(big), "empty": store.file(b""), "x": store.file(b"x", mode="0750")}
    )
    found = store.compiled(fleet(config))
    assert store.reads == [], "nothing is read before a document is made"
    index = json.loads(found.section("files"))
    assert {path: (len(each["sections"]), each["mode"]) for path, each in index.items()} == {
        "a/big": (4, "0644"), "empty": (1, "0644"), "x": (1, "0750"),
    }  # fmt: skip
    assert files_of(found) == {"a/big": big, "empty": b"", "x": b"x"}
    assert found.raw == found.sections.keys() - {"files"}
    assert all(isinstance(found.sections[name], StoredSection) for name in found.raw)


def test_a_template_is_each_nodes_own(store: Store) -> None:
    text = b"${node.id} ${node.site} ${node.kind} ${node.labels.app} ${cluster.id} $$\n"
    names = ("cluster.id", "node.id", "node.kind", "node.labels.app", "node.site")
    state = fleet(Config("edge", EDGE, {"motd": store.file(text, names)}))
    assert files_of(store.compiled(state)) == {"motd": b"n1 default data edge prod $\n"}
    assert files_of(store.compiled(state, "n2")) == {"motd": b"n2 default data edge prod $\n"}
    assert store.compiled(state).content_hash != store.compiled(state, "n2").content_hash


def test_a_template_without_names_is_rendered_too(store: Store) -> None:
    file = replace(store.file(b"5 $$"), template=True)
    assert files_of(store.compiled(fleet(Config("edge", EDGE, {"a": file})))) == {"a": b"5 $"}


@given(st.dictionaries(st.sampled_from(["a", "b/c", "d.e", "F"]), st.binary(max_size=9), min_size=1))
def test_whatever_is_declared_is_what_a_node_has(files: dict[str, bytes]) -> None:
    store = Store()
    state = fleet(Config("edge", EDGE, {path: store.file(data) for path, data in files.items()}))
    assert files_of(store.compiled(state)) == files
    assert store.compiled(state).content_hash == store.compiled(state, "n2").content_hash


def test_who_is_given_it(store: Store) -> None:
    state = fleet(Config("edge", EDGE, {"a": store.file(b"a")}))
    assert [node_id for node_id in state.members if SCOPE in views.scopes(state, state.subjects[node_id])] == [
        "n1",
        "n2",
    ]
    said = "`to` of Config edge selects label app=edge"
    assert explain.because(state, state.subjects["n1"], SCOPE) == said
    assert explain.because(state, state.subjects["other"], SCOPE) == "Config edge is not for this node (to)"
    of_others = fleet(Config("edge", EDGE, {"a": store.file(b"a")}, "umbrella"))
    assert not any(SCOPE in views.scopes(of_others, each) for each in of_others.subjects.values())


def test_the_envelope_names_its_organization_and_no_role(store: Store) -> None:
    files = {"organization_id": store.file(b"a")}  # a path is no member
    assert store.compiled(fleet(Config("edge", EDGE, files))).audience.organization_ids == ()
    audience = store.compiled(fleet(Config("edge", EDGE, files, "acme"))).audience
    assert (audience.roles, audience.organization_ids) == ((), ("acme",))


def test_a_change_of_one_file_brings_that_file(store: Store) -> None:
    """And of a large one the parts that differ."""
    big = bytearray(random_bytes(3 << 20))
    before = store.compiled(fleet(Config("edge", EDGE, {"big": store.file(bytes(big)), "x": store.file(b"x")})))
    big[1 << 20] ^= 1
    files = {"big": store.file(bytes(big)), "new": store.file(b"new")}
    after = store.compiled(fleet(Config("edge", EDGE, files)))
    delta = increments.changes(before.entries, before.section, after.sections, after.raw)
    index = json.loads(after.section("files"))
    assert delta.changes.keys() - {"files"} == {
        index["big"]["sections"][1], index["new"]["sections"][0],
        *json.loads(before.section("files"))["x"]["sections"],
    }  # fmt: skip
    assert delta.changes[index["big"]["sections"][1]].op == "set"
    assert "files" in delta.changes, "an increment always brings the index (format.md 11)"


def test_bytes_are_never_patched(store: Store) -> None:
    """A rendered file may happen to be JSON."""
    text = b'{"much": "' + b"x" * 2_000 + b'", "id": "${node.labels.v}"}'
    config = Config("edge", EDGE, {"a": store.file(text, ("node.labels.v",))})
    before, after = (store.compiled(fleet(config, v=value)) for value in "12")
    delta = increments.changes(before.entries, before.section, after.sections, after.raw)
    assert {each.op for each in delta.changes.values()} == {"set"}


def test_an_index_changes_wherever_a_file_does(store: Store) -> None:
    """Also where nothing but bytes of the same size are others: it is then set as it was."""
    one, two = (store.compiled(fleet(Config("edge", EDGE, {"a": store.file(each)}))) for each in (b"1", b"2"))
    assert one.section("files") == two.section("files")
    delta = increments.changes(one.entries, one.section, two.sections, two.raw, two.always)
    (part,) = two.raw
    assert {name: each.op for name, each in delta.changes.items()} == {"files": "set", part: "set"}
    same = increments.changes(one.entries, one.section, one.sections, one.raw, one.always)
    assert {name: each.op for name, each in same.changes.items()} == {"files": "set"}


# ---- whether they hold together


def problems(*resources) -> list[tuple[str, str]]:
    together = {each.key: each for each in resources}
    return [(".".join(map(str, fault.path)), fault.message) for _, fault in faults_of(Model("prod", together))]


def test_who_lacks_a_label_is_named(store: Store) -> None:
    file = store.file(b"${node.labels.tier}", ("node.labels.tier",))
    nodes = [Node(f"n{number}", labels={"app": "edge"}) for number in range(5)]
    config = Config("edge", EDGE, {"motd": file})
    (found,) = problems(config, *nodes, Node("other"), Node("has", labels={"app": "edge", "tier": "1"}))
    assert found == ("spec.files.motd", "n0, n1, n2 and 2 more have no label tier, which the template asks for")
    (found,) = problems(config, nodes[0])
    assert found[1].startswith("n0 has no label tier")
    assert problems(config, Node("other")) == []


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"to": Selector()}, "selects no node"),
        ({"to": Selector(nodes=("gone",))}, "there is no Node gone"),
        ({"to": Selector(nodes=("w",))}, "w is a witness, which holds no Config"),
        ({"to": EDGE, "organization": "gone"}, "there is no Organization gone"),
        ({"to": Selector(nodes=("n",)), "organization": "acme"}, "n does not serve acme"),
    ],
)
def test_what_does_not_hold_together(store: Store, config: dict, message: str) -> None:
    there = [Node("n"), Node("w", kind="witness"), Organization("acme")]
    (found,) = problems(Config("edge", files={"a": store.file(b"a")}, **config), *there)
    assert found[1] == message


def test_more_folders_than_a_node_reports(store: Store) -> None:
    configs = [Config(f"c{number}", EDGE, {"a": store.file(b"a")}) for number in range(257)]
    (found,) = problems(*configs, Node("n", labels={"app": "edge"}), Node("other"))
    assert found[1] == "the node would hold 257 Configs"

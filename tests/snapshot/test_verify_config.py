"""Documents of scope type `config` (format.md 11): files, whole or changed, through all steps."""

from dataclasses import replace

import pytest

from coordinator.declared import increments
from coordinator.keys import signer
from coordinator.keys.signer import Base
from snapshot import canonical
from snapshot.config_files import FileEntry
from snapshot.manifest import SectionChange
from snapshot.reasons import Reason
from tests.fakes.cluster import Cluster
from tests.fakes.config_document import FileContent, config_sections

WEB = "config/web"
BAD, FAILED, SECRET = (11, Reason.BAD_CONTENT), (11, Reason.PATCH_FAILED), (12, Reason.RAW_SECRET)
TOKEN = b"AKIAIOSFODNN7EXAMPLE"
FILES = {
    "nginx.conf": FileContent(b"worker_processes 1;\n"),
    "big.bin": FileContent(bytes(range(256)) * 3, "0600"),
    "flags.json": FileContent(b'{"on":true}', "0640", is_json=True),
}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("ingress")


def document(cluster, files=FILES, part_bytes=100, **members):
    made = config_sections(files, part_bytes)
    return cluster.snapshot(made.sections, WEB, raw=made.raw, **members)


def change(cluster, files, part_bytes=100):
    """As a coordinator makes it: raw sections whole, those of JSON patched."""
    before, made = cluster.states[WEB], config_sections(files, part_bytes)
    delta = increments.changes(before.base().sections, before.sections.__getitem__, made.sections, made.raw)
    claims = cluster._claims(WEB, {})
    built = signer.increment(claims, before.base(), delta.changes, delta.brought, cluster._signers("config"))
    return cluster._publish(built, made.sections, made.raw), delta


def given_sections(node):
    return dict(node.kept)


def test_a_config(cluster, node):
    """The sections are handed over as they are, and the state says which are raw."""
    taken = node.take(document(cluster))
    made = config_sections(FILES, 100)
    assert given_sections(node) == dict(made.sections)
    assert {name for name, entry in taken.state.items() if entry.is_raw} == made.raw
    assert taken.scope == WEB


@pytest.mark.parametrize("roles", [(), ("ingress",), ("core_mesh", "thin"), ("gardener",)], ids=str)
def test_every_node_may_hold_one(cluster, roles):
    """Also a shared one without roles (format.md 7, step 3; 9)."""
    node = cluster.node(*roles)
    node.take(document(cluster))
    node.take(document(cluster, subject_node_id="*"))


def test_a_shared_one_for_roles_is_for_those(cluster):
    shared = document(cluster, subject_node_id="*", roles=["ingress"])
    assert cluster.node("thin").refusal(shared) == (3, Reason.WRONG_NODE)
    cluster.node("ingress", "thin").take(shared)


def test_a_shared_one_is_tested_for_its_organizations(cluster, node):
    shared = document(cluster, subject_node_id="*", organization_ids=["elsewhere"])
    assert node.refusal(shared) == (10, Reason.ORGANIZATION_NOT_ALLOWED)


@pytest.mark.parametrize("ids", [[], ["a", "b"]], ids=str)
def test_one_config_a_scope(cluster, node, ids):
    assert node.refusal(document(cluster, scope_ids=ids)) == (1, Reason.BAD_ENVELOPE)
    cluster.versions[WEB] = 2
    back = cluster.recovery(document(cluster), scope_ids=ids)
    assert node.refusal(back) == (1, Reason.BAD_ENVELOPE)


@pytest.mark.parametrize("scope", ["route_policy", "node_runtime", "peer_directory"])
def test_no_other_scope_type_has_raw_sections(cluster, node, scope):
    assert node.refusal(cluster.snapshot({"a": {}, "b": {}}, scope, raw=["a"])) == BAD
    node.take(cluster.snapshot({"a": {}}, "route_policy"))
    assert node.refusal(cluster.increment(sets={"c": {}}, raw=["c"])) == BAD


def test_an_increment_brings_what_changed(cluster, node):
    node.take(document(cluster))
    files = FILES | {
        "big.bin": FileContent(FILES["big.bin"].data[:500] + b"x" * 268, "0600"),
        "flags.json": FileContent(b'{"off":[1,2,3],"on":true}', "0640", is_json=True),
        "new/motd": FileContent(b"hello"),
    }
    changed, delta = change(cluster, files)
    taken = node.take(changed)
    assert {one.op for name, one in delta.changes.items() if name.startswith("raw.")} == {"set"}
    assert len([name for name in delta.changes if name.startswith("raw.")]) == 4  # three parts of eight, and a new file
    made = config_sections(files, 100)
    assert {name: entry.sha256 for name, entry in taken.state.items()} == {
        name: signer.entry_of(data).sha256 for name, data in made.sections.items()
    }
    assert {name for name, entry in taken.state.items() if entry.is_raw} == made.raw
    node.take(change(cluster, {})[0])


def files_member(**files):
    return {path: FileEntry(tuple(names), size, "0644").members() for path, (names, size) in files.items()}


def simple(cluster):
    """File x of the raw sections a and b, file y of JSON."""
    sections = {"files": files_member(x=(["a", "b"], 4), y=(["j"], 2)), "a": b"aa", "b": b"bb", "j": {}}
    return cluster.snapshot(sections, WEB, raw=["a", "b"])


INCREMENTS = {
    "without files": ({"sets": {"a": b"cc"}, "raw": ["a"]}, BAD),
    "files goes": ({"removes": ["files"]}, BAD),
    "a size of before": (
        {"sets": {"a": b"ccc", "files": files_member(x=(["a", "b"], 4), y=(["j"], 2))}, "raw": ["a"]},
        BAD,
    ),
    "a section nobody names": (
        {"sets": {"c": b"c", "files": files_member(x=(["a", "b"], 4), y=(["j"], 2))}, "raw": ["c"]},
        BAD,
    ),
    "a raw section patched": ({"patches": {"a": [], "files": []}}, FAILED),
    "a section that is not there patched": ({"patches": {"q": [], "files": []}}, FAILED),
    "a patch fails, and the index as well": (
        {"patches": {"j": [{"op": "remove", "path": "/x"}]}, "sets": {"files": {}}},
        FAILED,
    ),
    "a section that is not there goes": ({"removes": ["q"], "patches": {"files": []}}, FAILED),
    "raw without saying so": ({"sets": {"a": b"\xff", "files": files_member(x=(["a", "b"], 3), y=(["j"], 2))}}, BAD),
    "authority in JSON": (
        {"sets": {"j": {"user_directory": 1}, "files": files_member(x=(["a", "b"], 4), y=(["j"], 20))}},
        BAD,
    ),
}


@pytest.mark.parametrize(("members", "verdict"), INCREMENTS.values(), ids=INCREMENTS)
def test_increments_that_do_not_hold(cluster, node, members, verdict):
    node.take(simple(cluster))
    assert node.refusal(cluster.increment(WEB, **members)) == verdict


def test_the_entries_of_an_increment_are_applied_in_manifest_order(cluster, node):
    """format.md 11: of two that fail, the first in the manifest is said."""
    sections = {"files": files_member(x=(["a"], 2), y=(["b"], 2)), "a": {}, "b": {}}
    wrong_result = [{"op": "add", "path": "/x", "value": 1}]
    fails = [{"op": "remove", "path": "/x"}]
    for first, second, verdict in (
        (wrong_result, fails, (11, Reason.RESULT_MISMATCH)),
        (fails, wrong_result, FAILED),
    ):
        node.take(cluster.snapshot(sections, WEB))
        lies = {"a": b'{"y":1}', "b": b'{"y":1}'}
        bad = cluster.increment(WEB, patches={"a": first, "b": second, "files": []}, results=lies)
        assert node.refusal(bad) == verdict


def test_what_the_index_says_is_judged_by_its_own_form_alone(cluster, node):
    """No path is a secret's name, an organization or authority."""
    names = ["organization_id", "password", "user_directory", "secret_ref", "kty", TOKEN.decode()]
    sections = {f"s{number}": b"x" for number in range(len(names))}
    index = files_member(**{name: ([f"s{number}"], 1) for number, name in enumerate(names)})
    node.take(cluster.snapshot({"files": index, **sections}, WEB, raw=sections))


def test_a_json_file_is_looked_at_as_any_section(cluster, node):
    for value, verdict in (
        ({"password": "x"}, SECRET),
        ({"organization_id": "elsewhere"}, (11, Reason.UNRELATED_ORGANIZATION)),
        ({"query_grants": 1}, BAD),
        ([TOKEN.decode()], SECRET),
    ):
        data = canonical.dumps(value)
        assert node.refusal(document(cluster, {"a.json": FileContent(data, is_json=True)})) == verdict
        node.take(document(cluster, {"a.txt": FileContent(data.replace(TOKEN, b""))}))


@pytest.mark.parametrize("part_bytes", [1, 7, 13, 100, 10_000])
def test_a_secret_in_a_raw_file(cluster, node, part_bytes):
    data = b"key = " + TOKEN + b"\n"
    assert node.refusal(document(cluster, {"a": FileContent(data)}, part_bytes)) == SECRET


def test_half_a_secret_in_each_of_two_files_is_none(cluster, node):
    node.take(document(cluster, {"a": FileContent(TOKEN[:9]), "b": FileContent(TOKEN[9:])}))


def test_an_increment_is_looked_at_where_it_sets_or_names_anew(cluster, node):
    """Also where the other half of a secret has been there before; a file that it leaves alone is not looked at."""
    halves = {"a": b"key AKIAIOSF", "b": b"ODNN7EXAMPLE"}
    apart = {"files": files_member(x=(["a"], 12), y=(["b"], 12)), **halves}
    node.take(cluster.snapshot(apart, WEB, raw=halves))
    joined = files_member(x=(["a", "b"], 24))
    assert node.refusal(cluster.increment(WEB, sets={"files": joined})) == SECRET
    cluster.states[WEB] = replace(cluster.states[WEB], config_version=1, sections=node_sections(apart))
    other = files_member(z=(["a"], 12), y=(["b"], 12))
    node.take(cluster.increment(WEB, sets={"files": other}))
    worse = files_member(z=(["a", "c"], 24), y=(["b"], 12))
    assert node.refusal(cluster.increment(WEB, sets={"files": worse, "c": halves["b"]}, raw=["c"])) == SECRET


def node_sections(sections):
    return {name: signer.section_bytes(value) for name, value in sections.items()}


def test_the_form_belongs_to_the_state(cluster, node):
    """A change that only leaves it out has another hash (format.md 5)."""
    node.take(simple(cluster))
    state = cluster.states[WEB]
    entry = signer.entry_of(b"[]", is_raw=True)
    index = signer.section_bytes(files_member(x=(["a", "b"], 4), y=(["j"], 2)))
    changes = {"files": SectionChange("set", *2 * (signer.entry_of(index),)), "a": SectionChange("set", entry, entry)}
    claims = cluster._claims(WEB, {})
    base = Base(state.config_version, state.base().sections)
    good = signer.increment(claims, base, changes, {"files": index, "a": b"[]"}, cluster._signers("config"))
    said = canonical.loads(good.manifest_bytes)
    del said["a"]["form"]
    assert node.refusal(cluster.forge(good, manifest=said)) == (11, Reason.RESULT_MISMATCH)
    node.take(good)

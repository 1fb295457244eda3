"""`holdfast store`, as a process of its own, on a running and on a stopped agent's root."""

import json
import os
import shutil

import pytest

from holdfast.node import store_root
from snapshot.container import ChunkParts
from snapshot.verify import AlreadyApplied, verify
from store.base.disk import Disk
from store.base.environment import Environment
from store.base.layout import Root
from store.base.records import ProbationTerms
from tests.fakes.config_document import FileContent, config_sections
from tests.store.cluster import BOOT, NOW, SCOPE, Cluster, Node
from tests.store.dying import in_a_child
from tests.store.filling import receive
from tests.world import programs


@pytest.fixture
def node(tmp_path):
    fresh = Node(tmp_path / "root", Cluster())
    fresh.open()
    fresh.apply(fresh.cluster.bundle())
    fresh.apply(fresh.cluster.snapshot(1, {"a": 1, "b": {"c": "d"}}))
    yield fresh
    fresh.close()


def ran(node, command, *arguments):
    return programs.run("holdfast", "store", command, "--root", node.path, *arguments, folder=node.path.parent)


def contents(node):
    kept = {path: path.read_bytes() for path in node.path.rglob("*") if path.is_file() and path.name != "lock.mdb"}
    return {str(path): data for path, data in kept.items()}


@pytest.fixture(params=["running", "stopped"])
def either(request, node):
    if request.param == "stopped":
        node.close()
    return node


def test_check_of_a_sound_store(either):
    before = contents(either)
    found = ran(either, "check")
    assert (found.status, found.out, found.err) == (0, "blue: no fault\n", "")
    assert contents(either) == before


def test_check_yields_every_fault(node):
    home = node.store.paths.home
    node.close()
    (home / "floors" / "a.rec").write_bytes(b"rubbish")
    (home / "identity" / "node.key").touch(mode=0o600)
    (home / "identity" / "node.key").chmod(0o644)
    data = (home / "store" / "data.mdb").read_bytes()
    (home / "store" / "data.mdb").write_bytes(data.replace(b'{"c":"d"}', b'{"c":"e"}'))
    found = ran(node, "check", "--json")
    assert found.status == 1
    codes = [json.loads(line)["code"] for line in found.out.splitlines()]
    assert sorted(codes) == ["bad_permissions", "blob_damaged", "floor_unreadable"]


def test_check_survives_a_file_that_kills(node):
    """threats fact 2: the child dies, not we"""
    data = node.store.paths.store / "data.mdb"
    node.close()
    with data.open("r+b") as file:
        file.truncate(12288)
    found = ran(node, "check")
    assert found.status == 1
    assert "store_corrupt" in found.out
    refused = ran(node, "list")
    assert refused.status == 2
    assert "store_corrupt" in refused.err


def test_list(either):
    found = ran(either, "list")
    assert found.status == 0
    assert f"{SCOPE}  active 1.1  mark 1.1  expires 20" in found.out
    told = json.loads(ran(either, "list", "--json").out)
    assert told["generation"] == 2
    assert [row["scope"] for row in told["scopes"]] == [SCOPE, "trust_bundle"]
    routes, bundle = (row["made_for"] for row in told["scopes"])
    assert f"  for {routes}" in found.out
    assert routes == "every node with the roles core_mesh, egress_service whose head lists it"
    assert bundle == "every member of the cluster"


def test_list_shows_what_is_pending(node):
    node.download(node.cluster.snapshot(2, {"a": 2}))
    assert "pending" in ran(node, "list").out


def test_list_tells_a_candidate_from_what_is_to_run(node):
    """It lies there beside what was received to be run, and only one of the two may be."""
    node.download(node.cluster.snapshot(2, {"a": 2}))
    coming = node.cluster.snapshot(3, {"a": 3})
    slot = receive(node.store.receive_candidate(SCOPE, room=1 << 20), coming)
    found = ran(node, "list").out
    assert f"{SCOPE}  candidate {slot.envelope_hash[:23]}  judged, waits for a head that lists it to be run" in found
    assert f"{SCOPE}  pending " in found
    told = json.loads(ran(node, "list", "--json").out)["pending"]
    assert {held["envelope_hash"]: held["candidate"] for held in told}[slot.envelope_hash] is True
    assert sorted(held["candidate"] for held in told) == [False, True]


def test_list_says_what_is_on_probation_and_what_went_back(node):
    terms = {SCOPE: ProbationTerms(60.0)}
    verdict = node.verified(node.cluster.snapshot(2, {"a": 2}))
    node.store.activate(verdict, now=NOW, boot=BOOT, probations=terms)
    assert "active 1.2  mark 1.2" in (found := ran(node, "list").out)
    assert "(on probation)" in found
    node.store.revert(SCOPE, check="web", detail="exit 1", now=NOW)
    assert "active 1.1  mark 1.2" in (found := ran(node, "list").out)
    assert "(went back to what was good)" in found
    assert "(on probation)" not in found


def test_show(either):
    found = ran(either, "show", SCOPE)
    assert found.status == 0
    assert "mark:           1.1" in found.out
    assert f"signers:        {either.cluster.config.key_id}" in found.out
    assert ran(either, "show", SCOPE, "--section", "b").out == '{"c":"d"}'
    assert "applied" in ran(either, "show", "--journal", "5").out
    assert ran(either, "show").status == 2
    told = json.loads(ran(either, "show", SCOPE, "--json").out)
    assert (told["scope"], told["mark"], told["signers"]) == (SCOPE, "1.1", either.cluster.config.key_id)
    assert told["sections"]["b"]["size"] == len('{"c":"d"}')
    told = json.loads(ran(either, "show", SCOPE, "--section", "b", "--journal", "5", "--json").out)
    assert (told["value"], told["journal"][0]["event"]) == ({"c": "d"}, "applied")


@pytest.mark.parametrize("arguments", [("qos_policy",), (SCOPE, "--section", "none")])
def test_what_is_not_there_is_named(node, arguments):
    found = ran(node, "show", *arguments)
    assert found.status == 2
    assert "not_found" in found.err
    assert "Traceback" not in found.err


def test_export_of_a_snapshot_is_the_container_as_received(either, tmp_path):
    """rules S7"""
    target = tmp_path / "out.hfs"
    assert ran(either, "export", SCOPE, str(target)).status == 0
    if either.store is None:
        either.open()
    verdict = verify(ChunkParts([target.read_bytes()]), either.holder(), kind="snapshot", now=NOW)
    assert isinstance(verdict, AlreadyApplied)
    assert ran(either, "export", SCOPE, str(target)).status == 2  # nothing is written over


def test_export_of_sections(node, tmp_path):
    held = node.store.active(SCOPE)
    base = type("Base", (), {"envelope": held.envelope, "state": held.sections})
    node.apply(node.cluster.setting(2, base, "a", 2))
    refused = ran(node, "export", SCOPE, str(tmp_path / "out.hfs"))
    assert refused.status == 2
    assert "increment" in refused.err
    told = ran(node, "export", SCOPE, str(tmp_path / "out"), "--json")
    about = {"scope": SCOPE, "snapshot_id": node.store.active(SCOPE).envelope.snapshot_id}
    assert (told.status, json.loads(told.out)) == (0, {**about, "target": str(tmp_path / "out")})
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert files == {"a.json": b"2", "b.json": b'{"c":"d"}'}


def test_a_raw_section_is_told_apart(node, tmp_path):
    """format.md 11: as bytes into a pipe, and described in JSON; nothing that a terminal obeys."""
    data = b"\x1b[2Jcafe\n\xff" + bytes(200)
    files = {"a": {"sections": ["raw.a"], "size": len(data), "mode": "0644"}}
    sections = {"files": files, "raw.a": data}
    node.apply(node.cluster.snapshot(1, sections, "config", scope_ids=("web",), raw=("raw.a",)))
    found = ran(node, "show", "config/web", "--section", "raw.a", "--json").out
    told = json.loads(found)
    assert (told["form"], told["size"]) == ("raw", len(data))
    assert told["begins"].startswith("\\x1b[2Jcafe\\n\\xff")
    assert "(raw)" in ran(node, "show", "config/web").out
    assert json.loads(ran(node, "show", "config/web", "--json").out)["sections"]["raw.a"]["form"] == "raw"
    assert ran(node, "export", "config/web", str(tmp_path / "out")).status == 0
    assert (tmp_path / "out/raw.a").read_bytes() == data
    assert json.loads((tmp_path / "out/files.json").read_bytes()) == files


def test_a_config_on_a_stick(node, tmp_path):
    """format.md 11, rules S7: listed, checked, and exported as it was received"""
    made = config_sections({"a/b": FileContent(bytes(range(256))), "c.json": FileContent(b"[]", is_json=True)}, 100)
    held = node.apply(node.cluster.snapshot(1, made.sections, "config", scope_ids=("web",), raw=made.raw))
    assert "config/web  active 1.1  mark 1.1" in ran(node, "list").out
    assert ran(node, "check").status == 0
    assert ran(node, "export", "config/web", str(tmp_path / "out.hfs")).status == 0
    parts = ChunkParts([(tmp_path / "out.hfs").read_bytes()])
    verdict = verify(parts, node.holder(), kind="snapshot", now=NOW)
    assert isinstance(verdict, AlreadyApplied)
    assert verdict.envelope.content_hash == held.envelope.content_hash


def test_no_store_and_no_cluster(tmp_path, node):
    for path in (tmp_path / "none", tmp_path):
        missing = Node(path, node.cluster)
        found = ran(missing, "list")
        assert found.status == 2
        assert "Traceback" not in found.err
    assert ran(node, "list", "--cluster", "green").status == 2


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: becoming another user needs root")
def test_as_root_it_becomes_the_owner_and_leaves_no_file_of_its_own(node, tmp_path_factory):
    """platform.md 8"""
    node.close()
    top = tmp_path_factory.mktemp("owned", numbered=True)
    names = [folder.name.partition("-of-")[0] for folder in top.parents]
    for parent in (top, *top.parents[: names.index("pytest") + 1]):
        parent.chmod(0o755)
    shutil.copytree(node.path, top / "root")
    (top / "root" / "clusters" / "blue" / "store" / "lock.mdb").unlink()
    for path in [top / "root", *(top / "root").rglob("*")]:
        os.chown(path, 65533, 65533)

    def look():
        store_root.become_owner(top / "root")
        Root.look(top / "root")
        Environment(top / "root" / "clusters" / "blue" / "store", Disk(), readonly=True).close()
        assert os.getresuid() == (65533, 65533, 65533)
        assert os.getgroups() == []

    assert in_a_child(look) == 0
    assert {path.stat().st_uid for path in (top / "root").rglob("*")} == {65533}
    assert (top / "root" / "clusters" / "blue" / "store" / "lock.mdb").exists()

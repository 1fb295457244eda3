"""`holdfast store`, as a process of its own, on a running and on a stopped agent's root."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from holdfast.node import store_root
from snapshot.container import ChunkParts
from snapshot.verify import AlreadyApplied, verify
from store.base.disk import Disk
from store.base.environment import Environment
from store.base.layout import Root
from tests.store.cluster import NOW, SCOPE, Cluster, Node
from tests.store.dying import in_a_child


@pytest.fixture
def node(tmp_path):
    fresh = Node(tmp_path / "root", Cluster())
    fresh.open()
    fresh.apply(fresh.cluster.bundle())
    fresh.apply(fresh.cluster.snapshot(1, {"a": 1, "b": {"c": "d"}}))
    yield fresh
    fresh.close()


def ran(node, *arguments, **more):
    program = "from holdfast.node.store_command import command; command()"
    command = [sys.executable, "-c", program, *arguments[:1], "--root", str(node.path), *arguments[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False, **more)


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
    assert (found.returncode, found.stdout, found.stderr) == (0, "blue: no fault\n", "")
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
    assert found.returncode == 1
    codes = [json.loads(line)["code"] for line in found.stdout.splitlines()]
    assert sorted(codes) == ["bad_permissions", "blob_damaged", "floor_unreadable"]


def test_check_survives_a_file_that_kills(node):
    """threats fact 2: the child dies, not we"""
    data = node.store.paths.store / "data.mdb"
    node.close()
    with data.open("r+b") as file:
        file.truncate(12288)
    found = ran(node, "check")
    assert found.returncode == 1
    assert "store_corrupt" in found.stdout
    refused = ran(node, "list")
    assert refused.returncode == 2
    assert "store_corrupt" in refused.stderr


def test_list(either):
    found = ran(either, "list")
    assert found.returncode == 0
    assert f"{SCOPE}  active 1.1  mark 1.1  expires 20" in found.stdout
    told = json.loads(ran(either, "list", "--json").stdout)
    assert told["generation"] == 2
    assert [row["scope"] for row in told["scopes"]] == [SCOPE, "trust_bundle"]


def test_list_shows_what_is_pending(node):
    node.download(node.cluster.snapshot(2, {"a": 2}))
    assert "pending" in ran(node, "list").stdout


def test_show(either):
    found = ran(either, "show", SCOPE)
    assert found.returncode == 0
    assert "mark:           1.1" in found.stdout
    assert f"signers:        {either.cluster.config.key_id}" in found.stdout
    assert ran(either, "show", SCOPE, "--section", "b").stdout == '{"c":"d"}'
    assert "applied" in ran(either, "show", "--journal", "5").stdout
    assert ran(either, "show").returncode == 2
    told = json.loads(ran(either, "show", SCOPE, "--json").stdout)
    assert (told["scope"], told["mark"], told["signers"]) == (SCOPE, "1.1", either.cluster.config.key_id)
    assert told["sections"]["b"]["size"] == len('{"c":"d"}')
    told = json.loads(ran(either, "show", SCOPE, "--section", "b", "--journal", "5", "--json").stdout)
    assert (told["value"], told["journal"][0]["event"]) == ({"c": "d"}, "applied")


@pytest.mark.parametrize("arguments", [("qos_policy",), (SCOPE, "--section", "none")])
def test_what_is_not_there_is_named(node, arguments):
    found = ran(node, "show", *arguments)
    assert found.returncode == 2
    assert "not_found" in found.stderr
    assert "Traceback" not in found.stderr


def test_export_of_a_snapshot_is_the_container_as_received(either, tmp_path):
    """rules S7"""
    target = tmp_path / "out.hfs"
    assert ran(either, "export", SCOPE, str(target)).returncode == 0
    if either.store is None:
        either.open()
    verdict = verify(ChunkParts([target.read_bytes()]), either.holder(), kind="snapshot", now=NOW)
    assert isinstance(verdict, AlreadyApplied)
    assert ran(either, "export", SCOPE, str(target)).returncode == 2  # nothing is written over


def test_export_of_sections(node, tmp_path):
    held = node.store.active(SCOPE)
    base = type("Base", (), {"envelope": held.envelope, "state": held.sections})
    node.apply(node.cluster.setting(2, base, "a", 2))
    refused = ran(node, "export", SCOPE, str(tmp_path / "out.hfs"))
    assert refused.returncode == 2
    assert "increment" in refused.stderr
    told = ran(node, "export", SCOPE, str(tmp_path / "out"), "--json")
    about = {"scope": SCOPE, "snapshot_id": node.store.active(SCOPE).envelope.snapshot_id}
    assert (told.returncode, json.loads(told.stdout)) == (0, {**about, "target": str(tmp_path / "out")})
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert files == {"a.json": b"2", "b.json": b'{"c":"d"}'}


def test_no_store_and_no_cluster(tmp_path, node):
    for path in (tmp_path / "none", tmp_path):
        missing = Node(path, node.cluster)
        found = ran(missing, "list")
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
    assert ran(node, "list", "--cluster", "green").returncode == 2


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: becoming another user needs root")
def test_as_root_it_becomes_the_owner_and_leaves_no_file_of_its_own(node, tmp_path_factory):
    """platform.md 8"""
    node.close()
    top = tmp_path_factory.mktemp("owned", numbered=True)
    for parent in (top, *list(top.parents)[:2]):
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

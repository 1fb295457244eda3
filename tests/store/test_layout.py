import os
import stat
import subprocess
import sys

import pytest

from store.base.errors import StoreError, StoreFault
from store.base.layout import Root, permission_trouble
from store.base.migration import FORMAT
from tests.store.cluster import CLUSTER, Cluster, Node

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="NOT RUN: another owner can be made by root alone")


def modes(path):
    return {str(entry.relative_to(path)): stat.S_IMODE(entry.lstat().st_mode) for entry in path.rglob("*")}


def refused(call, fault):
    with pytest.raises(StoreError) as caught:
        call()
    assert caught.value.fault is fault
    assert caught.value.remedy in str(caught.value)
    return str(caught.value)


def test_directories_are_0700_and_files_0600_under_any_umask(tmp_path, cluster):
    """rules L10, L23, M1, M2"""
    before = os.umask(0o002)
    try:
        with Node(tmp_path / "root", cluster) as node:
            node.apply(cluster.bundle())
            found = modes(tmp_path / "root")
    finally:
        os.umask(before)
    assert {mode for name, mode in found.items() if (tmp_path / "root" / name).is_dir()} == {0o700}
    assert {name for name, mode in found.items() if mode & 0o077} == set()
    assert found["clusters/blue/store/data.mdb"] == 0o600


def test_the_layout(tmp_path, cluster):
    """rules L4, L5, L8"""
    with Node(tmp_path / "root", cluster):
        pass
    assert sorted(entry.name for entry in (tmp_path / "root").iterdir()) == ["agent", "clusters", "lock"]
    home = tmp_path / "root" / "clusters" / CLUSTER
    expected = ["floors", "identity", "quarantine", "store", "tmp"]
    assert sorted(entry.name for entry in home.iterdir()) == expected
    assert sorted(entry.name for entry in (home / "floors").iterdir()) == ["a.rec", "b.rec"]


def test_temporary_files_are_gone_at_start(tmp_path, cluster):
    """rules L8"""
    with Node(tmp_path / "root", cluster):
        pass
    left = tmp_path / "root" / "clusters" / CLUSTER / "tmp" / "left"
    left.mkdir(mode=0o700)
    (left / "file").touch(mode=0o600)
    with Node(tmp_path / "root", cluster):
        assert list(left.parent.iterdir()) == []


def test_install_id_is_random_and_stays(tmp_path):
    """rules L11"""
    with Root.open(tmp_path / "one") as one, Root.open(tmp_path / "two") as two:
        first = one.install_id
        assert first != two.install_id
    with Root.open(tmp_path / "one") as one:
        assert one.install_id == first
    assert (tmp_path / "one" / "agent" / "format").read_text() == f"{FORMAT}\n"


@pytest.mark.parametrize(
    "part", ["", "clusters", "clusters/blue", "clusters/blue/store", "clusters/blue/store/data.mdb"]
)
def test_open_to_others_is_refused_with_the_remedy(tmp_path, cluster, part):
    """rules L23; threats D-61"""
    with Node(tmp_path / "root", cluster):
        pass
    target = tmp_path / "root" / part
    before = stat.S_IMODE(target.stat().st_mode)
    target.chmod(before | 0o040)
    text = refused(Node(tmp_path / "root", cluster).open, StoreFault.BAD_PERMISSIONS)
    assert str(target) in text
    assert "chmod" in text
    target.chmod(before)
    with Node(tmp_path / "root", cluster) as node:
        assert node.store.findings == ()


def test_a_key_open_to_others_is_refused(tmp_path, cluster):
    """rules L23"""
    with Node(tmp_path / "root", cluster) as node:
        key = node.store.paths.identity / "node.key"
    key.touch(mode=0o644)
    key.chmod(0o644)
    refused(Node(tmp_path / "root", cluster).open, StoreFault.BAD_PERMISSIONS)


@AS_ROOT
@pytest.mark.root
def test_another_owner_is_refused(tmp_path, cluster):
    """rules L23"""
    with Node(tmp_path / "root", cluster):
        pass
    target = tmp_path / "root" / "clusters" / CLUSTER / "store" / "data.mdb"
    os.chown(target, 12345, 12345)
    text = refused(Node(tmp_path / "root", cluster).open, StoreFault.BAD_PERMISSIONS)
    assert "uid 12345" in text
    os.chown(target, 0, 0)
    with Node(tmp_path / "root", cluster) as node:
        assert node.store.findings == ()


def test_a_link_in_place_of_the_root_is_refused(tmp_path, cluster):
    """threats D-61"""
    with Node(tmp_path / "root", cluster):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "root")
    refused(lambda: Root.open(tmp_path / "link"), StoreFault.BAD_PERMISSIONS)


def test_a_link_in_place_of_the_store_is_refused(tmp_path, cluster):
    """threats D-61"""
    with Node(tmp_path / "root", cluster) as node:
        store = node.store.paths.store
    store.rename(tmp_path / "elsewhere")
    store.symlink_to(tmp_path / "elsewhere")
    refused(Node(tmp_path / "root", cluster).open, StoreFault.BAD_PERMISSIONS)


def test_a_socket_or_missing_path_is_named(tmp_path):
    """rules L23"""
    assert "does not exist" in permission_trouble(tmp_path / "none")
    os.mkfifo(tmp_path / "pipe")
    assert "neither" in permission_trouble(tmp_path / "pipe")


def test_a_root_whose_parent_is_missing_is_refused(tmp_path):
    refused(lambda: Root.open(tmp_path / "no" / "root"), StoreFault.BAD_PERMISSIONS)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "Blue", "blue\n", "a..b", "-a", "~root", "x" * 65, "blü"])
def test_no_other_cluster_id_becomes_a_path(tmp_path, name):
    """rules L24; threats D-37, A10"""
    with Root.open(tmp_path / "root") as root:
        refused(lambda: root.paths(name), StoreFault.BAD_IDENTIFIER)
        assert list((tmp_path / "root" / "clusters").iterdir()) == []


def test_a_second_open_in_this_process_fails_at_once(tmp_path, cluster):
    """rules L25, M3: our own guard, since Debian's LMDB does not object"""
    with Node(tmp_path / "root", cluster) as node:
        text = refused(Node(tmp_path / "root", cluster).open, StoreFault.STORE_LOCKED)
        assert f"process {os.getpid()}" in text
        from store.store import Store

        refused(lambda: Store.open(node.root, CLUSTER, now=0.0), StoreFault.STORE_LOCKED)
    with Node(tmp_path / "root", cluster):
        pass


def test_a_second_process_fails_at_once_and_says_who_holds_it(tmp_path, cluster):
    """rules L25, P8; threats D-45"""
    program = (
        "import sys; from pathlib import Path; from store.base.layout import Root\n"
        "root = Root.open(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "root")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        text = refused(lambda: Root.open(tmp_path / "root"), StoreFault.STORE_LOCKED)
        assert f"process {holder.pid}" in text
        assert "import sys" in text  # its command line, cut
        holder.stdin.close()
        holder.wait()
    with Node(tmp_path / "root", cluster):
        pass


def test_a_lock_dies_with_its_holder(tmp_path, cluster):
    """rules L25"""
    program = (
        "import os, signal, sys; from pathlib import Path; from store.base.layout import Root\n"
        "root = Root.open(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    died = subprocess.run([sys.executable, "-c", program, str(tmp_path / "root")], check=False)
    assert died.returncode < 0
    with Node(tmp_path / "root", cluster):
        pass


def test_two_clusters_have_two_stores(tmp_path):
    """rules L6, L7, L9"""
    from store.store import Store

    with Root.open(tmp_path / "root") as root:
        with Store.open(root, "blue", now=0.0) as blue, Store.open(root, "green", now=0.0) as green:
            kept = blue.set(b"of blue")
            refused(lambda: green.get(kept), StoreFault.NOT_FOUND)
            assert blue.incarnation != green.incarnation
            assert blue.paths.home != green.paths.home
        assert root.clusters == ("blue", "green")


def test_a_newer_layout_is_refused_and_left_alone(tmp_path, cluster):
    """rules L11, L37"""
    with Node(tmp_path / "root", cluster):
        pass
    (tmp_path / "root" / "agent" / "format").write_text(f"{FORMAT + 1}\n")
    refused(Node(tmp_path / "root", cluster).open, StoreFault.STORE_FORMAT_NEWER)


def test_the_mark_of_an_older_layout_is_raised(tmp_path):
    """rules L37: what refuses a downgrade, the package among it, reads the mark and no store"""
    with Root.open(tmp_path / "root"):
        pass
    mark = tmp_path / "root" / "agent" / "format"
    mark.write_text(f"{FORMAT - 1}\n")
    with Root.open(tmp_path / "root"):
        assert mark.read_text() == f"{FORMAT}\n"


def test_a_cluster_is_not_a_fixture_of_another(tmp_path):
    """rules L24: a store that belongs to another cluster is not taken for ours"""
    with Node(tmp_path / "root", Cluster()) as node:
        paths = node.store.paths
        kept = node.store.incarnation
    home = tmp_path / "root" / "clusters"
    paths.home.rename(home / "green")
    from store.store import Store

    with Root.open(tmp_path / "root") as root, Store.open(root, "green", now=0.0) as green:
        assert "store_rebuilt" in {finding.happened for finding in green.findings}
        assert green.incarnation != kept

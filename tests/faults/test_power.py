"""Power loss: what was not synced is really lost (rules S84, L1, L27; threats C01, I22)."""

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from store.base.errors import StoreError, StoreFault
from store.fsck.check import check
from tests.faults.power import loop, needs_root, run_and_cut
from tests.faults.worker import judge
from tests.store.cluster import CLUSTER

CUTS = int(os.environ.get("HOLDFAST_CUTS", "50"))
pytestmark = [pytest.mark.slow, pytest.mark.root, needs_root]


def numbers(text, word):
    return max([int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)] or [0])


def tried_and_done(said):
    return numbers(said, "try"), numbers(said, "done")


def test_nothing_acknowledged_is_lost(tmp_path, cluster, keys):
    """rules S84, L27: at least 50 cuts of one store"""
    forward = tried = done = 0
    with loop(tmp_path) as disk:
        for cut in range(CUTS):
            now_tried, now_done = tried_and_done(run_and_cut(disk, keys, "safe", 1 + cut % 7))
            tried, done = max(now_tried, done), max(now_done, done)
            disk.detach()
            disk.attach()
            version, rolled = judge(disk.mount / "root", cluster, tried, done)
            forward += rolled
            done = tried = max(version, tried) + 1
            assert list(check(disk.mount / "root", CLUSTER)) == []
    print(f"{CUTS} cuts, nothing lost, {forward} rolled forward")


def test_what_else_begins_on_this_machine_keeps_no_disk_from_its_end(tmp_path):
    """A program is given mounts of its own while the disk is there; what is mounted after the cut is another one."""
    begin = "read _; exec unshare --mount sh -c 'echo here; exec sleep 60'"
    with subprocess.Popen(["sh", "-c", begin], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            with loop(tmp_path) as disk:
                other.stdin.write(b"\n")
                other.stdin.flush()
                assert other.stdout.readline() == b"here\n"
                disk.cut()
                disk.detach()
                disk.attach()
                (disk.mount / "file").write_text("written")
        finally:
            other.kill()


def test_who_had_a_disk_apart_has_the_mounts_of_all_afterwards(tmp_path):
    """What a later test mounts is there for programs that were started before."""

    def place():
        return Path("/proc/thread-self/ns/mnt").readlink(), Path.cwd()

    before, is_over = place(), threading.Event()
    with loop(tmp_path):
        assert place()[0] != before[0]
        other = threading.Thread(target=is_over.wait)
        other.start()
    assert place() == before
    is_over.set()
    other.join()


def test_the_same_without_sync_loses(tmp_path, cluster, keys):
    """The test can fail: with every sync left out, what was acknowledged is gone."""
    with loop(tmp_path) as disk:
        tried, done = tried_and_done(run_and_cut(disk, keys, "unsafe", 20))
        disk.detach()
        disk.attach()
        assert done >= 20
        with pytest.raises((AssertionError, KeyError, StoreError)):
            judge(disk.mount / "root", cluster, tried, done)


def test_a_full_disk_and_then_room(tmp_path, cluster):
    """rules L35: active intact while it is full, in the same process when there is room again"""
    from tests.faults.worker import SCOPES, activate, sections, whole
    from tests.store.cluster import Node

    with loop(tmp_path, megabytes=16) as disk:
        node = Node(disk.mount / "root", cluster, map_bytes=256 << 20)
        with node:
            node.apply(cluster.bundle(1))
            activate(node, 1)
            filler = disk.mount / "filler"
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(1 << 16))
            with pytest.raises(StoreError) as caught:
                for version in range(2, 50):
                    content = sections(version) | {"big": [version, ["x" * 1000] * 300]}
                    node.apply(cluster.snapshot(version, content, scope=SCOPES[0]))
            assert caught.value.fault in (StoreFault.STORE_FULL, StoreFault.STORE_IO)
            held = node.store.active(SCOPES[1])
            assert {name: held.read(name) for name in held.sections} == whole(1)
            serving = node.store.active(SCOPES[0]).envelope.config_version
            node.reopen()  # also a start on a full disk
            assert node.store.active(SCOPES[0]).envelope.config_version >= serving
            filler.unlink()
            node.store.resume(1.0)
            activate(node, 60)
        assert list(check(disk.mount / "root", CLUSTER)) == []


def test_a_disk_that_goes_read_only(tmp_path, cluster):
    """rules L35: reads go on, writes are refused with a reason"""
    from tests.faults.worker import SCOPES, activate, whole
    from tests.store.cluster import Node

    with loop(tmp_path) as disk:
        node = Node(disk.mount / "root", cluster)
        node.open()
        node.apply(cluster.bundle(1))
        activate(node, 1)
        disk.cut()
        with pytest.raises(StoreError):
            activate(node, 2)
        held = node.store.active(SCOPES[0])
        assert held.read("a") == whole(1)["a"]
        node.close()
        disk.detach()
        disk.attach()
        judge(disk.mount / "root", cluster, 2, 1)

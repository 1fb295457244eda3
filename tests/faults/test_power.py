"""Power loss: what was not synced is really lost (rules S84, L1, L27; threats C01, I22).

ext4 on a loop device, shut down without a flush of its log (FS_IOC_SHUTDOWN); needs root.
"""

import fcntl
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from store.base.errors import StoreError, StoreFault
from store.fsck.check import check
from tests.faults.worker import judge
from tests.store.cluster import CLUSTER

CUTS = int(os.environ.get("HOLDFAST_CUTS", "50"))
DICE = random.Random(3)
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2

root_only = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None, reason="NOT RUN: a loop device needs root and mkfs.ext4"
)
pytestmark = [pytest.mark.slow, pytest.mark.root, root_only]


class LoopFileSystem:
    """A small ext4 of its own."""

    def __init__(self, directory, megabytes=96):
        self.image, self.mount = directory / "disk", directory / "mnt"
        self.mount.mkdir()
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        self._run("mkfs.ext4", "-q", "-F", str(self.image))
        self.attach()

    def attach(self):
        self._run("mount", "-o", "loop", str(self.image), str(self.mount))
        self.mount.chmod(0o700)

    def detach(self):
        self._run("umount", str(self.mount))

    def cut(self):
        """Everything that is not on the disk is gone, and no call works any more."""
        descriptor = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    @staticmethod
    def _run(*command):
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def loop(directory, **size):
    disk = LoopFileSystem(directory, **size)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk.mount)], check=False, capture_output=True)


def numbers(text, word):
    return max([int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)] or [0])


def run_and_cut(disk, keys, mode, activations):
    """A worker until it has acknowledged so many; then the power goes. Returns tried and acknowledged."""
    command = [sys.executable, "-m", "tests.faults.worker", str(disk.mount / "root"), str(keys), mode]
    said, enough = [], threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as worker:

        def listen():
            first = None
            for line in worker.stdout:
                said.append(line)
                if line.startswith("done"):
                    number = int(line.split()[1])
                    first = number if first is None else first
                    if number - first >= activations:
                        enough.set()
            enough.set()

        listener = threading.Thread(target=listen)
        listener.start()
        assert enough.wait(60)
        time.sleep(DICE.uniform(0, 0.02))  # somewhere in the next activations
        disk.cut()
        listener.join(60)
        worker.wait(60)
    text = "".join(said)
    return numbers(text, "try"), numbers(text, "done")


def test_nothing_acknowledged_is_lost(tmp_path, cluster, keys):
    """rules S84, L27: at least 50 cuts of one store"""
    forward = tried = done = 0
    with loop(tmp_path) as disk:
        for cut in range(CUTS):
            now_tried, now_done = run_and_cut(disk, keys, "safe", 1 + cut % 7)
            tried, done = max(now_tried, done), max(now_done, done)
            disk.detach()
            disk.attach()
            version, rolled = judge(disk.mount / "root", cluster, tried, done)
            forward += rolled
            done = tried = max(version, tried) + 1
            assert list(check(disk.mount / "root", CLUSTER)) == []
    print(f"{CUTS} cuts, nothing lost, {forward} rolled forward")


def test_the_same_without_sync_loses(tmp_path, cluster, keys):
    """The test can fail: with every sync left out, what was acknowledged is gone."""
    with loop(tmp_path) as disk:
        tried, done = run_and_cut(disk, keys, "unsafe", 20)
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

"""A disk that loses its power: ext4 on a loop device, shut down without a flush of its log (FS_IOC_SHUTDOWN).

It is mounted where no other program sees it. Any program that is given mounts of its own, as each machine that boots
beside this and each unit of systemd is, takes along a copy of all there are: the file system would live on in that copy
after it was unmounted here, and the next mount would be the same one, shut down, where every write is EIO.
"""

import ctypes
import fcntl
import os
import random
import shutil
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

DICE = random.Random(3)
SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
CLONE_FS, CLONE_NEWNS = 0x200, 0x20000
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mkfs.ext4") is None, reason="NOT RUN: a loop device needs root and mkfs.ext4"
)


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
def mounted_apart():
    """Meanwhile this thread, and what it starts, has mounts of its own. Afterwards it has those that all others have
    again: what is mounted by a later test is there for programs that were started before, as a network namespace is.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.getcwd()  # noqa: PTH109
    with open("/proc/thread-self/ns/mnt", "rb") as everybodys:  # noqa: PTH123
        if libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True, capture_output=True)
            yield
        finally:
            # Threads that have begun meanwhile have a share in where this one is, and stay there.
            if libc.unshare(CLONE_FS) or libc.setns(everybodys.fileno(), CLONE_NEWNS):
                raise OSError(ctypes.get_errno(), "setns")
            os.chdir(folder)


@contextmanager
def loop(directory, **size):
    with mounted_apart():
        disk = LoopFileSystem(directory, **size)
        try:
            yield disk
        finally:
            subprocess.run(["umount", str(disk.mount)], check=False, capture_output=True)


def run_and_cut(disk, keys, mode, activations, worker="tests.faults.worker"):
    """A worker until it has acknowledged so many; then the power goes. Returns what it has said."""
    command = [sys.executable, "-m", worker, str(disk.mount / "root"), str(keys), mode]
    said, enough = [], threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:

        def listen():
            first = None
            for line in process.stdout:
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
        process.wait(60)
    return "".join(said)

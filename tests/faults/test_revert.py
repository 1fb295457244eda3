"""The node's way back under SIGKILL at random and at each system call, errors at each, power cuts (rules L28, L32)."""

import os
import random
import shutil
import signal

import pytest

from store.base.errors import StoreError
from store.fsck.check import check
from tests.faults.power import loop, needs_root, run_and_cut
from tests.faults.reverter import Said, found, judge, work
from tests.faults.test_kill import CALLS, killed, traced
from tests.store.cluster import CLUSTER

RUNS = int(os.environ.get("HOLDFAST_KILLS", "1000")) // 5
CUTS = int(os.environ.get("HOLDFAST_CUTS", "50")) // 2
DICE = random.Random(5)
needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="NOT RUN: strace is not installed")

ONE = """
import sys
from pathlib import Path
from store.base.errors import StoreError
from tests.faults.reverter import MAP_BYTES, go_back
from tests.faults.worker import load_keys
from tests.store.cluster import BOOT, NOW, Node
root, keys = map(Path, sys.argv[1:])
try:
    with Node(root, load_keys(keys), map_bytes=MAP_BYTES) as node:
        node.store.note_start(BOOT, NOW)
        print("back 2", flush=True)
        go_back(node)
        print("was 2", flush=True)
        node.store.garbage.run()
except StoreError as error:
    print(error.fault)
"""


def said_before():
    """By whoever has made the store: 1 is good, 2 on probation."""
    return Said(2, 2, passed=1)


@pytest.mark.slow
def test_killed_at_random_times(tmp_path, cluster):
    """rules S84, P7: both scopes are on probation, back or good, never one of them alone"""
    root, said, seen = tmp_path / "root", said_before(), dict[str, int]()
    found(root, cluster)
    for _ in range(RUNS):
        said.hear(killed(root, cluster, DICE.uniform(0, 0.06), work))
        said, outcome = judge(root, cluster, said)
        seen[outcome] = seen.get(outcome, 0) + 1
    assert seen.keys() == {"on probation", "back", "good"}
    print(f"{RUNS} deaths: {seen}")


@pytest.mark.slow
@needs_strace
def test_killed_at_every_system_call(tmp_path, cluster, keys):
    """rules L28, J47: 1 is good, 2 on probation; a worker that starts and goes back dies at its n-th write or sync"""
    found(tmp_path / "origin", cluster)
    seen, deaths = set(), {}
    for call in CALLS.split(","):
        for at in range(1, 200):
            root = tmp_path / f"{call}-{at}"
            shutil.copytree(tmp_path / "origin", root)
            ended = traced(root, keys, ONE, "-e", f"inject={call}:signal=KILL:when={at}")
            assert ended.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), ended.stderr
            _, outcome = judge(root, cluster, said_before().hear(ended.stdout))
            seen.add((outcome, ended.returncode == 0))
            shutil.rmtree(root)
            if ended.returncode == 0:
                break
            deaths[call] = at
        else:
            raise AssertionError("it never came to its end")
    assert seen >= {("on probation", False), ("back", False), ("back", True)}
    print(f"deaths: {deaths}")


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "pwrite64", "pwritev"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_every_system_call_fails_once(tmp_path, cluster, keys, call, error):
    """rules L35: the kernel says no; the next start goes back"""
    found(tmp_path / "origin", cluster)
    for at in range(1, 100):
        root = tmp_path / f"at-{at}"
        shutil.copytree(tmp_path / "origin", root)
        ended = traced(root, keys, ONE, "-e", f"inject={call}:error={error}:when={at}")
        assert ended.returncode == 0, ended.stderr
        assert list(check(root, CLUSTER)) == []
        refused = set(ended.stdout.split("\n")) & {"store_io", "store_full"}
        _, outcome = judge(root, cluster, said_before().hear(ended.stdout))
        assert outcome in ("on probation", "back")
        shutil.rmtree(root)
        if not refused and "was 2" in ended.stdout:
            return
    raise AssertionError("it never came to its end")


@pytest.mark.slow
@pytest.mark.root
@needs_root
def test_power_cuts(tmp_path, cluster, keys):
    """rules S84, L1: a revert that was acknowledged is there after a power cut, and what failed serves no more"""
    said, seen = said_before(), set()
    with loop(tmp_path) as disk:
        root = disk.mount / "root"
        found(root, cluster)
        for cut in range(CUTS):
            said.hear(run_and_cut(disk, keys, "safe", 1 + cut % 5, "tests.faults.reverter"))
            disk.detach()
            disk.attach()
            said, outcome = judge(root, cluster, said)
            seen.add(outcome)
    print(f"{CUTS} cuts, nothing lost: {seen}")


@pytest.mark.slow
@pytest.mark.root
@needs_root
def test_the_same_without_sync_loses(tmp_path, cluster, keys):
    """The test can fail: with every sync left out, what was acknowledged is gone."""
    with loop(tmp_path) as disk:
        root = disk.mount / "root"
        found(root, cluster)
        said = said_before().hear(run_and_cut(disk, keys, "unsafe", 20, "tests.faults.reverter"))
        disk.detach()
        disk.attach()
        assert said.was >= 20
        with pytest.raises((AssertionError, KeyError, StoreError)):
            judge(root, cluster, said)

"""SIGKILL at random times and at every system call: rules S84, L1, L28, L32, P7, J47; threats C01."""

import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest

from store.fsck.check import check
from tests.faults.worker import judge, work
from tests.store.cluster import CLUSTER

RUNS = int(os.environ.get("HOLDFAST_KILLS", "1000"))
CALLS = "write,pwrite64,pwritev,writev,fdatasync,fsync,rename,renameat,renameat2,ftruncate,mkdir,unlink"


def last(text, word):
    return max([int(number) for number in re.findall(rf"^{word} (\d+)$", text, re.MULTILINE)] or [0])


def killed(root, cluster, after_s, work=work):
    """A forked worker, killed so long after it began; what it said until then."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        try:
            work(root, cluster, lambda text: os.write(write_end, f"{text}\n".encode()))
        finally:
            os._exit(3)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        select.select([pipe], [], [], 60)
        time.sleep(after_s)  # the moment of death is what this test is about
        os.kill(pid, signal.SIGKILL)
        said = pipe.read().decode()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, said
    return said


@pytest.mark.slow
def test_killed_at_random_times(tmp_path, cluster):
    """rules S84, L1, P7: 1,000 deaths of one store"""
    dice, forward = random.Random(1), 0
    done = 0
    for run in range(RUNS):
        said = killed(tmp_path / "root", cluster, dice.uniform(0, 0.06))
        tried, done = max(last(said, "try"), done), max(last(said, "done"), done)
        version, rolled = judge(tmp_path / "root", cluster, max(tried, done), done)
        forward += rolled
        done = max(version, tried, done) + 1  # the judge's own activation
        if run % 50 == 0:
            assert list(check(tmp_path / "root", CLUSTER)) == []
    assert list(check(tmp_path / "root", CLUSTER)) == []
    print(f"{RUNS} deaths, {forward} rolled forward, version {done}")


def traced(root, keys, program, *options):
    command = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={CALLS}", *options]
    worker = [sys.executable, "-c", program, str(root), str(keys)]
    return subprocess.run([*command, *worker], capture_output=True, text=True, check=False)


ONE = """
import sys
from pathlib import Path
from tests.faults.worker import load_keys, work
from tests.store.cluster import Node
root, keys = map(Path, sys.argv[1:])
work(root, load_keys(keys), lambda text: None, stop_at=3)
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT RUN: strace is not installed")
def test_killed_at_every_system_call(tmp_path, cluster, keys):
    """rules L28, J47: version 2 is there; a worker that opens and activates 3 dies at its n-th write or sync"""
    origin = tmp_path / "origin"
    work(origin, cluster, lambda text: None, stop_at=2)
    seen, deaths = set(), {}
    for call in CALLS.split(","):  # strace counts each call by itself
        for at in range(1, 200):
            root = tmp_path / f"{call}-{at}"
            shutil.copytree(origin, root)
            ended = traced(root, keys, ONE, "-e", f"inject={call}:signal=KILL:when={at}")
            assert ended.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), ended.stderr
            seen.add(judge(root, cluster, 3, 3 if ended.returncode == 0 else 2))
            assert list(check(root, CLUSTER)) == []
            shutil.rmtree(root)
            if ended.returncode == 0:
                break
            deaths[call] = at
        else:
            raise AssertionError("it never came to its end")
    assert seen >= {(2, False), (3, False), (3, True)}
    print(f"deaths: {deaths}, then {sorted(seen)}")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT RUN: strace is not installed")
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "pwrite64", "pwritev"])
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_every_system_call_fails_once(tmp_path, cluster, keys, call, error):
    """rules L35: the kernel says no, active stays"""
    origin = tmp_path / "origin"
    work(origin, cluster, lambda text: None, stop_at=2)
    program = ONE.replace("work(", "from store.base.errors import StoreError\ntry:\n    work(").replace(
        "stop_at=3)", "stop_at=3)\nexcept StoreError as error:\n    print(error.fault)"
    )
    for at in range(1, 100):
        root = tmp_path / f"at-{at}"
        shutil.copytree(origin, root)
        ended = traced(root, keys, program, "-e", f"inject={call}:error={error}:when={at}")
        assert ended.returncode == 0, ended.stderr
        refused = ended.stdout.strip()
        assert refused in ("", "store_io" if error == "EIO" else "store_full", "store_io"), refused
        judge(root, cluster, 3, 2)
        assert list(check(root, CLUSTER)) == []
        shutil.rmtree(root)
        if not refused:
            return
    raise AssertionError("it never came to its end")

"""What starts the product's programs for tests leaves none behind, however it ends (tests/world/fork_server.py)."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.citations import ROOT
from tests.world import programs
from tests.world.fork_server import LISTENING

SERVER = """
import sys, time
from types import SimpleNamespace
from tests.world import fork_server

def load():
    {load}

loaded = SimpleNamespace(
    load_for_coordinators=load, warm_commands=lambda: None, is_of_commands=lambda program, _: program == "command"
)
with fork_server.listening(sys.argv[1]) as listener:
    found = fork_server.job_of_two(listener, loaded)
while found:
    time.sleep(600)
"""


@contextmanager
def server(folder, load="pass"):
    path, said = str(folder / "socket"), folder / "said"
    command = [sys.executable, "-c", SERVER.format(load=load), path]
    with said.open("wb") as error:
        begun = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error)
    with begun:
        assert begun.stdout.readline() == LISTENING
        yield begun, path, said
        begun.stdin.close()
        begun.wait(60)


def begin(path, program):
    with Path(os.devnull).open("r+b") as nothing:
        return programs.forked(path, {"program": program, "arguments": []}, [program], [nothing.fileno()] * 3)


def test_when_the_tests_are_over_all_is(tmp_path):
    with server(tmp_path) as (begun, path, said):
        command, coordinator = begin(path, "command"), begin(path, "coordinator")
        begun.stdin.close()
        assert (command.wait(60), coordinator.wait(60), begun.wait(60)) == (-9, -9, 0)
        assert said.read_text() == ""


def test_a_fault_in_what_coordinators_load_leaves_nothing_of_what_runs(tmp_path):
    with server(tmp_path, load="raise RuntimeError('a fault of the product')") as (begun, path, said):
        command = begin(path, "command")
        for _ in range(2):  # of which one may be on its way as it fails
            with pytest.raises((RuntimeError, ConnectionError)):
                begin(path, "coordinator")
        assert (command.wait(60), begun.wait(60)) == (-9, 1)
        assert "a fault of the product" in said.read_text()


def test_what_was_handed_on_does_not_outlive_who_did(tmp_path):
    with server(tmp_path) as (begun, path, _):
        coordinator = begin(path, "coordinator")
        begun.kill()
        assert (coordinator.wait(60), begun.wait(60)) == (-9, -9)

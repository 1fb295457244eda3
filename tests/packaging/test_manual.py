"""The manual pages say what the commands say."""

import shutil
import subprocess

import pytest

from holdfast.ctl import operator
from holdfast.node import command
from tests.packaging.manual import MANUAL, escaped, pages

PROGRAMS = ["holdfast.1", "holdfastctl.1", "holdfast-agent.8", "holdfast-coordinator.8"]
NAMES = [*PROGRAMS, "agent.toml.5", "coordinator.toml.5"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_what_the_code_says(name):
    path = MANUAL / name
    assert path.read_text() == pages()[path], "run `python -m tests.packaging.manual --write`"


def test_each_program_has_one():
    assert sorted(path.name for path in pages()) == sorted(NAMES)


@pytest.mark.parametrize(("program", "commands"), [("holdfast", command.COMMANDS), ("holdfastctl", operator.COMMANDS)])
def test_each_command_stands_there(program, commands):
    page = (MANUAL / f"{program}.1").read_text()
    assert [name for name in commands if f'.SS "{program} {escaped(name)}' not in page] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_reads_as_roff_that_is_none(name):
    """man itself has nothing to warn of; where there is no man, no line begins as a request that is unknown."""
    path = MANUAL / name
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR", ".BI", ".I", ".RB", ".RI", ".IR", ".nf", ".fi", ".br"}
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith((".", "'")) and line.split()[0] not in known] == []
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", str(path)], capture_output=True, check=True)
        assert done.stderr == b""

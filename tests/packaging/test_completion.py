"""bash completes what the programs take."""

import os
import subprocess
import sys

import pytest

from tests.citations import ROOT
from tests.holdfast.lab import MAIN

COMPLETION = ROOT / "packaging/completion"
ASK = """
compopt() { echo "$*"; }
source "$1"
complete -p "$2"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
"$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def programs(tmp_path):
    """A folder with the commands, for PATH."""
    for name, module in (("holdfast", "holdfast.node.command"), ("holdfastctl", "holdfast.ctl.operator")):
        code = MAIN.replace("holdfast.node.command", module).replace("'holdfast'", f"'{name}'")
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" {ROOT} "$@"\n')
        path.chmod(0o755)
    return tmp_path


def completed(programs, *words):
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK, "bash", str(COMPLETION / words[0]), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, *said = done.stdout.split("\n")
    assert first.endswith(words[0])
    return [line for line in said if line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("holdfast", "st"), ["status", "store"]),
        (("holdfast", "status", "--w"), ["--watch", "--wait"]),
        (("holdfast", "store", "ch"), ["check"]),
        (("holdfast", "store", "re"), ["reset-identity"]),
        (("holdfast", "verify", ""), ["-o default"]),
        (("holdfastctl", "tok"), ["tokens"]),
        (("holdfastctl", "tokens", "create", "--li"), ["--lifetime"]),
        (("holdfast-agent", "--co"), ["--config"]),
        (("holdfast-agent", "--config", "/etc/ho"), ["-o default"]),
        (("holdfast-coordinator", "--h"), ["--help"]),
    ],
    ids=" ".join,
)
def test_a_word_is_completed(programs, words, expected):
    assert completed(programs, *words) == expected

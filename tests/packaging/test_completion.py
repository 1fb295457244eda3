"""bash completes what the programs take."""

import os
import subprocess

import pytest

from tests.citations import ROOT
from tests.world import programs

COMPLETION = ROOT / "packaging/completion"
ASK = """
compopt() { echo "$*"; }
source "$1"
complete -p "$2"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
"$(complete -p "$2" | sed 's/.*-F \\([^ ]*\\).*/\\1/')"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words):
    environment = {**os.environ, "PATH": f"{programs.folder()}:{os.environ['PATH']}"}
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
def test_a_word_is_completed(words, expected):
    assert completed(*words) == expected

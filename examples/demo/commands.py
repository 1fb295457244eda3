"""The commands that a user has, run as a user runs them: `holdfastctl` and `holdfast` beside this interpreter."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LIMIT_S = 120


class CommandFailed(Exception):
    """`said`: what the command said on the way out."""

    def __init__(self, command: list[str], said: str) -> None:
        super().__init__(f"{' '.join([Path(command[0]).name, *command[1:]])}: {said}")
        self.said = said


def program(name: str) -> str:
    """A program of ours, as it was installed."""
    return str(Path(sys.executable).with_name(name))


def run(name: str, *arguments: object, environment: Mapping[str, str] | None = None) -> str:
    """What the command prints; CommandFailed for any exit status but 0."""
    command = [program(name), *map(str, arguments)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **(environment or {})},
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandFailed(command, f"no end in {LIMIT_S} s") from None
    if done.returncode:
        raise CommandFailed(command, f"exit {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def run_json(name: str, *arguments: object, environment: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - JSON
    return json.loads(run(name, *arguments, "--json", environment=environment))

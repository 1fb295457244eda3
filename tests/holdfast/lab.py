"""The commands as processes, against the local API of a real store."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import trio

from tests.agent.lab import Periphery
from tests.citations import ROOT

MAIN = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from holdfast.node.command import main; main(prog_name='holdfast')"
)
NOBODY = Path("/nonexistent/agent.sock")


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


def arguments(*words: object) -> list[str]:
    return [sys.executable, "-c", MAIN, str(ROOT), *map(str, words)]


def environment(socket: Path = NOBODY, files: Path = NOBODY, **more: str) -> dict[str, str]:
    return {**os.environ, "HOLDFAST_SOCKET": str(socket), "HOLDFAST_FILES": str(files), "COLUMNS": "140", **more}


async def holdfast(*words: object, at: Periphery | None = None, **more: object) -> Done:
    """`holdfast words...`, which asks the agent of `at`; without one nobody answers."""
    env = environment(at.socket, at.files) if at else environment()
    done = await trio.run_process(
        arguments(*words), env=env, check=False, capture_stdout=True, capture_stderr=True, **more
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

"""The commands as processes, against the local API of a real store."""

import os
from functools import partial
from pathlib import Path

import trio

from tests.agent.lab import Periphery
from tests.world import programs
from tests.world.programs import Ran

NOBODY = Path("/nonexistent/agent.sock")


def arguments(*words: object) -> list[str]:
    """For whoever runs it with more than `holdfast` has: by its forked stand-in."""
    return [str(programs.folder() / "holdfast"), *map(str, words)]


def environment(socket: Path = NOBODY, files: Path = NOBODY, **more: str) -> dict[str, str]:
    return {**os.environ, "HOLDFAST_SOCKET": str(socket), "HOLDFAST_FILES": str(files), "COLUMNS": "140", **more}


async def holdfast(*words: object, at: Periphery | None = None, stdin: bytes = b"") -> Ran:
    """`holdfast words...`, which asks the agent of `at`; without one nobody answers."""
    env = environment(at.socket, at.files) if at else environment()
    ask = partial(programs.run, "holdfast", *words, folder=Path.cwd(), environment=env, stdin=stdin.decode())
    return await trio.to_thread.run_sync(ask)

"""Work that dies at each of its steps in turn, for scripts of tests: what it asks of the file system is watched by an
audit hook, which no process gets rid of again.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

CHANGES = {
    *("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.chmod", "os.chown"),
    *("open", "fcntl.fcntl"),
}
DIED, MOST_STEPS = 9, 1000
_left: int | None = None  # steps until it dies; None: it does not


def die_at_each_step(folder: Path, prepare: Callable[[Path], T], work: Callable[[T], None]) -> None:
    """Each time in a folder of its own, by number, until the work is done; prints each number, and how it ended."""
    sys.addaudithook(_watch)
    for step in range(MOST_STEPS):
        place = folder / str(step)
        place.mkdir()
        child = os.fork()
        if not child:
            _run(step, prepare(place), work)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(step, code, flush=True)
        if code != DIED:
            sys.exit(code)
    sys.exit(f"not done after {MOST_STEPS} steps")


def _run(step: int, prepared: T, work: Callable[[T], None]) -> None:
    global _left  # noqa: PLW0603 - a hook knows nothing else
    _left = step
    work(prepared)
    os._exit(0)


def _watch(event: str, _: object) -> None:
    global _left  # noqa: PLW0603
    if _left is not None and event in CHANGES:
        if _left == 0:
            os._exit(DIED)
        _left -= 1

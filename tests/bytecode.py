"""Test modules are compiled by one worker of a run, and the others find what it has written.

pytest compiles each by itself, with what it adds to assertions, and keeps that as Python keeps bytecode. In a new clone
all workers begin with the same first module: each would compile everything, which is three quarters of what a worker
does before its first test. One after the other would be no better where nothing is to be compiled: then all go at once.
"""

import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.citations import ROOT

KEPT_AS = f"{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"


@contextmanager
def compiled_once(run: str) -> Iterator[None]:
    """For the block, whoever of the workers of this run comes first is alone, if there is something to compile."""
    if sys.dont_write_bytecode or not lacks_bytecode(ROOT / "tests"):
        yield
        return
    with (Path(tempfile.gettempdir()) / f"holdfast-bytecode-{os.geteuid()}-{run}").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield
    Path(lock.name).unlink(missing_ok=True)


def lacks_bytecode(folder: Path) -> bool:
    """Whether most of its tests were never compiled, or are newer than that."""
    files = list(folder.rglob("test_*.py"))
    return sum(map(_is_compiled, files)) < len(files) / 2


def _is_compiled(file: Path) -> bool:
    kept = file.parent / "__pycache__" / f"{file.stem}.{KEPT_AS}"
    try:
        return kept.stat().st_mtime >= file.stat().st_mtime
    except FileNotFoundError:
        return False

"""A directory for what is unpacked: ours alone, where temporary files go, and gone afterwards, or with the next one.

A process that is killed removes nothing. So each directory is held by a lock as long as its process lives, and whoever
makes another one of its kind first removes those of this account that nobody holds.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def directory(prefix: str) -> Iterator[Path]:
    """OSError where there is no room, or no leave to write."""
    _clear_up(prefix)
    made, descriptor = _make(prefix)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(descriptor)


def _make(prefix: str) -> tuple[Path, int]:
    """Held by us. One that was taken for left before it was is made again."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):
            descriptor = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if made.is_dir():
                return made, descriptor
            os.close(descriptor)


def _clear_up(prefix: str) -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # it has gone, is no directory, or somebody is at work in it
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                found = os.fstat(descriptor)
                if found.st_uid == os.geteuid() and stat.S_ISDIR(found.st_mode):
                    shutil.rmtree(path)
            finally:
                os.close(descriptor)

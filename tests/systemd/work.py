"""The folder that a run's machines lie in: one run's at a time, and empty when it begins.

Files, not names made anew for each run: whoever looks for a machine by hand finds it where it always is, and what a
killed run left (its mounts, and below them the folders that they lay on) is found by the next one, which clears it.
"""

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.systemd.machines import unmount_below


@contextlib.contextmanager
def work_folder(folder: Path) -> Iterator[Path]:
    """Held until the end, when it is gone. Two runs at once are refused."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"systemd-test: another run holds {folder}")
    try:
        clear_folder(folder)
        yield folder
    finally:
        unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)  # what cannot go is the next run's to tell
        os.close(descriptor)


def clear_folder(folder: Path) -> None:
    """Nothing is mounted below it and nothing lies in it; it stays, since the lock is held on it."""
    unmount_below(folder)
    for left in folder.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()

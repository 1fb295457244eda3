"""The child that reads a store before it is opened (store/fsck/child.py), forked instead of started:
python -m tests.world.readers SOCKET.

Nearly every test of a node has one, for its start or for what it has left, and most of what that took was an
interpreter's start and its imports. Here they are there already; all else is the product's: a process of its own, its
path, its deadline, and how it dies. That it starts plainly, and loads little, is claimed by tests/store/test_child.py
and test_probe.py, and met wherever an agent is started plainly.
"""

import gc
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from store.fsck import child
from tests.world import fork_server, programs

READ_WITH = ("store.fsck.walk", "store.fsck.check")


def forked_from(server: str) -> SimpleNamespace:
    """In place of `subprocess` in store/fsck/child.py: what that asks of it."""

    def run(command: Sequence[str], *, timeout: float, **_: object) -> subprocess.CompletedProcess[bytes]:
        with (
            Path(os.devnull).open("rb") as nothing,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            job = {"words": list(command)}
            process = programs.forked(server, job, command, (nothing.fileno(), out.fileno(), err.fileno()))
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise subprocess.TimeoutExpired(command, timeout, output=_written(out)) from None
            return subprocess.CompletedProcess(command, status, _written(out), _written(err))

    return SimpleNamespace(
        run=run,
        DEVNULL=subprocess.DEVNULL,
        TimeoutExpired=subprocess.TimeoutExpired,
        CompletedProcess=subprocess.CompletedProcess,
    )


def use(server: str = "") -> None:
    """In this process from now on, and in what it forks. `server`: another than this test run's, or this worker's."""
    child.subprocess = forked_from(server or programs.server_of("tests.world.readers"))


def _written(file) -> bytes:
    file.seek(0)
    return file.read()


def main() -> None:
    with fork_server.listening(sys.argv[1]) as listener:
        for name in READ_WITH:
            importlib.import_module(name)
        gc.freeze()
        found = fork_server.next_job(listener)
    if found is not None:
        fork_server.end(fork_server.status_of(lambda: _read(*found)))


def _read(job: dict, descriptors: Sequence[int]) -> None:
    """PROGRAM with its arguments, as `python -I -S -c PROGRAM ...` would have it."""
    os.environ.clear()
    fork_server.take_over(descriptors)
    _, _, _, _, program, *arguments = job["words"]
    sys.argv = ["-c", *arguments]
    exec(program, {"__name__": "__main__"})  # noqa: S102 - the product's


if __name__ == "__main__":
    main()

"""The child that reads a store before it is opened (store/fsck/child.py), and the one in which JSON Schemas judge
(coordinator/runtime/schema_child.py), forked instead of started: python -m tests.world.readers SOCKET [MODULE...].

Nearly every test of a node has one of the first, for its start or for what it has left, and most of what that took was
an interpreter's start and its imports. Here they are there already; all else is the product's: a process of its own,
its path, its deadline, and how it dies. That they start plainly, and load little, is claimed by tests/store
(test_child.py, test_probe.py) and tests/coordinator/test_config_files.py, and met by the programs in journeys.
"""

import gc
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from types import SimpleNamespace

from store.fsck import child
from tests.world import fork_server, programs

READ_WITH = ("store.fsck.walk", "store.fsck.check")
SCHEMAS_WITH = "coordinator.configs.json_schema"


def forked_from(server: Callable[[], str]) -> SimpleNamespace:
    """In place of `subprocess` where one is called: what is asked of it there."""

    def run(
        command: Sequence[str],
        *,
        timeout: float,
        input: bytes = b"",  # noqa: A002 - its word
        **_: object,
    ) -> subprocess.CompletedProcess[bytes]:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write(input)
            given.seek(0)
            job = {"words": list(command)}
            process = programs.forked(server(), job, command, (given.fileno(), out.fileno(), err.fileno()))
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
    path = server or programs.server_of("tests.world.readers")
    child.subprocess = forked_from(lambda: path)


def use_for_schemas() -> None:
    """The same for those; what they are forked from begins with the first that is asked for."""
    schema_child = importlib.import_module("coordinator.runtime.schema_child")
    schema_child.subprocess = forked_from(lambda: programs.server_of("tests.world.readers", SCHEMAS_WITH))


def _written(file) -> bytes:
    file.seek(0)
    return file.read()


def main() -> None:
    with fork_server.listening(sys.argv[1]) as listener:
        for name in sys.argv[2:] or READ_WITH:
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

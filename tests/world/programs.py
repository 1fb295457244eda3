"""The product's programs as processes: `run` for a command, `start` for a daemon (fork_server.py has how).

ran = programs.run("holdfastctl", "status", folder=folder)
daemon = programs.start("holdfast-coordinator", "--config", path, folder=folder, log=folder / "log")
programs.folder()    stands in a PATH before the real ones, for whoever starts them by name
programs.interpreter()      has them beside it, for whoever takes them from there
"""

import atexit
import json
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.citations import ROOT
from tests.world import stand_in
from tests.world.fork_server import LISTENING, MODULES, PROGRAMS

RUN_S = 120.0  # on a machine that has other work


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)


class Process:
    """One that runs, with subprocess.Popen's words."""

    def __init__(self, asked: socket.socket, words: Sequence[str]) -> None:
        self._asked, self._words = asked, words
        if not (pid := asked.recv(32)):
            raise RuntimeError(f"{words} was not started: who was asked has said why on standard error")
        self.pid = int(pid)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._asked.settimeout(timeout)
            try:
                self.returncode = int(self._asked.recv(32))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self._words, timeout or 0) from None
            self._asked.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    program: str, *arguments: object, folder: Path, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> Ran:
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        descriptors = (given.fileno(), out.fileno(), err.fileno())
        process = _forked(program, arguments, folder, environment, descriptors)
        try:
            status = process.wait(RUN_S)
        finally:
            process.kill()
        return Ran(status, _text(out), _text(err))


def start(
    program: str,
    *arguments: object,
    folder: Path,
    log: Path,
    environment: Mapping[str, str] | None = None,
    network: str = "",
) -> Process:
    """What it says is added to `log`. `network`: the network namespace that it runs in, by its name."""
    with log.open("ab") as said, Path(os.devnull).open("rb") as nothing:
        descriptors = (nothing.fileno(), said.fileno(), said.fileno())
        return _forked(program, arguments, folder, environment, descriptors, network)


def start_by(
    python: str, program: str, *arguments: object, folder: Path, log: Path, plainly: bool = False
) -> "Process | subprocess.Popen":
    """By another interpreter than the tests' own, where that is wanted. `plainly`: by one that starts here, and has
    nothing in memory but what the program needs.
    """
    if python == sys.executable and not plainly:
        return start(program, *arguments, folder=folder, log=log)
    command = [python, "-c", f"from {MODULES[program]} import main; main()", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with log.open("ab") as said:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=said, stderr=said)


def _forked(
    program: str,
    arguments: Sequence[object],
    folder: Path,
    environment: Mapping[str, str] | None,
    descriptors: Sequence[int],
    network: str = "",
) -> Process:
    words = [str(word) for word in arguments]
    job = {
        "program": program,
        "arguments": words,
        "folder": str(folder),
        "environment": {**(os.environ if environment is None else environment), "PYTHONPATH": str(ROOT)},
        "umask": present_umask(),
        "script": "",
        "network": network,
    }
    return forked(_server(), job, [program, *words], descriptors)


def forked(server: str, job: Mapping[str, object], words: Sequence[str], descriptors: Sequence[int]) -> Process:
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        asked.connect(server)
        socket.send_fds(asked, [marshal.dumps(job)], descriptors)
        return Process(asked, words)
    except (OSError, RuntimeError):
        asked.close()
        raise


def present_umask() -> int:
    os.umask(found := os.umask(0o077))
    return found


@cache
def folder() -> Path:
    """For a PATH: the same by their names, for shells and others that start them by themselves (stand_in.py)."""
    made = Path(_server()).with_name(f"bin-{os.getpid()}")
    made.mkdir()
    for name in PROGRAMS:
        _stand_in(made, name)
    return made


@cache
def interpreter() -> Path:
    """Python of an environment in which all programs are the same."""
    made = Path(_server()).with_name(f"environment-{os.getpid()}")
    (made / "bin").mkdir(parents=True)
    installed = Path(sys.prefix)
    (made / "lib").symlink_to(installed / "lib")
    shutil.copy(installed / "pyvenv.cfg", made)
    (made / "bin" / "python").symlink_to(sys.executable)
    for name in PROGRAMS:
        _stand_in(made / "bin", name)
    return made / "bin" / "python"


def _stand_in(folder: Path, name: str) -> None:
    script = folder / name
    text = Path(stand_in.__file__).read_text()
    script.write_text(f"#!{sys.executable} -ISE\n{text}\n\nmain({_server()!r}, {name!r})\n")
    script.chmod(0o755)


def begin(*, at_once: bool = False) -> None:
    """For all that are forked from here on, too. `at_once`: it gets ready, and does not wait until it is asked."""
    server = _server()
    if at_once:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asked:
            asked.connect(server)  # and asks for nothing


def _server() -> str:
    return server_of("tests.world.fork_server", server_of("tests.world.readers"))


@cache
def server_of(module: str, *arguments: str) -> str:
    """One for this test run: the path of its socket."""
    whose = os.getpid()
    folder = tempfile.mkdtemp(prefix="hf-fork-")
    path = f"{folder}/socket"
    command = [sys.executable, "-W", "error", "-m", module, path, *arguments]
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None and server.stdin is not None
    assert server.stdout.readline() == LISTENING

    def end() -> None:
        if os.getpid() != whose:
            return
        server.stdin.close()
        server.wait(RUN_S)
        server.stdout.close()
        shutil.rmtree(folder)

    atexit.register(end)
    return path


def _text(file: object) -> str:
    file.seek(0)
    return file.read().decode()

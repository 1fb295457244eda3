"""`holdfastctl` while it watches something: what it has said so far, into a file or onto a screen."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.citations import ROOT
from tests.holdfast.operator_lab import Lab
from tests.world import programs
from tests.world.pauses import pauses
from tests.world.programs import Process

WAIT_S = 120.0  # on a machine that has other work
BAR = "━"


class Watching:
    """A command that waits, and what it has said so far."""

    def __init__(self, lab: Lab, log: Path, *arguments: object) -> None:
        environment = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(lab.socket)}
        self.log = log
        log.write_bytes(b"")
        words = ("holdfastctl", *arguments)
        self.process: Process = programs.start(*words, folder=lab.folder, log=log, environment=environment)

    def until(self, words: str, count: int = 1) -> str:
        end, pause = time.monotonic() + WAIT_S, pauses()
        while (said := self.log.read_text()).count(words) < count:
            assert self.process.poll() is None and time.monotonic() < end, said
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(next(pause))
        return said

    def ended(self) -> tuple[int, str]:
        return self.process.wait(WAIT_S), self.log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_S)


class Screen:
    """A terminal of 120 columns."""

    def __init__(self, process: subprocess.Popen, ours: int) -> None:
        self._process, self._ours = process, ours
        self._seen = bytearray()

    @property
    def text(self) -> str:
        return self._seen.decode(errors="replace")

    def until(self, words: str) -> None:
        end = time.monotonic() + WAIT_S
        while words not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._ours], [], [], 1.0)[0]:
                self._seen.extend(os.read(self._ours, 65_536))

    def ended(self) -> int:
        return self._process.wait(WAIT_S)


@contextmanager
def on_a_screen(lab: Lab, *arguments: object) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOLDFAST_ADMIN_SOCKET": str(lab.socket), "TERM": "xterm", "COLUMNS": "120"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-c", "from holdfast.ctl.operator import main; main()", *map(str, arguments)]
    process = subprocess.Popen(command, cwd=lab.folder, env=environment, stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)

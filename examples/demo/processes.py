"""Processes that the demonstration started, and no others: each has a log, and none outlives the demonstration."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

END_S = 8.0


@dataclass
class Processes:
    """`folder` takes one log a name. A name that is started again goes on in the same log."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[object], environment: Mapping[str, str] | None = None) -> None:
        """In a session of its own, so that Ctrl-C reaches the demonstration alone, which ends them in order."""
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, **(environment or {})},
            )

    def kill(self, name: str) -> None:
        """As a power cut would end it."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def send(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def ended(self) -> list[str]:
        """Those that have ended without being told to."""
        return [name for name, process in self.running.items() if process.poll() is not None]

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def last_words(self, name: str, lines: int = 12) -> str:
        path = self.log(name)
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def end(self) -> None:
        """All of them, asked first, the last started first."""
        for process in reversed(self.running.values()):
            process.terminate()
        for process in reversed(self.running.values()):
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.running.clear()


def free_ports(count: int) -> list[int]:
    """TCP ports of 127.0.0.1 that nobody uses at the moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()

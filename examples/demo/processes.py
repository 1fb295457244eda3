"""Processes that the demonstration started, and no others: each has a log, and none outlives the demonstration."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

END_S = 20.0
LOWEST_PORT = 10_000
TRIED_EACH = 100  # of more than twenty thousand
GIVEN_BY_THE_KERNEL = Path("/proc/sys/net/ipv4/ip_local_port_range")


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


def free_ports(
    count: int, host: str = "127.0.0.1", place: int = 0, places: int = 1, but: Collection[int] = ()
) -> list[int]:
    """TCP ports that nobody uses, below those that the kernel gives to whoever asks for any: nobody comes between.
    Where there are not so many below, the rest is as the kernel gives them.

    Where so many look at a time, each has a place: what one has found is no other's before somebody listens there.
    `but`: what is meant for others already.
    """
    lowest_given = int(GIVEN_BY_THE_KERNEL.read_text().split()[0])
    all_below = [port for port in range(LOWEST_PORT + place, lowest_given, places) if port not in but]
    below = secrets.SystemRandom().sample(all_below, min(len(all_below), TRIED_EACH * count))
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in [*below, *[0] * count]:
            one = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind((host, port))
                found.append(int(one.getsockname()[1]))
            if len(found) == count:
                return found
    raise OSError("there are no free ports")

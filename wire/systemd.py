"""What systemd and its services say to each other: readiness, the watchdog, sockets passed in. No library needed."""

import fcntl
import os
import socket
from collections.abc import Mapping, MutableMapping

import trio

FIRST_PASSED = 3
_HIGH = 32  # where copies lie, out of the way of what is passed

# Name and descriptor of a copy of each passed socket: they outlive their listener, for `give_back_sockets`.
_kept: list[tuple[str, int]] = []


class SystemdNotifier:
    """Says how the service is; silent where nobody asked (no NOTIFY_SOCKET)."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._interval_s = _watchdog_interval_s(environment)

    def ready(self, status: str = "") -> None:
        """When the local sockets serve (rules A12), not after a first download."""
        self._send("READY=1", status)

    def stopping(self, status: str = "") -> None:
        self._send("STOPPING=1", status)

    def status(self, text: str) -> None:
        self._send("", text)

    async def watchdog(self) -> None:
        """Pings at a third of the interval. It says that the event loop runs, and no more (rules A12, X13)."""
        if self._interval_s is None:
            return
        while True:
            self._send("WATCHDOG=1", "")
            await trio.sleep(self._interval_s / 3)

    def _send(self, state: str, status: str) -> None:
        if not self._address:
            return
        # One line: a newline in the status would be a message of its own.
        lines = [state, f"STATUS={' '.join(status.split())}" if status else ""]
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
            notify.setblocking(False)
            try:
                notify.sendto("\n".join(line for line in lines if line).encode(), address)
            except OSError:
                return  # nobody listens: the service goes on all the same (rules A14)


def passed_sockets(environment: MutableMapping[str, str] = os.environ) -> dict[str, socket.socket]:
    """The listening sockets of the socket unit by their FileDescriptorName; empty if we were not started by one.

    They are taken once: the variables are removed, so that no child takes them for its own.
    """
    mine = environment.get("LISTEN_PID") == str(os.getpid())
    count = int(environment.get("LISTEN_FDS", "0")) if mine else 0
    names = environment.get("LISTEN_FDNAMES", "").split(":") if mine else []
    for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        environment.pop(name, None)
    passed = {}
    for offset in range(count):
        os.set_inheritable(FIRST_PASSED + offset, False)
        name = names[offset] if offset < len(names) and names[offset] else f"passed-{offset}"
        _kept.append((name, fcntl.fcntl(FIRST_PASSED + offset, fcntl.F_DUPFD_CLOEXEC, _HIGH)))
        passed[name] = socket.socket(fileno=FIRST_PASSED + offset)
    return passed


def give_back_sockets(environment: MutableMapping[str, str] = os.environ) -> None:
    """For the program that this process becomes, as they were passed."""
    if not _kept:
        return
    for offset, (_, descriptor) in enumerate(_kept):
        os.dup2(descriptor, FIRST_PASSED + offset, inheritable=True)
    environment["LISTEN_PID"], environment["LISTEN_FDS"] = str(os.getpid()), str(len(_kept))
    environment["LISTEN_FDNAMES"] = ":".join(name for name, _ in _kept)


def _watchdog_interval_s(environment: Mapping[str, str]) -> float | None:
    interval_us = environment.get("WATCHDOG_USEC")
    if not interval_us or environment.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(interval_us) / 1e6

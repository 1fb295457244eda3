"""What is said to systemd, and the sockets that it passes in."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from wire.systemd import SystemdNotifier, passed_sockets


@pytest.fixture
def autojump_clock() -> MockClock:
    return MockClock(autojump_threshold=0.05)


def listening(path: str) -> socket.socket:
    notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notified.bind(path)
    notified.settimeout(5)
    return notified


@pytest.mark.parametrize("abstract", [False, True])
def test_states_and_one_line_of_status(tmp_path: Path, abstract: bool) -> None:
    """rules A12."""
    name = f"@holdfast-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with listening("\0" + name[1:] if abstract else name) as notified:
        notifier = SystemdNotifier({"NOTIFY_SOCKET": name})
        notifier.ready("serving")
        assert notified.recv(4096) == b"READY=1\nSTATUS=serving"
        notifier.status("one\nWATCHDOG=trigger")
        assert notified.recv(4096) == b"STATUS=one WATCHDOG=trigger"
        notifier.stopping()
        assert notified.recv(4096) == b"STOPPING=1"


async def test_the_watchdog_is_fed_at_a_third_of_its_interval(tmp_path: Path, autojump_clock: MockClock) -> None:
    """rules A12: it says that the event loop runs."""
    with listening(str(tmp_path / "notify")) as notified:
        notifier = SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "30000000"})
        with trio.move_on_after(29):
            await notifier.watchdog()
        notified.setblocking(False)
        assert [notified.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        with pytest.raises(BlockingIOError):
            notified.recv(100)


async def test_nobody_asked(tmp_path: Path) -> None:
    """rules A14: without systemd, with its socket gone, or with another process's watchdog, all goes on."""
    SystemdNotifier({}).ready()
    SystemdNotifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready()
    with trio.fail_after(60):
        await SystemdNotifier({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}).watchdog()
        await SystemdNotifier({}).watchdog()


PASSED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
from wire.systemd import passed_sockets
os.environ["LISTEN_PID"] = str(os.getpid())
taken = passed_sockets()
print(sorted(taken), [each.getsockname() for each in taken.values()], os.get_inheritable(3), "LISTEN_FDS" in os.environ)
"""


def test_passed_sockets_are_taken_by_name_and_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unit:
        unit.bind(str(tmp_path / "agent.sock"))
        unit.listen()
        done = subprocess.run(
            [sys.executable, "-c", PASSED, str(unit.fileno())],
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "agent"},
            pass_fds=[unit.fileno()],
            capture_output=True,
            text=True,
            check=True,
        )
    assert done.stdout.strip() == f"['agent'] ['{tmp_path}/agent.sock'] False False"


def test_sockets_for_another_process_are_not_ours() -> None:
    environment = {"LISTEN_PID": "1", "LISTEN_FDS": "2"}
    assert passed_sockets(environment) == {}
    assert environment == {}

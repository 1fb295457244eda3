"""How `make demo` ends where it is not let finish, and how what it kept is ended: nothing is left behind."""

import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from examples.demo import keeping, world
from examples.demo.screen import Screen
from tests.journeys.test_demo import of_ours, place, read_until, start

__all__ = ["place"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_ends_it_nothing_is_left(place, number):
    """By Ctrl-C, by kill, by a terminal that is closed; and again while it still cleans up."""
    with start(place) as demo:
        read_until(demo, "a cluster was made")
        assert of_ours(place)
        demo.send_signal(number)
        read_until(demo, "Stopped.")
        demo.send_signal(number)
        rest = demo.stdout.read()
    assert demo.returncode == 130, rest
    assert "Traceback" not in rest
    assert of_ours(place) == {}
    assert list(place.iterdir()) == []


def test_what_nohup_started_outlives_its_terminal(place):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        demo = start(place)
    finally:
        signal.signal(signal.SIGHUP, before)
    with demo:
        read_until(demo, "a cluster was made")
        demo.send_signal(signal.SIGHUP)
        read_until(demo, "are declared")
        demo.send_signal(signal.SIGINT)
        demo.stdout.read()
    assert demo.returncode == 130


def test_what_is_printed_to_be_pasted_is_read_back_as_it_was(place, monkeypatch):
    """Clones and temporary folders may have spaces in their names."""
    parent = place / "a b"
    parent.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    made = world.make("", Screen())
    made.processes.start("sleeper", [sys.executable, "-c", "import time; time.sleep(600)"])
    [sleeper] = made.processes.running.values()
    lines = keeping.keep(made, Path("/opt/my clone/.venv/bin")).splitlines()

    [settings] = [shlex.split(line) for line in lines if line.startswith("  export")]
    assert settings[1] == f"HOLDFAST_SOCKET={made.ingress.socket}"
    assert any(shlex.split(line)[:1] == ["/opt/my clone/.venv/bin/holdfastctl"] for line in lines if ".venv" in line)
    [stop] = [line for line in lines if line.startswith("  sh ")]
    ending = threading.Thread(target=sleeper.wait)  # its parent is here, and has to take leave of it
    ending.start()
    subprocess.run(["sh", "-c", stop], check=True, timeout=60)
    ending.join(60)
    assert sleeper.returncode == -signal.SIGTERM
    assert list(parent.iterdir()) == []

"""A hangup asks, and never ends: `systemctl reload` at any moment."""

import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.agent.test_run import TOML, agent, wait_for
from tests.citations import ROOT

NOBODY = '[local]\nsocket_path = "{folder}/run/agent.sock"\nprojection_directory = "{folder}/run"\n'
CHILD = "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"
PARENT = f"""
import signal, subprocess, sys
from agent import command, run
signal.signal(signal.SIGHUP, command._ignore_hangup)
print(subprocess.run([sys.executable, "-c", {CHILD!r}]).returncode)
"""


@pytest.mark.parametrize("toml", [TOML, NOBODY], ids=["a node", "not configured"])
def test_a_hangup_at_any_moment_ends_nothing(tmp_path, toml):
    """rules A14, P14: also before anybody waits for one, and where nothing is configured yet"""
    (tmp_path / "run").mkdir()
    (tmp_path / "agent.toml").write_text(toml.format(folder=tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(60)
        process = agent(tmp_path, NOTIFY_SOCKET=str(tmp_path / "notify"))
        wait_for(notified, "READY=1")
        for _ in range(20):
            process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        status, words = process.ended()
    assert status == 0, words


def test_a_command_of_the_operators_can_be_hung_up():
    """The agent's handler is not handed on: what it starts has the system's own."""
    done = subprocess.run([sys.executable, "-c", PARENT], cwd=ROOT, env=os.environ, capture_output=True, check=True)
    assert int(done.stdout) == -signal.SIGHUP

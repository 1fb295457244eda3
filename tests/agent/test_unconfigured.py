"""An agent without a cluster: it runs, answers, and says what to do."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from agent import unconfigured
from agent.awaited import settings_without_a_node
from agent.config.configuration import ConfigurationError
from holdfast.node.status_screen import problems_of, screen
from tests.citations import ROOT
from tests.world import programs
from wire.local.node_status import NodeStatus

LOCAL = '[local]\nsocket_path = "{folder}/agent.sock"\n'


@pytest.fixture
def running(tmp_path):
    """The process, once it has told systemd that it is ready, and what it said."""
    (tmp_path / "agent.toml").write_text(LOCAL.format(folder=tmp_path))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(tmp_path / "notify"))
        notified.settimeout(60)
        process = subprocess.Popen(
            [programs.folder() / "holdfast-agent", "--config", tmp_path / "agent.toml"],
            stderr=subprocess.PIPE,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"},
        )
        try:
            yield process, notified
        finally:
            process.kill()
            process.communicate()


def asked(folder, line):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(folder / "agent.sock"))
        caller.sendall(f"{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: caller.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_it_runs_and_says_what_to_do(running, tmp_path):
    """rules A2, A12, K29: UNENROLLED, ready for its callers, alive for the watchdog, and nothing is made on disk"""
    process, notified = running
    ready = notified.recv(4096).decode()
    assert ready.startswith("READY=1\nSTATUS=unenrolled not_configured:")
    assert "fill in [node] and [coordinator]" in ready
    assert notified.recv(4096) == b"WATCHDOG=1"
    status, body = asked(tmp_path, "GET /v1/status")
    assert (status, body["state"], body["cause"]) == (200, "unenrolled", "not_configured")
    for line in ("GET /v1/scopes/route_policy", "GET /v1/watch", "GET /v1/scopes/a/sections/b", "POST /v1/may"):
        status, refused = asked(tmp_path, line)
        assert (status, refused["code"], refused["message"]) == (503, "not_configured", unconfigured.REMEDY)
    assert asked(tmp_path, "GET /probe/liveness") == (200, {"alive": True})
    assert asked(tmp_path, "GET /probe/readiness")[0] == 503
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.sock.lock", "agent.toml", "notify"]


def test_the_status_command_shows_it():
    """What it reports is a status of a node, in form"""
    status = unconfigured.report(1_800_000_000.0)
    assert NodeStatus.read(status.to_bytes()) == status
    assert screen(status, 1_800_000_000.0) is not None
    assert any("agent.toml names no cluster yet" in problem for problem in problems_of(status, 1_800_000_000.0))


@pytest.mark.parametrize("table", ["[node]", "[coordinator]", "[manual]"])
def test_who_names_a_node_is_configured(tmp_path, table):
    """rules A14: half a configuration is a wrong one, and is not taken for none"""
    (tmp_path / "agent.toml").write_text(table)
    assert settings_without_a_node(tmp_path / "agent.toml") is None


def test_what_else_it_says_is_read_strictly(tmp_path):
    """rules A14"""
    (tmp_path / "agent.toml").write_text('[log]\nlevle = "info"')
    with pytest.raises(ConfigurationError, match="did you mean level"):
        settings_without_a_node(tmp_path / "agent.toml")
    (tmp_path / "agent.toml").write_text("[log")
    assert settings_without_a_node(tmp_path / "agent.toml") is None
    assert settings_without_a_node(tmp_path / "missing.toml") is None


NAMED = """
[node]
cluster_id = "raven"
node_id = "gw-1"
state_directory = "{folder}/state"
[coordinator]
urls = ["https://127.0.0.1:1"]
ca_file = "{folder}/ca.pem"
"""


def said(process):
    """The next event of the log, of which there is one a line."""
    return json.loads(process.stderr.readline())["event"]


def replace(file, text):
    (file.with_name("new")).write_text(text)
    (file.with_name("new")).rename(file)


def test_a_configuration_that_comes_is_taken_up_by_the_same_process(running, tmp_path):
    """rules A2, A14: half of one is said and waited for; then it is the agent of that node, without a restart"""
    process, notified = running
    assert notified.recv(4096).startswith(b"READY=1\nSTATUS=unenrolled not_configured")
    file = tmp_path / "agent.toml"
    replace(file, LOCAL.format(folder=tmp_path) + '[node]\ncluster_id = "raven"\n')
    while said(process) != "not taken up":
        pass
    assert asked(tmp_path, "GET /v1/status")[1]["cause"] == "not_configured"
    replace(file, LOCAL.format(folder=tmp_path) + NAMED.format(folder=tmp_path))
    while said(process) != "store opened":
        pass
    while b"READY=1" not in notified.recv(4096):
        pass
    status, body = asked(tmp_path, "GET /v1/status")
    assert (status, body["cluster_id"], body["node_id"], body["cause"]) == (200, "raven", "gw-1", "not_enrolled")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


PASSED = """
import os, sys
os.dup2({number}, 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="agent")
os.execv(sys.executable, [sys.executable, "-m", "agent.command", "--config", "{folder}/agent.toml"])
"""


def test_the_socket_that_systemd_passed_goes_with_it(tmp_path):
    """A caller that waits meanwhile is answered by the node's agent, and not refused."""
    (tmp_path / "agent.toml").write_text(LOCAL.format(folder=tmp_path))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "agent.sock"))
    listening.listen()
    code = PASSED.format(number=listening.fileno(), folder=tmp_path)
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, pass_fds=[listening.fileno()],
        env={**os.environ, "NOTIFY_SOCKET": ""},
    )  # fmt: skip
    try:
        assert asked(tmp_path, "GET /v1/status")[1]["cause"] == "not_configured"
        number = (tmp_path / "agent.sock").stat().st_ino
        replace(tmp_path / "agent.toml", LOCAL.format(folder=tmp_path) + NAMED.format(folder=tmp_path))
        while said(process) != "the configuration names a node now":
            pass
        assert asked(tmp_path, "GET /v1/status")[1]["node_id"] == "gw-1"
        assert (tmp_path / "agent.sock").stat().st_ino == number
    finally:
        process.kill()
        process.communicate()
        listening.close()

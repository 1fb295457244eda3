"""The process: what ends it, and with which words; what it loads before the first answer."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.citations import ROOT
from tests.fakes.ports import held_port
from tests.world import programs

TOML = """
[node]
cluster_id = "raven-1"
node_id = "node-a"
state_directory = "{folder}/state"
[coordinator]
urls = ["https://127.0.0.1:1"]
ca_file = "{folder}/ca.pem"
token_file = "{folder}/token"
[local]
socket_path = "{folder}/run/agent.sock"
projection_directory = "{folder}/run"
[limits]
map_bytes = 268435456
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "agent.toml").write_text(TOML.format(folder=tmp_path))
    return tmp_path


@dataclass
class Agent:
    """The process, and what it says. That it starts plainly is claimed by tests of packages, and by journeys."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self._log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        environment = {**os.environ, "NOTIFY_SOCKET": "", **self.environment}
        words = ("holdfast-agent", "--config", self.folder / "agent.toml")
        self._process = programs.start(*words, folder=self.folder, log=self._log, environment=environment)
        self.pid, self.send_signal = self._process.pid, self._process.send_signal

    def ended(self):
        """How, and with which words."""
        return self._process.wait(60), self._log.read_text()


def agent(folder, **environment):
    return Agent(folder, environment)


@pytest.fixture
def notified(folder):
    """What systemd would be told."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(str(folder / "notify"))
    listening.settimeout(60)
    yield listening
    listening.close()


def wait_for(notified, word):
    while word not in (said := notified.recv(4096).decode()):
        pass
    return said


def status(folder):
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(folder / "run" / "agent.sock"))
        caller.sendall(b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: caller.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def test_it_is_ready_without_anybody_and_ends_when_told(folder, notified):
    """rules A12, A14, P15, L14: no network, no CA, no token; READY all the same, and SIGTERM is the end"""
    process = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
    wait_for(notified, "READY=1")
    body = status(folder)
    assert (body["state"], body["cause"]) == ("unenrolled", "not_enrolled")
    process.send_signal(signal.SIGTERM)
    wait_for(notified, "STOPPING=1")
    code, words = process.ended()
    assert code == 0, words
    assert not (folder / "run" / "agent.sock").exists()


def test_whoever_asked_before_the_end_is_answered(folder, notified):
    """rules A14, A15: an upgrade refuses no local request: not the one that waits, and not the one that just came"""
    process = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
    wait_for(notified, "READY=1")
    with socket.socket(socket.AF_UNIX) as watcher, socket.socket(socket.AF_UNIX) as fresh:
        for caller in (watcher, fresh):
            caller.settimeout(60)
            caller.connect(str(folder / "run" / "agent.sock"))
        watcher.sendall(b"GET /v1/watch?wait=60 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        status(folder)  # who comes after it is answered, so its handler waits by now
        process.send_signal(signal.SIGTERM)
        wait_for(notified, "STOPPING=1")
        fresh.sendall(b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answers = [b"".join(iter(partial(caller.recv, 65536), b"")) for caller in (watcher, fresh)]
    assert answers[0].startswith(b"HTTP/1.1 204 ")
    assert answers[1].startswith(b"HTTP/1.1 200 ")
    code, words = process.ended()
    assert code == 0, words


def test_logs_are_one_object_a_line(folder, notified):
    process = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
    wait_for(notified, "STATUS=unenrolled")
    process.send_signal(signal.SIGTERM)
    _, words = process.ended()
    lines = [json.loads(line) for line in words.splitlines()]
    assert {"event", "level", "timestamp"} <= lines[0].keys()


def test_wrong_configuration_ends_it_with_every_problem(folder):
    """rules A14, J39"""
    file = folder / "agent.toml"
    file.write_text(file.read_text() + "[intervals]\nheartbeat_interval_s = 1\npol_wait_s = 2\n")
    process = agent(folder)
    code, words = process.ended()
    assert code == 78, words
    assert "heartbeat_interval_s must be" in words
    assert "did you mean poll_wait_s?" in words
    assert "Traceback" not in words


def test_an_unknown_group_ends_it(folder):
    file = folder / "agent.toml"
    file.write_text(file.read_text() + '[access."*"]\ngroups = ["nobody-of-that-name"]\n')
    process = agent(folder)
    code, words = process.ended()
    assert code == 78, words
    assert "nobody-of-that-name" in words
    assert "Traceback" not in words


def test_a_root_that_is_open_to_others_ends_it(folder):
    """rules L23, A14"""
    (folder / "state").mkdir(mode=0o755)
    process = agent(folder)
    code, words = process.ended()
    assert code == 74, words
    assert "chmod 0700" in words
    assert "Traceback" not in words


def test_a_second_agent_ends_with_a_clear_message(folder, notified):
    """rules L25, P8, A14"""
    first = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
    wait_for(notified, "READY=1")
    file = folder / "agent.toml"
    file.write_text(file.read_text().replace("run/agent.sock", "run/other.sock"))
    second = agent(folder)
    code, words = second.ended()
    assert code == 74
    assert f"process {first.pid}" in words
    first.send_signal(signal.SIGTERM)
    assert first.ended()[0] == 0


def test_what_costs_much_is_loaded_after_the_first_answer():
    """architecture.md: certificates, the client and metrics wait for whoever needs them"""
    program = "import sys, json, agent.run, agent.served; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, text=True)
    loaded = set(json.loads(done.stdout))
    assert {"agent.run", "agent.local.local_api"} <= loaded
    assert loaded.isdisjoint(
        {"httpx", "cryptography.x509", "wire.client", "agent.upstream", "click", "rich", "asyncio", "prometheus_client"}
    )


def test_a_socket_and_files_that_a_cleaner_took_come_back(folder, notified):
    """rules A14, S5: all of the folder, as of a /run that was cleaned"""
    process = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
    wait_for(notified, "STATUS=unenrolled")
    at = folder / "run/agent.sock"
    index = folder / "run/active/index.json"
    until(index.exists)
    (folder / "run").rename(folder / "cleaned")  # in one step, so that nothing is made in what is being emptied
    until(index.exists)
    until(at.exists)
    assert status(folder)["state"] == "unenrolled"
    process.send_signal(signal.SIGTERM)
    _, said = process.ended()
    assert "socket was gone, made anew" in said
    assert "files were gone, making them anew" in said
    assert not at.exists()


def until(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError(true)


def test_probes_have_a_listener_of_their_own(folder, notified):
    """rules J46, H19: for the operator's tools, and nothing of the local API with them"""
    with held_port() as held:
        port = held.getsockname()[1]
        file = folder / "agent.toml"
        file.write_text(file.read_text().replace("[limits]", f'probes_listen = "127.0.0.1:{port}"\n[limits]'))
        process = agent(folder, NOTIFY_SOCKET=str(folder / "notify"))
        wait_for(notified, "STATUS=unenrolled")
        assert asked(port, "/probe/liveness").startswith(b"HTTP/1.1 200")
        assert asked(port, "/probe/readiness").startswith(b"HTTP/1.1 503")
        assert asked(port, "/v1/status").startswith(b"HTTP/1.1 404")
        process.send_signal(signal.SIGTERM)
        assert process.ended()[0] == 0


def asked(port, path):
    for _ in range(600):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=60) as caller:
                caller.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
                return b"".join(iter(lambda: caller.recv(65536), b""))
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise AssertionError("the probes are not served")

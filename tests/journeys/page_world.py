"""A machine as a page of docs/ has it, below one temporary folder: the real commands and daemons, its files, its ports.

What a page names by an absolute place lies below the folder, and `systemctl` starts, reloads and ends the real daemons
(a booted machine does it in tests/systemd). Nothing else is stood in for.
"""

import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.processes import Processes
from tests.citations import ROOT
from tests.world import programs
from tests.world.pauses import pauses
from tests.world.ports import free_ports

WITHIN_S = 120.0  # on a machine that has other work
PASSPHRASE = "swordfish"
SCRIPTS = Path(sys.executable).parent
HOSTS = re.compile(r"https://(?:coordinator|coord)(?:\.osprey)?\.example(?:\.org)?:(\d+)")
UNITS = {"holdfast-coordinator": "coordinator.toml", "holdfast-agent": "agent.toml"}
PLAIN = re.compile(r"[\w ./:@=,'\"+-]+")
"""Words and quotes alone: no shell would make anything else of them."""
QUESTIONS = (("--encrypt", PASSPHRASE), ("reset-identity", "gateway"), ("", f"y\n{PASSPHRASE}"))
"""What is typed where a command asks: by a word of the command, the first that fits."""

AGENT = """
[node]
cluster_id = "{cluster}"
node_id = "{node}"
state_directory = "{at}/var/lib/holdfast"
[coordinator]
urls = ["https://localhost:{ports[7443]}"]
join_urls = ["https://localhost:{ports[7444]}"]
ca_file = "{at}/var/lib/holdfast-coordinator/tls/ca.pem"
token_file = "{at}/etc/holdfast/join.token"
[local]
socket_path = "{at}/run/holdfast/agent.sock"
projection_directory = "{at}/run/holdfast"
reload_directory = "{at}/run/holdfast/reload"
reload_answers_directory = "{at}/run/holdfast-reload"
[intervals]
heartbeat_interval_s = 5
"""


@dataclass(frozen=True)
class Ran:
    command: str
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [*self.out.splitlines(), *self.err.splitlines()]


@dataclass
class World:
    at: Path
    ports: dict[int, int] = field(init=False)
    processes: Processes = field(init=False)
    memo: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ports = dict(zip((7443, 7444, 7445, 9465), free_ports(4), strict=True))
        self.processes = Processes(self.at)
        for place in ("etc/holdfast", "var/lib", "run/holdfast", "run/holdfast-coordinator", "srv", "media/usb/roots"):
            (self.at / place).mkdir(parents=True)
        (self.at / "var/lib/holdfast").mkdir(mode=0o700)
        self.file("run/passphrase", PASSPHRASE, 0o600)
        for place in ("media", "media/usb", "media/usb/roots"):
            (self.at / place).chmod(0o700)

    # ---- its files

    def file(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def here(self, text: str) -> str:
        """Places and ports of a page, as they are on this machine."""
        text = HOSTS.sub(r"https://localhost:\1", text)
        for port, ours in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(ours), text)
        return re.sub(r"(?<![\w/.])/(?=(?:media|etc/holdfast|var/lib|run|srv)\b)", f"{self.at}/", text)

    def agent_toml(self, cluster: str, node: str) -> None:
        self.file("etc/holdfast/agent.toml", AGENT.format(at=self.at, cluster=cluster, node=node, ports=self.ports))

    # ---- its commands

    def run(self, command: str) -> Ran:
        """As somebody types it who answers what is asked."""
        if command.startswith("systemctl "):
            return self._systemctl(command)
        asked = next(answer for word, answer in QUESTIONS if word in command)
        placed = self._placed(self.here(command))
        if PLAIN.fullmatch(placed) and (words := shlex.split(placed))[0] in programs.PROGRAMS:
            given = {"environment": self.environment, "stdin": f"{asked}\n"}
            plainly = programs.run(*words, folder=self.at, **given)
            return Ran(command, plainly.status, plainly.out, plainly.err)
        done = subprocess.run(
            ["bash", "-c", placed],
            cwd=self.at,
            env=self.environment,
            input=asked + "\n",
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        return Ran(command, done.returncode, done.stdout, done.stderr)

    def good(self, command: str) -> Ran:
        ran = self.run(command)
        assert ran.status == 0, (ran, self.logs())
        return ran

    def until(self, command: str, word: str, *, hinted: bool = False) -> Ran:
        """`hinted`: the agent is told that it is worth asking now (rules P14): a back-off may last as long as this."""
        end, pause = time.monotonic() + WITHIN_S, pauses(0.4, 2.0)
        while word not in (ran := self.run(command)).out:
            assert time.monotonic() < end, (ran, self.logs())
            if hinted:
                self.processes.send("holdfast-agent", signal.SIGHUP)
            time.sleep(next(pause))
        return ran

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{programs.folder()}:{SCRIPTS}:/usr/bin:/bin",
            "HOME": str(self.at),
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "HOLDFAST_ADMIN_SOCKET": f"{self.at}/run/holdfast-coordinator/admin.sock",
            "HOLDFAST_SOCKET": f"{self.at}/run/holdfast/agent.sock",
            "HOLDFAST_FILES": f"{self.at}/run/holdfast/active",
        }

    def _placed(self, command: str) -> str:
        """With the options that say where the defaults of a whole machine lie here."""
        at, ports = self.at, self.ports
        configuration = f"--configuration {at}/etc/holdfast/coordinator.toml"
        options = {
            "holdfastctl init": f"--state {at}/var/lib/holdfast-coordinator {configuration} "
            f"--listen 127.0.0.1:{ports[7443]} --listen-join 127.0.0.1:{ports[7444]} "
            f"--listen-probes 127.0.0.1:{ports[9465]} --listen-admin 127.0.0.1:{ports[7445]} "
            f"--admin-socket {at}/run/holdfast-coordinator/admin.sock",
            "holdfastctl show-certificate": configuration,
            "holdfastctl coordinators certificate": configuration,
            "holdfast show-certificate": f"--root {at}/var/lib/holdfast",
            "holdfastctl coordinators ca use": configuration,
            "holdfastctl coordinators begin-history": configuration,
            "holdfast join": f"--config {at}/etc/holdfast/agent.toml",
            **{f"holdfast store {one}": f"--root {at}/var/lib/holdfast"
               for one in ("check", "list", "show", "export", "reset-identity")},
        }  # fmt: skip
        for begin, more in options.items():
            if f"{command} ".startswith(f"{begin} "):
                return f"{begin} {more} {command.removeprefix(begin)}"
        return command

    # ---- its daemons

    def _systemctl(self, command: str) -> Ran:
        _, verb, *rest = shlex.split(command)
        for name in dict.fromkeys(unit.partition(".")[0] for unit in rest if not unit.startswith("--")):
            {"start": self.start, "enable": self.start, "stop": self.stop, "reload": self.reload}[verb](name)
        return Ran(command, 0, "", "")

    def start(self, name: str) -> None:
        environment = {**self.environment, "PYTHONUNBUFFERED": "1"}
        command = [programs.folder() / name, "--config", self.at / "etc/holdfast" / UNITS[name]]
        self.processes.start(name, command, environment)

    def stop(self, name: str) -> None:
        process = self.processes.running.pop(name)
        process.terminate()
        process.wait(WITHIN_S)

    def reload(self, name: str) -> None:
        """Until it says that it has."""
        before = self._said(name, "reloaded")
        self.processes.send(name, signal.SIGHUP)
        end = time.monotonic() + WITHIN_S
        while self._said(name, "reloaded") == before:
            assert time.monotonic() < end, self.logs()
            time.sleep(0.05)

    def _said(self, name: str, word: str) -> int:
        return self.processes.log(name).read_text().count(word)

    def logs(self) -> str:
        return "\n".join(self.processes.last_words(name) for name in UNITS)

    def end(self) -> None:
        self.processes.end()

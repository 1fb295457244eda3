"""The programs of examples/consumers, started as their units start them, and what each of them shows of its files.

What an example says of a machine's own places (`/usr/local/bin`, `/run/holdfast`, ports) is said of a folder here, and
no other word of it is changed. Where an example asks for root's units the test is root: it restarts the program.
"""

import json
import os
import re
import shlex
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples.demo.processes import Processes
from tests.citations import ROOT
from tests.journeys.gateway import Gateway
from tests.world.ports import free_ports

EXAMPLES = ROOT / "examples/consumers"
SCRIPTS = Path(sys.executable).parent
PROMETHEUS = all(map(shutil.which, ("prometheus", "promtool", "curl")))


@dataclass(frozen=True)
class Consumer:
    """`name` is its folder's. `shows`: what it goes by; `wanted`: what that is of an edition. `mistake`: what is
    replaced by what, so that it refuses it with these words. `left`: what it shows when its Config is withdrawn.
    """

    name: str
    scope: str
    shows: Callable[["Machine"], str]
    mistake: tuple[str, str]
    words: str
    left: str
    wanted: str = "{0} edition"

    def file(self, place: str) -> str:
        return (EXAMPLES / self.name / place).read_text()


@dataclass
class Machine:
    """The node's agent and the programs beside it."""

    gateway: Gateway
    processes: Processes
    ports: Mapping[str, int] = field(default_factory=lambda: dict(zip(("9090", "8097"), free_ports(2), strict=True)))
    requests: int = 0

    @property
    def run(self) -> Path:
        return self.gateway.folder / "run"

    def here(self, text: str) -> str:
        """With this machine's places."""
        for port, free in self.ports.items():
            text = text.replace(port, str(free))
        for program in EXAMPLES.glob("*/node/*.*"):
            text = text.replace(f"/usr/local/bin/{program.name}", str(program))
        return text.replace("/run/holdfast", str(self.run)).replace("/run/networks", str(self.gateway.folder))

    def configure(self, consumers: tuple[Consumer, ...]) -> None:
        """The fragments for agent.toml. The library's programs need the library, which another Python has here."""
        fragments = "\n".join(self.here(consumer.file("node/agent.toml")) for consumer in consumers)
        by_this_python = re.sub(r'"(/\S+\.py)"', rf'"{sys.executable}", "\1"', fragments)
        with (self.gateway.folder / "agent.toml").open("a") as file:
            file.write(by_this_python)
        (self.run / "restart").mkdir()
        (self.run / "holdfast-restart").mkdir()

    def start(self, consumer: Consumer) -> None:
        """Its ExecStart=, or Debian's own with the arguments of the example."""
        if consumer.name == "prometheus":
            arguments = self.here(consumer.file("node/prometheus.default")).partition("=")[2]
            data = f"--storage.tsdb.path={self.gateway.folder / 'tsdb'}"
            command = ["prometheus", *shlex.split(shlex.split(arguments)[0]), data]
        else:
            (unit,) = (EXAMPLES / consumer.name / "node").glob("*.service")
            (line,) = re.findall(r"^ExecStart=(.*)$", self.here(unit.read_text()), re.MULTILINE)
            command = [self._program(word) for word in line.split()]
            command = [sys.executable, *command] if command[0].endswith(".py") else command
        self.processes.start(consumer.name, command, self.environment)

    def _program(self, word: str) -> str:
        return str(SCRIPTS / "holdfast") if word == "/usr/bin/holdfast" else word

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{SCRIPTS}:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "HOLDFAST_SOCKET": str(self.run / "agent.sock"),
            "HOLDFAST_FILES": str(self.run / "active"),
        }

    def restart(self, consumer: Consumer) -> None:
        if consumer.name in self.processes.running:
            self._kill(consumer.name)
        self.start(consumer)

    def end(self) -> None:
        for name in list(self.processes.running):
            self._kill(name)

    def _kill(self, name: str) -> None:
        """With what it has started, as systemd would."""
        with suppress(ProcessLookupError):
            os.killpg(self.processes.running[name].pid, signal.SIGKILL)
        self.processes.kill(name)

    def do_what_root_does(self, consumers: tuple[Consumer, ...]) -> None:
        """holdfast-restart@greeter.service, which an administrator has enabled."""
        request = self.run / "restart" / "greeter.service"
        with suppress(FileNotFoundError):
            if self.requests != (seen := request.stat().st_mtime_ns):
                self.requests = seen
                self.restart(next(consumer for consumer in consumers if consumer.name == "exec"))
                (self.run / "holdfast-restart" / "greeter.service").write_text(f"success {seen}\n")

    def get(self, port: str, path: str = "/") -> str:
        """What answers there; nothing while nobody does."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=60) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError):
            return ""


def _shown_by_prometheus(machine: Machine) -> str:
    """The edition of its rules, and that of its targets, where it has any."""
    asked = [machine.get("9090", f"/api/v1/{what}") for what in ("rules", "targets")]
    if "" in asked:
        return ""
    rules, targets = (json.loads(answer)["data"] for answer in asked)
    said = [f"rules of {rule['annotations']['summary']}" for group in rules["groups"] for rule in group["rules"]]
    said += [f"targets of {target['labels']['edition']}" for target in targets["activeTargets"]]
    return ", ".join(said)


def _shown_by_the_library(machine: Machine) -> str:
    return machine.processes.last_words("python", 1).partition(":")[0]


def _shown_by_the_shell(machine: Machine) -> str:
    with suppress(FileNotFoundError):
        return (machine.gateway.folder / "allowed.txt").read_text().partition("\n")[0].removeprefix("# ")
    return ""


def _shown_by_exec(machine: Machine) -> str:
    return machine.get("8097").strip()


_PROMETHEUS = Consumer(
    "prometheus", "config/metrics", _shown_by_prometheus, ("} == 0", "} = 0"), "EdgeDown",
    wanted="rules of {0} edition, targets of {0} edition", left="rules of {0} edition",
)  # fmt: skip
CONSUMERS = (
    *([_PROMETHEUS] if PROMETHEUS else []),
    Consumer("python", "config/limits", _shown_by_the_library, ("10", '"many"'), "no limits", "its own"),
    Consumer("shell", "config/networks", _shown_by_the_shell, ("192.0.2.0/24", "everybody"), "everybody", ""),
    Consumer("exec", "config/greeter", _shown_by_exec, ("PORT: ", "PORT: 9"), "a PORT of 1024", ""),
)

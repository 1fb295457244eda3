"""What is declared for a small cluster, and its node `gateway`: a disk, and its agent as a process."""

import json
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from holdfast.client import AgentDown, Client
from tests.holdfast.operator_lab import Lab, Ran
from tests.journeys import agent_process
from tests.journeys.interpreter import AGENT_PYTHON
from tests.world import programs
from tests.world.pauses import pauses
from tests.world.programs import Process
from wire.operators.operator_answers import UnpublishedChanges

WITHIN_S = 120.0  # on a machine that has other work
HINT_S, MOST_HINT_S = 0.3, 1.0

FABRIC = """\
kind: Cluster
id: prod
spec: {{coordinators: ["https://localhost:7443"]}}
---
kind: Organization
id: acme
spec: {{name: Acme}}
---
kind: Node
id: gateway
spec: {{roles: [ingress], organizations: [acme]}}
---
kind: Node
id: egress
spec: {{roles: [egress_service], organizations: [acme]}}
---
kind: Service
id: web
spec:
  organization: acme
  runs_on: {{nodes: [egress]}}
  endpoints:
    - {{name: http, protocol: http, host: 127.0.0.1, port: {port}, exposed: true}}
---
kind: DegradedModePolicy
id: base
spec: {{allow: [continue_services, preserve_routes, report_degraded], allow_unconfirmed_start: true}}
"""

AGENT = """\
[node]
cluster_id = "prod"
node_id = "{node}"
state_directory = "{folder}/state"

[coordinator]
urls = ["https://localhost:{fleet}"]
join_urls = ["https://localhost:{join}"]
ca_file = "{ca}"
token_file = "{folder}/join.token"

[local]
socket_path = "{folder}/run/agent.sock"
projection_directory = "{folder}/run"
reload_directory = "{folder}/run/reload"
reload_answers_directory = "{folder}/run/reload-answers"

[intervals]
heartbeat_interval_s = 5
"""


@dataclass
class Gateway:
    """A node's disk, and its agent as a process, started from another folder than the project's."""

    folder: Path
    lab: Lab
    process: Process | subprocess.Popen | None = None
    node_id: str = "gateway"
    by_way_of: int = 0  # the port behind which the coordinator's is

    def __post_init__(self) -> None:
        (self.folder / "run").mkdir(parents=True)
        (self.folder / "state").mkdir(mode=0o700)
        ca = self.lab.folder / "state" / "tls" / "ca.pem"
        ports = self.lab.ports | ({"fleet": self.by_way_of} if self.by_way_of else {})
        text = AGENT.format(folder=self.folder, ca=ca, node=self.node_id, **ports)
        (self.folder / "agent.toml").write_text(text)

    def start(self) -> None:
        log, words = self.folder / "log", ("--config", self.folder / "agent.toml")
        self.process = programs.start_by(AGENT_PYTHON, "holdfast-agent", *words, folder=self.folder, log=log)
        self.until(self.answers)

    def boot_anew(self, number: int) -> None:
        """Killed without order, and started in another boot of its machine, as far as its clock can tell."""
        self.kill()
        clock = self.folder / "clock.json"
        begun = time.clock_gettime(time.CLOCK_BOOTTIME) - 1.0
        clock.write_text(json.dumps({"ahead_s": 0.0, "boot_id": f"boot-{number}", "booted_at": begun}))
        self.process = agent_process.start(self.folder, clock)
        self.until(self.answers)

    def join(self, port: int) -> None:
        """With a token of its own; until it is active, and services read the port that is declared."""
        self.enrol()
        self.until(lambda: self.port() == port)

    def enrol(self) -> None:
        """With a token of its own; until it is active."""
        self.lab.good("allow", "add", self.node_id)
        self.lab.good("tokens", "create", "--node", self.node_id, "--out", self.folder / "join.token")
        self.start()
        self.until(lambda: self.status["state"] == "active")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def ask(self, command: str, *arguments: str) -> Ran:
        return self.lab.holdfast(command, "--socket", self.folder / "run" / "agent.sock", *arguments)

    @cached_property
    def client(self) -> Client:
        return Client(self.folder / "run" / "agent.sock", self.folder / "none", timeout_s=WITHIN_S)

    @property
    def status(self) -> dict:
        """What `holdfast status --json` prints."""
        return self.client.status()

    def answers(self) -> bool:
        with suppress(AgentDown):
            return bool(self.client.status())
        return False

    def port(self) -> int:
        """As a service reads it: from the files; 0 while it is in none. They follow an activation a moment later."""
        sections = [json.loads(path.read_text()) for path in self.files("service_assignment@web")]
        return next((section["web"]["endpoints"][0]["port"] for section in sections), 0)

    def files(self, folder: str) -> list[Path]:
        """Of a scope's folder. Of one generation, which stays for a while after the next one has come."""
        return sorted((self.folder / "run" / "active" / folder).resolve().glob("*.json"))

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def until(self, holds: Callable[[], bool], *, hinted: bool = False) -> None:
        """`hinted`: it is told again and again that it is worth asking now (rules P14): a back-off may be long."""
        end = time.monotonic() + WITHIN_S
        pause = pauses(HINT_S, MOST_HINT_S) if hinted else pauses()
        while not holds():
            assert self.process is not None and self.process.poll() is None, self.log()
            assert time.monotonic() < end, (self.lab.log(), self.log())
            if hinted:
                self.process.send_signal(signal.SIGHUP)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(next(pause))


def declare(lab: Lab, port: int) -> None:
    ran = apply(lab, port)
    assert ran.status == 0, ran


def apply(lab: Lab, port: int) -> Ran:
    (lab.folder / "fabric.yaml").write_text(FABRIC.format(port=port))
    return lab.ctl("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def until_published(lab: Lab) -> None:
    """All that is declared: the coordinator compiles and signs it after it has said that it is applied."""
    end, pause = time.monotonic() + WITHIN_S, pauses()
    while lab.asked.get(UnpublishedChanges, "diff").nodes:
        assert time.monotonic() < end, lab.log()
        time.sleep(next(pause))

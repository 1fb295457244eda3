"""The machines of the test: a coordinator, and one node for each Debian release; and how they are spoken to."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.systemd.control import Control, fetch
from tests.systemd.debs import AGENT, CLIENT, COORDINATOR, CTL, Packages
from tests.systemd.machines import Machine, MachineError, Ran
from tests.systemd.network import Switch
from tests.systemd.trees import tree

CLUSTER = "prod"
DEBIAN = {"bookworm": "12", "trixie": "13"}
NEWEST = "trixie"  # the coordinator asks for its libraries
MEMBER, STRANGER = "member", "stranger"
SECTION = "services"  # of the scope of a service
NOT_A_MEMBER = ("unenrolled", "joining")
RUNS_ON = ("active", "degraded")  # on verified configuration, with its coordinator or without
WITHIN_S = 120.0  # of what takes seconds, on a machine that has other work

# One organization for each node, so that each can be given something new by itself.
DECLARED = """\
kind: Organization
id: {node}
spec: {{name: {node}}}
---
kind: Node
id: {node}
spec: {{roles: [ingress], organizations: [{node}]}}
---
kind: Node
id: {node}-egress
spec: {{roles: [egress_service], organizations: [{node}]}}
---
kind: Service
id: web-{node}
spec:
  organization: {node}
  runs_on: {{nodes: [{node}-egress]}}
  endpoints:
    - {{name: http, protocol: http, host: 127.0.0.1, port: {port}, exposed: true}}
"""

FABRIC = """\
kind: Cluster
id: {cluster}
spec: {{coordinators: ["https://coordinator:{port}"]}}
---
kind: DegradedModePolicy
id: base
spec: {{allow: [continue_services, preserve_routes, report_degraded], allow_unconfirmed_start: true}}
"""


@dataclass
class Agent:
    """One agent of a node: of the main cluster, or of a further one (`holdfast-agent@NAME`)."""

    machine: Machine
    node_id: str
    control: Control
    instance: str = ""
    port: int = 8000

    @property
    def unit(self) -> str:
        return f"holdfast-agent@{self.instance}" if self.instance else "holdfast-agent"

    @property
    def state_directory(self) -> str:
        return f"/var/lib/holdfast-{self.instance}" if self.instance else "/var/lib/holdfast"

    @property
    def run_folder(self) -> str:
        return f"/run/holdfast-{self.instance}" if self.instance else "/run/holdfast"

    @property
    def configuration(self) -> str:
        return f"/etc/holdfast/agent-{self.instance}.toml" if self.instance else "/etc/holdfast/agent.toml"

    def ask(self, *words: str, user: str = MEMBER) -> Ran:
        """`holdfast WORDS`."""
        place = ("env", f"HOLDFAST_SOCKET={self.run_folder}/agent.sock", f"HOLDFAST_FILES={self.run_folder}/active")
        return self.machine.run(*place, "holdfast", *words, user=user)

    def fetch(self, path: str) -> dict[str, Any]:
        """What the agent answers a member of the group; empty where there is no answer. Who asks again and again asks
        so: to start the command takes a hundred times as much of a processor, which what is waited for would lack.
        """
        return fetch(self.machine, f"{self.run_folder}/agent.sock", path, user=MEMBER)

    @property
    def status(self) -> dict[str, Any]:
        """As `holdfast status --json` prints it."""
        found = self.fetch("/v1/status")
        if not found:
            raise MachineError(f"{self.machine.name}: {self.unit} does not say its status")
        return found

    @property
    def state(self) -> str:
        """As it says; empty where there is no answer."""
        return str(self.fetch("/v1/status").get("state", ""))

    def until_in(self, state: str, within_s: float = WITHIN_S) -> None:
        self.machine.until(lambda: self.state == state, within_s, f"{self.unit} to be {state}", every_s=0.3)

    def until_a_member(self, within_s: float = WITHIN_S) -> None:
        """No answer is no membership."""
        joined = f"{self.unit} to join"
        self.machine.until(lambda: self.state not in ("", *NOT_A_MEMBER), within_s, joined, every_s=0.3)

    def seen_port(self) -> int:
        """Of its service, as a member of the group is told over the socket; 0 where there is no answer."""
        ran = self.ask("get", self.scope, SECTION)
        if ran.status != 0 or "from its files" in ran.err:
            return 0
        return _port_of(json.loads(ran.out), self.service)

    def _served_port(self) -> int:
        """The same, of the agent itself."""
        return _port_of(self.fetch(f"/v1/scopes/{self.scope.replace('/', '%2F')}/sections/{SECTION}"), self.service)

    @property
    def service(self) -> str:
        return f"web-{self.node_id}"

    @property
    def scope(self) -> str:
        return f"service_assignment/{self.service}"

    @property
    def files(self) -> str:
        """The folder of that scope."""
        return f"{self.run_folder}/active/service_assignment@{self.service}"

    def declare_next(self) -> int:
        """Something new for this node, declared at its coordinator."""
        self.port += 1
        self.control.apply(DECLARED.format(node=self.node_id, port=self.port))
        return self.port

    def until_seen(self, port: int, within_s: float = WITHIN_S) -> None:
        """Until that port is what services read."""
        what = f"{self.unit} to serve port {port}"
        self.machine.until(lambda: self._served_port() == port == self.seen_port(), within_s, what, every_s=0.3)

    def until_current(self, within_s: float = WITHIN_S) -> None:
        """Until what was declared last is what services read."""
        self.until_seen(self.port, within_s)

    def main_pid(self) -> int:
        return int(self.machine.good("systemctl", "show", "--property=MainPID", "--value", self.unit))


def _port_of(services: Mapping[str, Any], service: str) -> int:
    return int(services[service]["endpoints"][0]["port"]) if service in services else 0


@dataclass
class Node:
    """A machine with agents: `agent` is of the main cluster."""

    machine: Machine
    debian: str
    agent: Agent
    further: Agent | None = None


@dataclass
class Lab:
    """`folder` is the run's own, on this machine; `stopping` is set when it is to end. `spare` is off until a step
    boots it.
    """

    packages: Packages
    folder: Path
    stopping: threading.Event
    coordinator: Machine
    spare: Machine
    control: Control
    nodes: tuple[Node, ...]
    further: Control | None = None
    _issuing: threading.Lock = field(default_factory=threading.Lock)

    def issued_again(self, version: str, change: Callable[[Path], None] = lambda _: None) -> Packages:
        """What a node has, under a later version (debs.py): made once for all of them."""
        into = self.folder / version
        with self._issuing:
            if not into.exists():
                self.packages.issued_again((AGENT, CLIENT), version, into, change)
        return Packages(into)

    @property
    def machines(self) -> tuple[Machine, ...]:
        return (self.coordinator, *(node.machine for node in self.nodes))

    def end(self) -> None:
        """Whoever waits for something here stops to."""
        self.stopping.set()
        for machine in (*self.machines, self.spare):
            machine.end()


@contextmanager
def laboratory(packages: Packages, folder: Path) -> Iterator[Lab]:
    """The machines' disks and the switch between them; nothing is booted yet, and at the end nothing is left."""
    stopping = threading.Event()
    trees = _trees(packages)
    with ExitStack() as at_the_end:
        switch = Switch()
        at_the_end.callback(switch.close)
        names = {"coordinator": NEWEST, **{f"node{number}": suite for suite, number in DEBIAN.items()}, "spare": NEWEST}
        machines = {}
        for index, (name, suite) in enumerate(names.items(), start=1):
            machine = Machine(name, trees[suite], f"10.77.0.{index}", switch, folder / name, stopping)
            at_the_end.callback(machine.remove)
            machines[name] = machine
        at_the_end.callback(stopping.set)
        hosts = "".join(f"{machine.address} {machine.name}\n" for machine in machines.values())
        for machine in machines.values():
            machine.make(hosts)
        yield _lab(packages, folder, stopping, machines)


def _trees(packages: Packages) -> dict[str, Path]:
    """By suite; made at a time, since much of it is downloading."""
    with ThreadPoolExecutor(len(DEBIAN)) as pool:
        made = {suite: pool.submit(tree, suite, packages.depends(_roles(suite))) for suite in DEBIAN}
        return {suite: done.result() for suite, done in made.items()}


def _roles(suite: str) -> tuple[str, ...]:
    return (AGENT, CLIENT, COORDINATOR, CTL) if suite == NEWEST else (AGENT, CLIENT, CTL)


def _lab(packages: Packages, folder: Path, stopping: threading.Event, machines: dict[str, Machine]) -> Lab:
    coordinator = machines["coordinator"]
    socket = "/run/holdfast-coordinator/admin.sock"
    control = Control(coordinator, CLUSTER, "/var/lib/holdfast-coordinator", 7443, socket)
    nodes = tuple(
        Node(machines[f"node{debian}"], debian, Agent(machines[f"node{debian}"], f"node{debian}", control))
        for debian in DEBIAN.values()
    )
    return Lab(packages, folder, stopping, coordinator, machines["spare"], control, nodes)

"""Everything that the demonstration runs on, in one temporary directory."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from examples.demo.coordinator import Coordinator
from examples.demo.gateway import Gateway
from examples.demo.node import Node
from examples.demo.processes import Processes, free_ports
from examples.demo.proof import NotProved, Proof
from examples.demo.screen import Screen
from examples.demo.traffic import Stream, ask

FABRIC = Path(__file__).resolve().parents[1] / "fabric"
INGRESS, EGRESS, CORE = "fra-gw-aurora-1", "fra-svc-aurora-1", "fra-core-1"
INTRANET, PORTAL, TEAM = "intranet.aurora.example", "portal.aurora.example", "team.aurora.example"
HELPDESK = "helpdesk.aurora.example"
AMSTERDAM, FRANKFURT = (f"the intranet, on {node}" for node in ("ams-svc-aurora-1", "fra-svc-aurora-1"))
IN_A_ROW = 10  # answers of one kind: nothing of the former configuration is left that could give another
LONGEST_SOCKET_PATH = 60  # of the directory; the kernel takes 107 bytes for the whole path


@dataclass
class World:
    """`amsterdam`, `frankfurt`: ports of the two places where the intranet may run."""

    folder: Path
    processes: Processes
    coordinator: Coordinator
    nodes: dict[str, Node]
    gateway: Gateway
    stream: Stream
    amsterdam: int
    frankfurt: int
    screen: Screen
    proof: Proof
    began: float = 0.0  # when the outage did, and when it ended: Unix seconds
    ended: float = 0.0

    @property
    def ingress(self) -> Node:
        return self.nodes[INGRESS]

    @property
    def egress(self) -> Node:
        return self.nodes[EGRESS]

    @property
    def core(self) -> Node:
        return self.nodes[CORE]

    @property
    def all_nodes(self) -> list[Node]:
        return list(self.nodes.values())

    def ask(self, host: str) -> tuple[int, str]:
        return ask(self.gateway.port, host)

    def sample(self, host: str) -> set[tuple[int, str]]:
        """The different answers to some requests, one after the other."""
        return {self.ask(host) for _ in range(IN_A_ROW)}

    def answers(self, host: str, body: str) -> bool:
        """Whether every request for the host is answered with that."""
        return self.sample(host) == {(200, body)}

    def states(self) -> str:
        return ", ".join(f"{node.node_id} {node.status().get('state', 'not running')}" for node in self.all_nodes)


def make(nginx: str, screen: Screen) -> World:
    """Directories and ports; nothing runs yet."""
    folder = _folder()
    logs = folder / "logs"
    logs.mkdir()
    processes = Processes(logs)
    fleet, join, port, amsterdam, frankfurt = free_ports(5)
    ingress = folder / "nodes" / INGRESS
    return World(
        folder=folder,
        processes=processes,
        coordinator=Coordinator(folder / "coordinator", processes, fleet, join),
        nodes={name: Node(name, folder / "nodes" / name, processes) for name in (INGRESS, EGRESS, CORE)},
        gateway=Gateway(folder / "gateway", ingress / "run" / "active", port, nginx, PORTAL),
        stream=Stream(port, INTRANET),
        amsterdam=amsterdam,
        frankfurt=frankfurt,
        screen=screen,
        proof=Proof(screen.proved, lambda: _look(screen, processes)),
    )


def _look(screen: Screen, processes: Processes) -> None:
    """While something is waited for: whoever has ended will not bring it about."""
    screen.look()
    for name in processes.ended():
        raise NotProved(f"{name} ended by itself")


def _folder() -> Path:
    """Short, since sockets lie below it."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    if len(str(folder)) > LONGEST_SOCKET_PATH:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-", dir="/tmp"))
    return folder

"""A site behind one slow link: each node a process in a network namespace of its own, the coordinator outside.

    with sites.site(folder, ["n1", "n2", "n3"], relay="n1") as site:
        site.join()
        site.link.shape(rate=64_000, delay_s=0.3)
        site.publish(b"...")                     a file that every node is given
        site.until_held(b"...")

Needs root, iproute2 and /dev/net/tun; without them the journey is skipped, and says so.
"""

import itertools
import os
import shutil
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.client import NotFound
from tests.holdfast.operator_lab import UNGUARDED, Lab, running
from tests.journeys.gateway import Gateway
from tests.world import programs
from tests.world.pauses import pauses
from tests.world.slow_link import SlowLink, run

MISSING = "NO SITE BEHIND A SLOW LINK: it needs root, iproute2 and /dev/net/tun"
WITHIN_S = 900.0
PORT = 7445
STATE = """\
kind: Cluster
id: prod
spec: {{coordinators: ["https://{here}:{fleet}"]}}
---
{{kind: Organization, id: acme, spec: {{name: Acme}}}}
---
kind: DegradedModePolicy
id: base
spec: {{allow: [continue_services, reconnect_peers, validate_peers, report_degraded, use_storage_endpoints],
  allow_unconfirmed_start: true}}
---
kind: Config
id: big
spec:
  to: {{roles: [core_mesh]}}
  files: {{big.bin: {{file: big.bin}}}}
"""
NODE = "---\n{{kind: Node, id: {name}, spec: {{roles: [core_mesh], organizations: [acme], relay: {relay}}}}}\n"
PEERS = """
[peers]
listen = "{address}:{port}"
relay = {relay}
{more}
"""


def skip_unless_possible() -> None:
    if os.geteuid() == 0 and shutil.which("ip") is not None and Path("/dev/net/tun").exists():
        return
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(MISSING, stacklevel=1)
    pytest.skip(MISSING)


class SiteNode(Gateway):
    """A node whose agent runs in a namespace."""

    namespace = ""

    def start(self) -> None:
        words = ("--config", self.folder / "agent.toml")
        log, network = self.folder / "log", self.namespace
        self.process = programs.start("holdfast-agent", *words, folder=self.folder, log=log, network=network)
        self.until(self.answers)

    @property
    def held(self) -> bytes:
        """The file, as a program reads it."""
        try:
            return (self.folder / "run" / "active" / "config" / "big" / "big.bin").read_bytes()
        except OSError:
            return b""


@dataclass
class SiteLab:
    """`number`: of this process's own networks. `beside`: what is declared beside the nodes, as YAML documents."""

    folder: Path
    lab: Lab
    link: SlowLink
    number: int
    relays: Sequence[str]
    nodes: dict[str, SiteNode] = field(default_factory=dict)
    beside: str = ""

    def cut(self, *names: str) -> None:
        """From everything outside; nodes of the site reach each other."""
        for name in names:
            run("ip", "-n", self.nodes[name].namespace, "route", "replace", "blackhole", "default")

    def mend(self, *names: str) -> None:
        for name in names:
            inside = self.nodes[name].namespace
            run("ip", "-n", inside, "route", "del", "blackhole", "default")
            run("ip", "-n", inside, "route", "replace", "default", "via", f"198.18.{self.number}.254")

    def address(self, index: int) -> str:
        return f"198.18.{self.number}.{index + 1}"

    def declare(self, data: bytes) -> None:
        declared = self.lab.folder / "declared"
        declared.mkdir(exist_ok=True)
        (declared / "big.bin").write_bytes(data)
        nodes = "".join(NODE.format(name=name, relay=str(name in self.relays).lower()) for name in self.nodes)
        text = STATE.format(here=self.link.here, **self.lab.ports) + nodes + self.beside
        (declared / "site.yaml").write_text(text)
        self.lab.good("apply", "-f", declared, "--yes")

    def join(self, names: Sequence[str] = ()) -> None:
        """Members that hold each other's certificates, each in its namespace."""
        for name in names or self.nodes:
            node = self.nodes[name]
            self.lab.good("allow", "add", name)
            self.lab.good("tokens", "create", "--node", name, "--out", node.folder / "join.token")
            node.start()
        self.until(lambda: all(self.is_settled(self.nodes[name]) for name in names or self.nodes))
        self.until(lambda: not any(self.rests(node) for node in self.nodes.values()))

    def until_relayed(self) -> None:
        """Small changes, until each neighbour has one from a relay: who joined a moment ago may have been a stranger to
        it when it asked first, and leaves it alone for a while.
        """
        relays = {f"https://{self.address(list(self.nodes).index(name))}:{PORT}" for name in self.relays}
        numbers = itertools.count()

        def are_relayed() -> bool:
            data = b"small %d" % next(numbers)
            self.declare(data)
            self.until_held(data)
            neighbours = [node.status["origins"] for name, node in self.nodes.items() if name not in self.relays]
            return {origins["config/big"]["source"] for origins in neighbours} <= relays

        self.until(are_relayed)

    def rests(self, node: SiteNode) -> bool:
        """Whether it leaves a relay alone for a while: one that did not know it yet."""
        return any(row["relay"] and row["again_in_s"] for row in node.status["sources"])

    def is_settled(self, node: SiteNode) -> bool:
        status = node.status
        return status["state"] == "active" and not status["awaited"] and self.peers_of(node) == len(self.nodes) - 1

    def peers_of(self, node: SiteNode) -> int:
        """How many its directory names."""
        try:
            found = node.client.request("GET", "/v1/scopes/peer_directory").value["sections"]
        except NotFound:
            return 0
        return sum(len(part) for name, part in found.items() if name.startswith("peers"))

    def until_held(self, data: bytes, names: Sequence[str] = ()) -> dict[str, float]:
        """When each node had it, in seconds from now."""
        begun, at = time.monotonic(), dict[str, float]()

        def look() -> bool:
            for name in names or self.nodes:
                if name not in at and self.nodes[name].held == data:
                    at[name] = time.monotonic() - begun
            return len(at) == len(names or self.nodes)

        self.until(look)
        return at

    def until(self, holds: Callable[[], bool]) -> None:
        end, pause = time.monotonic() + WITHIN_S, pauses(0.1, 0.5)
        while not holds():
            dead = [node for node in self.nodes.values() if node.process and node.process.poll() is not None]
            assert not dead, dead[0].log()
            assert time.monotonic() < end, {name: node.log()[-4_000:] for name, node in self.nodes.items()}
            time.sleep(next(pause))


@contextmanager
def site(
    folder: Path, names: Sequence[str], relays: Sequence[str] = (), *, more: str = "", settings: str = UNGUARDED
) -> Iterator[SiteLab]:
    """`more`: lines of every node's `[peers]`. `settings`: the coordinator's, and tables behind them."""
    skip_unless_possible()
    folder.mkdir(exist_ok=True)
    number = os.getpid() % 200 + 20
    prefix = f"hf{number}"
    router = f"{prefix}r"
    with ExitStack() as stack:
        for name in [router, *(f"{prefix}n{index}" for index in range(len(names)))]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
            run("ip", "netns", "add", name)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
            run("ip", "-n", name, "link", "set", "lo", "up")
        link = stack.enter_context(SlowLink(prefix, f"198.19.{number}.1", f"198.19.{number}.2", router))
        _make_switch(router, number)
        for index in range(len(names)):
            _plug(router, f"{prefix}n{index}", number, index)
        run("ip", "route", "replace", f"198.18.{number}.0/24", "via", link.there)
        (folder / "coordinator").mkdir()
        everywhere = ("--listen", "0.0.0.0:0", "--listen-join", "0.0.0.0:0", "--host", link.here)
        lab = stack.enter_context(running(folder / "coordinator", *everywhere, settings=settings))
        made = SiteLab(folder, lab, link, number, relays)
        for index, name in enumerate(names):
            made.nodes[name] = node = SiteNode(folder / name, lab, node_id=name)
            node.namespace = f"{prefix}n{index}"
            _configure(made, node, index, is_relay=name in relays, more=more)
            stack.callback(node.kill)
        yield made


def _configure(made: SiteLab, node: SiteNode, index: int, *, is_relay: bool, more: str) -> None:
    file, address = node.folder / "agent.toml", made.address(index)
    text = file.read_text().replace("https://localhost:", f"https://{made.link.here}:")
    text = text.replace("heartbeat_interval_s = 5", "heartbeat_interval_s = 30")
    text = text.replace("[coordinator]", f'direct_url = "https://{address}:{PORT}"\n\n[coordinator]')
    file.write_text(text + PEERS.format(address=address, port=PORT, relay=str(is_relay).lower(), more=more))


def _make_switch(router: str, number: int) -> None:
    run("ip", "netns", "exec", router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "-n", router, "link", "add", "br0", "type", "bridge")
    run("ip", "-n", router, "address", "add", f"198.18.{number}.254/24", "dev", "br0")
    run("ip", "-n", router, "link", "set", "br0", "up")
    run("ip", "-n", router, "route", "add", "default", "via", f"198.19.{number}.1")


def _plug(router: str, namespace: str, number: int, index: int) -> None:
    port = f"p{index}"
    run("ip", "-n", router, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    run("ip", "-n", router, "link", "set", port, "master", "br0", "up")
    run("ip", "-n", namespace, "address", "add", f"198.18.{number}.{index + 1}/24", "dev", "eth0")
    run("ip", "-n", namespace, "link", "set", "eth0", "up")
    run("ip", "-n", namespace, "route", "add", "default", "via", f"198.18.{number}.254")

"""A cluster goes to a coordinator that has no part of its database: two daemons and their nodes as processes."""

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.citations import ROOT
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import FABRIC, Gateway, declare
from tests.journeys.test_restored_backup import until
from tests.journeys.test_revocation import may
from tests.world.ports import free_ports
from tests.world.programs import Ran


@pytest.fixture
def settings() -> str:
    return UNGUARDED


@pytest.fixture
def other(lab: Lab, tmp_path: Path) -> Iterator[Lab]:
    """The new machine: nothing is on it yet."""
    folder = tmp_path / "b"
    folder.mkdir()
    made = Lab(folder)
    yield made
    made.stop()


@pytest.fixture
def nodes(lab: Lab, tmp_path: Path) -> Iterator[dict[str, Gateway]]:
    made = {name: Gateway(tmp_path / name, lab, node_id=name) for name in ("gateway", "egress")}
    yield made
    for node in made.values():
        node.kill()


@dataclass
class Page:
    """The commands of "Move to other hardware" in operating.md, typed as they stand there, but for what is another in
    each cluster.
    """

    usb: Path
    roots: Path
    values: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        text = (
            (ROOT / "docs" / "operating.md")
            .read_text()
            .partition("### Move to other hardware")[2]
            .partition("\n### ")[0]
        )
        self.commands = [line.strip() for line in text.splitlines() if line.startswith("    ")]

    def typed(self, at: Lab, begin: str, *more: object) -> Ran:
        (command,) = (line for line in self.commands if line.startswith(begin))
        self.done.add(command)
        known = {"/media/usb/roots": str(self.roots), "/media/usb": str(self.usb), **self.values}
        known["https://coordinator-2.example:7443"] = "https://localhost:7443"
        for text, value in known.items():
            command = command.replace(text, value)
        return at.good(*shlex.split(command)[1:], *more)

    def export(self, lab: Lab, other: Lab) -> None:
        self.typed(other, "holdfastctl coordinators identity", "--state", "state")
        made = self.typed(lab, "holdfastctl export --to", "--configuration", lab.configuration, "--yes", "--json")
        self.values["CLUSTER_SHA256"] = json.loads(made.out)["sha256"]

    def bring_in(self, other: Lab) -> None:
        listen = [word for name, port in zip(("--listen", "--listen-join"), free_ports(2), strict=True)
                  for word in (name, f"127.0.0.1:{port}")]  # fmt: skip
        place = ("--state", "state", "--configuration", other.configuration, "--admin-socket", other.socket)
        made = self.typed(other, "holdfastctl import", *place, *listen, "--listen-probes", "127.0.0.1:0")
        assert "verified" in made.out and "epoch raise" in made.out
        with other.configuration.open("a") as configuration:
            configuration.write(f"\n[settings]\n{UNGUARDED}\n")

    def start(self, other: Lab) -> None:
        self.done.add("systemctl start holdfast-coordinator")
        other.start()

    def raise_epoch(self, other: Lab) -> None:
        self.typed(other, "holdfastctl epoch raise")
        self.typed(other, "holdfastctl trust sign", "--yes")
        self.typed(other, "holdfastctl trust import")

    def goes_over(self, node: Gateway, to: Lab) -> None:
        self.done.add("systemctl restart holdfast-agent")
        goes_over(node, to)


@pytest.fixture
def page(lab: Lab, tmp_path: Path) -> Page:
    return Page(tmp_path, lab.roots)


def goes_over(node: Gateway, to: Lab) -> None:
    """Its agent.toml names the other one, and it is started anew."""
    node.kill()
    node.lab = to
    path = node.folder / "agent.toml"
    lines = path.read_text().splitlines()
    ports = {"urls": to.ports["fleet"], "join_urls": to.ports["join"]}
    named = {f"{name} = ": f'{name} = ["https://localhost:{port}"]' for name, port in ports.items()}
    moved = (next((new for old, new in named.items() if line.startswith(old)), line) for line in lines)
    path.write_text("\n".join(moved))
    node.start()


def move_of(lab: Lab, within: str = "1d") -> dict:
    return json.loads(lab.ctl("coordinators", "status", "--within", within, "--json").out)["move"]


def test_a_cluster_goes_to_another_machine_node_by_node(lab: Lab, other: Lab, nodes: dict[str, Gateway], page: Page):
    """rules K24, K43: export, import, the epoch, both nodes one after the other, each daemon restarted in between, a
    revocation there in the middle; the first one takes no change, and says when nobody asks it any more
    """
    declare(lab, 8081)
    gateway, egress = nodes["gateway"], nodes["egress"]
    gateway.join(8081)
    egress.enrol()

    page.export(lab, other)
    refused = lab.ctl("allow", "add", "another")
    assert refused.status != 0 and "moved" in refused.err and "coordinator-2, https://localhost:7443" in refused.err
    assert "moved" in lab.ctl("tokens", "create").err
    page.bring_in(other)
    page.start(other)
    assert "came from coordinator-1" in other.ctl("status").out
    held = other.ctl("tokens", "create")
    assert held.status != 0 and "epoch raise" in held.err
    page.raise_epoch(other)

    # what is decided there reaches those that have gone over, and nobody else
    page.goes_over(gateway, other)
    declare_there(other, 8082)
    until(lambda: gateway.port() == 8082, gateway)
    assert gateway.status["head"]["authority_epoch"] == 2
    assert egress.status["state"] == "active" and egress.status["head"]["authority_epoch"] == 1
    other.good("revoke", "service", "web", "--reason", "in wrong hands", "--yes")
    until(lambda: may(gateway) == (False, "revoked"), gateway)
    assert may(egress)[1] != "revoked" and egress.status["state"] == "active"
    other.good("revoke", "restore", "service_ids", "web", "--yes")

    # restarts in the middle, of each
    lab.stop()
    lab.start()
    assert "moved" in lab.ctl("allow", "add", "another").err
    gateway.kill()
    gateway.start()
    until(lambda: gateway.port() == 8082 and gateway.status["state"] == "active", gateway)
    other.stop()
    other.start()
    until(lambda: egress.status["state"] == "active", egress)
    assert [each["node_id"] for each in move_of(other)["nodes"]] == ["egress"]

    # one that holds the new epoch refuses the first one, and keeps what it has
    goes_over(gateway, lab)
    until(lambda: move_of(lab)["ahead_at"] is not None, gateway)
    assert gateway.port() == 8082 and gateway.status["head"]["authority_epoch"] == 2
    cancelled = lab.ctl("export", "--cancel", "--yes", "--configuration", lab.configuration)
    assert cancelled.status != 0 and "has published since" in cancelled.err
    goes_over(gateway, other)

    # the last one; the first one ends
    goes_over(egress, other)
    until(lambda: egress.status["head"]["authority_epoch"] == 2 and egress.status["state"] == "active", egress)
    until(lambda: move_of(other)["count"] == 0, egress)
    until(lambda: move_of(lab, "1s")["count"] == 0, egress)
    assert "can be stopped for good" in page.typed(lab, "holdfastctl coordinators status", "--within", "1s").out
    lab.stop()
    page.typed(other, "holdfastctl coordinators remove", "--yes")
    assert set(page.commands) - page.done == {"holdfastctl export --cancel"}
    assert other.good("coordinators", "status", "--json").json["move"] is None
    assert "All of it is as it was linked" in other.good("audit", "verify").out
    declare_there(other, 8083)
    until(lambda: gateway.port() == 8083, gateway)


def declare_there(other: Lab, port: int) -> None:
    (other.folder / "fabric.yaml").write_text(FABRIC.format(port=port))
    other.good("apply", "-f", other.folder / "fabric.yaml", "--yes")


def test_both_used_by_mistake_the_first_one_stops(lab: Lab, other: Lab, nodes: dict[str, Gateway], page: Page):
    """rules K24, K41: it is cancelled here, and imported and published there all the same; a node that goes back shows
    it, and then nothing is signed here any more
    """
    declare(lab, 8081)
    gateway = nodes["gateway"]
    gateway.join(8081)
    page.export(lab, other)
    page.typed(lab, "holdfastctl export --cancel", "--yes", "--configuration", lab.configuration)
    declare(lab, 8082)
    until(lambda: gateway.port() == 8082, gateway)
    page.bring_in(other)
    page.start(other)
    page.raise_epoch(other)
    goes_over(gateway, other)
    until(lambda: gateway.status["head"]["authority_epoch"] == 2, gateway)
    goes_over(gateway, lab)
    until(lambda: "restored" in lab.good("status", "--json").json["restored_backup"], gateway)
    refused = lab.ctl("tokens", "create")
    assert refused.status != 0 and "epoch raise" in refused.err
    assert gateway.status["head"]["authority_epoch"] == 2

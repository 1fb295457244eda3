"""The coordinator moves, twice, to where its node's agent.toml never said that it is: both daemons as processes."""

import re

import pytest

from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import UNGUARDED, Lab, running
from tests.journeys.gateway import FABRIC, Gateway
from tests.world.ports import free_ports


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "coordinator"
    folder.mkdir()
    with running(folder, "--host", own_address(), settings=UNGUARDED) as lab:
        yield lab


def free_places(count):
    """Where nothing listens yet, as `host:port`: a signed list may not lead to a loopback (threats D-47)."""
    return [f"{own_address()}:{port}" for port in free_ports(count, own_address())]


def move(lab: Lab, place: str) -> None:
    lab.stop()
    text = re.sub(r'(?m)^fleet = ".*"', f'fleet = "{place}"', lab.configuration.read_text())
    lab.configuration.write_text(text)
    lab.start()


def declared(lab: Lab, port: int, *urls: str):
    listed = ", ".join(f'"{url}"' for url in urls)
    text = FABRIC.format(port=port).replace('"https://localhost:7443"', listed)
    (lab.folder / "fabric.yaml").write_text(text)
    return lab.folder / "fabric.yaml"


def declare(lab: Lab, port: int, *urls: str) -> None:
    lab.good("apply", "-f", declared(lab, port, *urls), "--yes")


def confirmed(lab: Lab, gateway: Gateway, port: int, *urls: str) -> None:
    """Declared as soon as the node has reported what it needs of these."""
    gateway.until(lambda: lab.ctl("apply", "-f", declared(lab, port, *urls), "--yes").status == 0)


def named(gateway: Gateway) -> dict[str, str]:
    return {row["url"]: row["named_by"] for row in gateway.status["sources"] if row["kind"] == "coordinator"}


def test_a_node_follows_its_coordinator(lab, gateway):
    """rules L15, P25, P16: without a word in agent.toml, over a restart in the middle, and by the old way while the new
    one does not answer; and the old endpoint is kept for the node until it has confirmed the new one
    """
    first, (second, third) = f"https://localhost:{lab.ports['fleet']}", free_places(2)
    declare(lab, 8081, first)
    gateway.start()
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.until(lambda: gateway.status["state"] == "active")

    gateway.kill()
    declare(lab, 8081, first, f"https://{second}")
    file = declared(lab, 8081, f"https://{second}")
    for how in ("--yes", "--dry-run"):
        early = lab.ctl("apply", "-f", file, how)
        assert early.status != 0
        assert "endpoint_in_use" in early.err
        assert "gateway" in early.err
    for shown in (lab.good("diff", "-f", file), lab.good("apply", "-f", file, "--dry-run", "--drop-endpoints")):
        assert "spec.coordinators" in shown.out
    gateway.start()
    gateway.until(lambda: f"https://{second}" in named(gateway))

    move(lab, second)
    declare(lab, 8082, first, f"https://{second}")
    gateway.until(lambda: gateway.port() == 8082, hinted=True)
    assert named(gateway) == {first: "agent.toml", f"https://{second}": "node_bootstrap"}

    confirmed(lab, gateway, 8083, f"https://{second}", f"https://{third}")
    confirmed(lab, gateway, 8083, f"https://{third}")
    gateway.until(lambda: named(gateway).get(f"https://{second}") == "earlier node_bootstrap")
    gateway.kill()
    gateway.start()
    declare(lab, 8084, f"https://{third}")
    gateway.until(lambda: gateway.port() == 8084)
    assert named(gateway)[f"https://{second}"] == "earlier node_bootstrap"

    move(lab, third)
    declare(lab, 8085, f"https://{third}")
    gateway.until(lambda: gateway.port() == 8085, hinted=True)
    gateway.until(lambda: f"https://{second}" not in named(gateway))
    assert named(gateway) == {first: "agent.toml", f"https://{third}": "node_bootstrap"}

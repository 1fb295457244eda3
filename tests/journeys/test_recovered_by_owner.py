"""All coordinators' secrets are lost, and a node goes on: both daemons as processes."""

import pytest

from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import Gateway
from tests.journeys.test_coordinators import declare


@pytest.fixture
def lab(tmp_path):
    folder = tmp_path / "coordinator"
    folder.mkdir()
    lab = Lab(folder)
    for name in ("alice", "bob"):
        lab.good("coordinators", "owner-key", "--out", f"{name}.key")
    owners = ("--seed-share-owner", "alice.pub", "--seed-share-owner", "bob.pub", "--shares-to", folder / "shares")
    lab.init("--host", own_address(), *owners)
    lab.start()
    try:
        yield lab
    finally:
        lab.stop()


def lose_secrets(lab: Lab) -> None:
    keys = lab.folder / "state/keys"
    for path in (keys / "seed", keys / "identity.pem", *keys.glob("config-*.pem")):
        path.unlink()


def test_a_node_keeps_its_configuration_and_gets_the_next_one(lab: Lab, gateway: Gateway) -> None:
    """rules H31, H51: without a touch, by a key that it learns of from root keys, under a higher epoch; and what its
    coordinator signed before is surpassed by that
    """
    url = f"https://localhost:{lab.ports['fleet']}"
    declare(lab, 8081, url)
    gateway.start()
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081)
    lab.stop()
    lose_secrets(lab)
    lab.start()
    assert "untrusted_history" in lab.ctl("coordinators", "status").out
    assert gateway.port() == 8081
    wanted = ("coordinators", "recover", "--share", "shares/bob.share", "--key", "bob.key", "--yes")
    lab.good(*wanted, "--request", "recover.json")
    lab.good("trust", "sign", "recover.json", "--root-key", lab.roots, "--yes")
    lab.good("coordinators", "commit", "recover.json")
    declare(lab, 8082, url)
    gateway.until(lambda: gateway.port() == 8082)
    gateway.until(lambda: gateway.status["state"] == "active")
    lab.good("coordinators", "status")
    assert lab.good("audit", "verify", "--json").json["good"]

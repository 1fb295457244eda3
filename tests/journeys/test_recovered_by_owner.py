"""All coordinators' secrets are lost, and a node goes on; all machines are lost, and new ones stand in their place."""

import shutil

import pytest

from tests.coordinator import postgresql
from tests.fakes.storage import own_address
from tests.holdfast.operator_lab import EVERYWHERE, Lab, declare_coordinators, introduce, prepared_of, second_of
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


@pytest.fixture
def database(tmp_path):
    with postgresql.or_skip(tmp_path, "owners", "THE LOSS OF ALL MACHINES IS NOT TRIED") as server:
        yield server.url.format("postgres")


def test_all_machines_are_gone_and_new_ones_are_prepared(tmp_path, database):
    """rules H31, H51, H2: under the name of a lost one, from the database, an owner's share and root keys alone; the CA
    that nodes believe follows from the seed. What comes after it gets everything from it.
    """
    first = Lab(tmp_path / "first")
    first.folder.mkdir()
    first.good("coordinators", "owner-key", "--out", tmp_path / "alice.key")
    owners = ("--seed-share-owner", tmp_path / "alice.pub", "--shares-to", tmp_path / "shares")
    first.init("--host", own_address(), "--database", database, *EVERYWHERE, *owners)
    first.start()
    second = second_of(first, tmp_path / "second", database, own_address())
    second.start()
    second.until_ready()
    ca = (first.folder / "state/tls/ca.pem").read_bytes()
    anew, _ = prepared_of(first, tmp_path / "anew", database, own_address(), "coordinator-1")
    shutil.move(first.roots, anew.roots)
    further, pin = prepared_of(first, tmp_path / "further", database, own_address())
    first.stop()
    second.stop()
    for lost in (first, second):
        shutil.rmtree(lost.folder)

    anew.start()
    try:
        assert anew.ctl("coordinators", "status").status != 0
        wanted = ("--share", tmp_path / "shares/alice.share", "--key", tmp_path / "alice.key", "--root-key", anew.roots)
        anew.good("coordinators", "recover", *wanted, "--yes")
        anew.until_ready()
        assert (anew.folder / "state/tls/ca.pem").read_bytes() == ca
        anew.good("tokens", "create", "--node", "node-b", "--json")
        declare_coordinators(anew, "coordinator-1", f"coordinator-2={pin}")
        introduce(anew, further)
        anew.stop()
        anew.start()
        further.start()
        further.until_ready()
        for lab in (anew, further):
            assert lab.good("audit", "verify", "--json").json["good"]
            lab.good("coordinators", "status")
    finally:
        anew.stop()
        further.stop()

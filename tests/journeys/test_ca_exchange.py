"""The coordinators' CA is exchanged under a node whose file nobody touches: daemons and commands as processes."""

import base64
import json
import shutil
from pathlib import Path

import pytest

from holdfast.ctl.socket import REFUSED
from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import Gateway, declare, until_published
from tests.journeys.test_restored_backup import database, put_back, readiness, until
from wire.certificate import fingerprint, pem_chain_to_der


@pytest.fixture
def settings() -> str:
    return UNGUARDED


@pytest.fixture
def gateway(lab: Lab, tmp_path: Path):
    """Its CA file is a copy, as on a machine of its own."""
    gateway = Gateway(tmp_path / "node", lab)
    shutil.copy(lab.folder / "state" / "tls" / "ca.pem", tmp_path / "node" / "ca.pem")
    text = (tmp_path / "node" / "agent.toml").read_text()
    text = text.replace(str(lab.folder / "state" / "tls" / "ca.pem"), str(tmp_path / "node" / "ca.pem"))
    (tmp_path / "node" / "agent.toml").write_text(text)
    yield gateway
    gateway.kill()


def ca(lab: Lab, *words: object):
    return lab.ctl("coordinators", "ca", *words)


def unconfirmed(lab: Lab) -> list[str]:
    return [each["node_id"] for each in json.loads(ca(lab, "status", "--json").out)["unconfirmed"]]


def use(lab: Lab, place: Path, *more: str) -> None:
    done = ca(lab, "use", "--ca", place, "--configuration", lab.configuration, *more)
    assert done.status == 0, done
    lab.reload()


def begin(lab: Lab, place: Path) -> None:
    done = ca(lab, "begin", "--to", place, "--yes")
    assert done.status == 0, done


def reaches(gateway: Gateway, lab: Lab, port: int) -> None:
    declare(lab, port)
    gateway.until(lambda: gateway.port() == port, hinted=True)
    gateway.until(lambda: gateway.status["state"] == "active", hinted=True)


def test_nobody_touches_the_node(lab: Lab, gateway: Gateway, tmp_path: Path):
    """rules K15, L15, S60, K41: away at the begin, back in the window; away for a whole one, and fed by files; and a
    database of before all of it, with a new epoch
    """
    declare(lab, 8081)
    gateway.join(8081)
    file = (tmp_path / "node" / "ca.pem").read_bytes()
    lab.stop()
    shutil.copy(database(lab), tmp_path / "copy.db")
    lab.start()

    # it is away when the exchange begins, and comes back before it is over
    gateway.kill()
    begin(lab, tmp_path / "second")
    refused = ca(lab, "use", "--ca", tmp_path / "second", "--configuration", lab.configuration)
    assert (refused.status, "gateway: holds no node_bootstrap" in refused.err) == (REFUSED, True)
    gateway.start()
    gateway.until(lambda: unconfirmed(lab) == [], hinted=True)
    assert "ca_in_use" in ca(lab, "finish", "--yes").err
    use(lab, tmp_path / "second")
    reaches(gateway, lab, 8082)
    lab.good("allow", "add", "newcomer", "--join-file", tmp_path / "newcomer.join")
    brought = json.loads((tmp_path / "newcomer.join").read_text())["ca"]
    assert len(pem_chain_to_der(base64.b64decode(brought))) == 2, "who joins now believes both"
    assert ca(lab, "finish", "--yes").status == 0
    reaches(gateway, lab, 8083)

    # it is away for a whole one
    gateway.kill()
    begin(lab, tmp_path / "third")
    use(lab, tmp_path / "third", "--despite-unconfirmed")
    done = ca(lab, "finish", "--yes")
    assert (done.status, "--despite-unconfirmed" in done.err) == (REFUSED, True)
    assert ca(lab, "finish", "--despite-unconfirmed", "--yes").status == 0
    declare(lab, 8084)
    gateway.start()
    gateway.until(lambda: gateway.status["sources"][0]["error"].startswith("unknown_ca"), hinted=True)
    assert gateway.port() == 8083
    until_published(lab)
    lab.good("publish", "--to", tmp_path / "tree")
    assert gateway.ask("import", *map(str, (tmp_path / "tree").glob("*/*.hfs"))).status == 0
    reaches(gateway, lab, 8085)

    # the database is one of before the first of them: the coordinator lists the CA that it shows by itself
    lab.stop()
    put_back(lab, tmp_path / "copy.db")
    lab.start()
    until(lambda: readiness(lab)[0] == 503, gateway)
    lab.good("epoch", "raise", "--root-key", lab.roots, "--yes")
    until(lambda: readiness(lab)[0] == 200, gateway)
    reaches(gateway, lab, 8086)
    (listed,) = json.loads(ca(lab, "status", "--json").out)["authorities"]
    third = (tmp_path / "third" / "ca.pem").read_bytes()
    assert listed["fingerprint"] == fingerprint(pem_chain_to_der(third)[0])
    assert (tmp_path / "node" / "ca.pem").read_bytes() == file

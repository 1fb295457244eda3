"""`holdfastctl explain gateway SCOPE` of a node that joined, took what was published, and reports it."""

import pytest

from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import Gateway, declare, until_published

SCOPE = "service_assignment/web"


@pytest.fixture
def settings() -> str:
    return UNGUARDED


@pytest.fixture
def node(lab: Lab, gateway: Gateway) -> Gateway:
    declare(lab, 8081)
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.start()
    gateway.until(lambda: gateway.status["state"] == "active")
    return gateway


def explained(lab: Lab, *more: str) -> dict:
    return lab.good("explain", "gateway", SCOPE, "--json", *more).json


def test_from_the_file_to_the_node_that_holds_it(lab: Lab, node: Gateway) -> None:
    node.until(lambda: explained(lab)["holders"]["standing"] == "same")
    told = explained(lab)
    held = node.ask("get", SCOPE, "--json").json
    (section,) = told["sections"]
    assert section["value"] == held["sections"][section["name"]]
    signer = told["published"]["signers"][0]
    assert (signer["key_id"], signer["status"]) == (lab.config_key(), "active")
    (entry,) = told["entries"]
    (source,) = entry["sources"]
    file, line = source["declared_in"].split(":")
    text = (lab.folder / file).read_text().splitlines()
    assert text[int(line) - 1 : int(line) + 1] == ["kind: Service", "id: web"]
    moved = lab.folder / file
    moved.write_text(f"# a line that moves all others\n{moved.read_text()}")
    assert "nothing to do" in lab.good("apply", "-f", file).out
    assert f"Service web ({file}:{int(line) + 1})" in lab.good("explain", "gateway", SCOPE).out
    value = lab.good("explain", "gateway", SCOPE, "--section", section["name"])
    assert value.json == section["value"]
    shown = lab.good("explain", "gateway", SCOPE, "-f", "fabric.yaml").out
    for word in (
        signer["key_id"],
        "holds it",
        "Service web (fabric.yaml:",
        "granted by the role ingress",
        "as declared",
    ):
        assert word in shown


def test_a_change_is_followed_to_the_node(lab: Lab, node: Gateway) -> None:
    node.until(lambda: explained(lab)["holders"]["standing"] == "same")
    before = explained(lab)
    node.kill()
    declare(lab, 8082)
    until_published(lab)
    told = explained(lab)
    assert told["published"]["config_version"] > before["published"]["config_version"]
    assert told["holders"]["standing"] == "behind"
    assert told["holders"]["reported"]["active"]["content_hash"] == before["published"]["content_hash"]
    node.start()
    node.until(lambda: explained(lab)["holders"]["standing"] == "same")

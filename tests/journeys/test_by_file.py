"""The air gap of docs/operating.md: what is published travels as files, and a node without a network takes them."""

import hashlib
from pathlib import Path

import pytest

from tests.holdfast.operator_lab import UNGUARDED, Lab
from tests.journeys.gateway import Gateway, declare, until_published


@pytest.fixture
def settings() -> str:
    return UNGUARDED


def carried(lab: Lab) -> Path:
    """All that is published, as `holdfastctl publish` writes it once nothing is left to publish."""
    tree = lab.folder / "tree"
    tree.mkdir()
    until_published(lab)
    lab.good("publish", "--to", tree)
    return tree


def test_a_node_without_a_network_is_fed_by_files(lab: Lab, gateway: Gateway):
    """rules S60, S64: bundles, the head, then all documents; those of others do no harm"""
    declare(lab, 8081)
    gateway.join(8081)
    gateway.kill()
    declare(lab, 8082)
    tree = carried(lab)
    lab.stop()

    gateway.start()
    assert gateway.port() == 8081
    documents = sorted((tree / "documents").glob("*.hfs"))
    early = [gateway.ask("import", str(file)).status for file in documents]
    assert gateway.port() == 8081, "its head does not list what is new"
    head = tree / "heads" / f"{hashlib.sha256(b'gateway').hexdigest()}.hfs"
    assert gateway.ask("import", str(head)).status == 0
    again = [gateway.ask("import", str(file)).status for file in documents]
    assert again.count(0) > early.count(0)
    gateway.until(lambda: gateway.port() == 8082)
    gateway.until(lambda: gateway.status["state"] == "active")
    assert gateway.status["awaited"] == {}


def test_the_whole_tree_is_handed_in_at_once(lab: Lab, gateway: Gateway):
    """rules S60, S64, A7: also that of other nodes, and in whatever order the shell gives the names"""
    declare(lab, 8081)
    lab.good("allow", "add", "other")
    gateway.join(8081)
    gateway.kill()
    declare(lab, 8082)
    tree = carried(lab)
    lab.stop()

    gateway.start()
    done = gateway.ask("import", *map(str, tree.glob("*/*.hfs")))
    assert done.status == 0, done
    gateway.until(lambda: gateway.port() == 8082)
    assert gateway.status["state"] == "active"
    assert gateway.status["awaited"] == {}
    assert not any(scope["last_rejected"] for scope in gateway.status["scopes"].values())

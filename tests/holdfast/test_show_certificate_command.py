"""`holdfast show-certificate`, as a process of its own: without network, without an agent."""

import json

import pytest

from tests.store.cluster import NOW, Cluster, Node
from tests.world import programs
from wire.certificate import make_identity


@pytest.fixture
def node(tmp_path):
    """A disk on which an agent has been."""
    made = Node(tmp_path / "root", Cluster())
    made.open()
    yield made
    made.close()


def shown(node, *arguments):
    return programs.run("holdfast", "show-certificate", "--root", node.path, *arguments, folder=node.path)


def place(node, name, pair, *, with_key=True):
    file = node.store.paths.identity / name
    file.touch(mode=0o600)
    file.write_bytes((pair.key_pem if with_key else b"") + pair.certificate_pem)
    return file


def test_the_certificate_is_shown_without_network_or_agent_and_its_key_never(node):
    """rules K11, P15: also while an agent holds the root; and where a joined one renews, the one that it is known by"""
    pair, other = make_identity("node-1", NOW, direct_host="node-1.example"), make_identity("node-1", NOW)
    none = shown(node)
    assert (none.status, none.out) == (4, "")
    assert "holdfast join" in none.err
    place(node, "node-next.pem", other, with_key=False)
    candidate = json.loads(shown(node, "--json").out)
    assert (candidate["certificate"].encode(), candidate["admitted"]) == (other.certificate_pem, False)
    file = place(node, "node.pem", pair)
    told = shown(node, "--json")
    found = json.loads(told.out)
    assert (told.status, told.err) == (0, "")
    assert found["certificate"].encode() == pair.certificate_pem
    assert (found["names"], found["admitted"], found["file"]) == (["node-1", "node-1.example"], True, str(file))
    words = shown(node)
    assert f"fingerprint  {found['fingerprint']}" in words.out
    assert pair.certificate_pem.decode() in words.out
    assert "PRIVATE" not in told.out + words.out


def test_a_root_that_cannot_be_read_is_said(node):
    node.path.chmod(0o755)
    open_to_all = shown(node)
    assert (open_to_all.status, open_to_all.out) == (2, "")
    assert "bad_permissions" in open_to_all.err
    node.path.chmod(0o700)
    assert shown(node, "--cluster", "other").status == 2

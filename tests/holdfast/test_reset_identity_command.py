"""`holdfast store reset-identity`, as a process of its own."""

import json

import pytest

from agent.state.health_rows import REVOKED_ROW
from store.base.enrolment import Enrolment
from store.base.tables import Name
from tests.store.cluster import NOW, SCOPE, Cluster, Node
from tests.world import programs
from wire.certificate import make_identity


@pytest.fixture
def node(tmp_path):
    """A member's disk; its agent runs until the test closes it."""
    fresh = Node(tmp_path / "root", Cluster())
    fresh.open()
    fresh.store.enrol(Enrolment("blue", "node-1", {"root": ""}, 1, 1, 1, int(NOW) - 9, "configuration", int(NOW)))
    pair = make_identity("node-1", NOW)
    fresh.store.paths.identity_file.touch(mode=0o600)
    fresh.store.paths.identity_file.write_bytes(pair.key_pem + pair.certificate_pem)
    fresh.apply(fresh.cluster.bundle())
    fresh.apply(fresh.cluster.snapshot(1, {"a": 1}))
    fresh.key = fresh.store.paths.identity_file
    yield fresh
    fresh.close()


def ran(node, *arguments, typed=""):
    command = "store", "reset-identity", "--root", node.path, *arguments
    return programs.run("holdfast", *command, folder=node.path, stdin=typed)


def test_it_says_what_is_lost_and_kept_and_asks(node):
    """rules L13"""
    node.close()
    done = ran(node, typed="node-1\n")
    assert (done.status, done.err) == (0, "")
    for words in ("lost  private key and certificate sha256:", f"lost  what is active: {SCOPE};", "kept  pinned root"):
        assert words in done.out
    assert "holdfastctl tokens create --node node-1" in done.out
    assert not node.key.exists()
    node.open()
    assert node.store.active(SCOPE) is None
    assert node.store.floors.scopes[SCOPE].order == (1, 1)
    assert node.store.enrolment.node_id == "node-1"
    node.close()
    again = ran(node, "--yes", "node-1")
    assert again.status == 0
    assert "no identity is left" in again.out


def test_scripts_are_told_what_has_ended(node):
    """The question goes where the answer does not"""
    node.close()
    done = ran(node, "--json", typed="node-1\n")
    told = json.loads(done.out)
    assert (done.status, told["reset"], told["node_id"], told["scopes"]) == (0, True, "node-1", [SCOPE])
    assert told["certificate_sha256"].startswith("sha256:")
    assert "Type the node id" in done.err
    again = json.loads(ran(node, "--json").out)
    assert (again["reset"], again["node_id"], again["scopes"]) == (False, "node-1", [])


@pytest.mark.parametrize(("arguments", "typed"), [((), "node-2\n"), ((), "y\n"), ((), ""), (("--yes", "node-2"), "")])
def test_what_is_not_confirmed_changes_nothing(node, arguments, typed):
    """rules L13"""
    node.close()
    done = ran(node, *arguments, typed=typed)
    assert done.status == 1
    assert "nothing was changed" in done.err
    assert node.key.exists()
    node.open()
    assert node.store.active(SCOPE) is not None


def test_not_while_the_agent_runs(node):
    """rules L13, L25"""
    done = ran(node, "--yes", "node-1")
    assert done.status == 2
    assert "store_locked" in done.err
    assert "systemctl stop holdfast-agent" in done.err
    assert node.key.exists()
    node.close()
    assert ran(node, "--yes", "node-1").status == 0


def test_a_revoked_node_is_told_what_comes_first(node):
    """rules A9"""
    node.store.table(Name.HEALTH).put(REVOKED_ROW, {"at": int(NOW)})
    node.close()
    done = ran(node, "--yes", "node-1")
    assert "(revoked)" in done.out
    assert "nodes readmit node-1; the next trust bundle" in done.out


def test_a_fence_ends_with_the_identity_that_was_fenced(node):
    """rules A9, J40"""
    node.close()
    assert ran(node, "--yes", "node-1").status == 0
    node.open()


def test_a_key_that_is_a_credential_stays_where_it_is(node):
    """rules L40"""
    node.key.write_bytes(make_identity("node-1", NOW).certificate_pem)
    node.close()
    done = ran(node, "--yes", "node-1")
    assert done.status == 0
    assert "its private key is a credential" in done.out
    assert "another key into the credential holdfast.node-key" in done.out


def test_a_certificate_that_cannot_be_read_is_reset_too(node):
    """A damaged file keeps the agent out; the enrolment says whose it was."""
    node.key.write_bytes(b"rubbish")
    node.close()
    done = ran(node, "--yes", "node-1")
    assert (done.status, "certificate unreadable" in done.out) == (0, True)
    assert not node.key.exists()


def test_a_candidate_that_was_never_admitted_goes_too(tmp_path):
    """rules L13, A2: no roots were pinned yet; its certificate says whose it is"""
    fresh = Node(tmp_path / "root", Cluster())
    fresh.open()
    pair = make_identity("node-1", NOW)
    candidate = fresh.store.paths.identity / "node-next.pem"
    candidate.touch(mode=0o600)
    candidate.write_bytes(pair.key_pem + pair.certificate_pem)
    fresh.close()
    done = ran(fresh, "--yes", "node-1")
    assert (done.status, done.err) == (0, "")
    assert "none were pinned" in done.out
    assert not candidate.exists()

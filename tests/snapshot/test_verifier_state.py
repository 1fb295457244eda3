"""What a reader knows is given, and does not change under the verifier."""

import dataclasses

import pytest

from snapshot.limits import DEFAULT
from snapshot.manifest import Revocations
from snapshot.verifier_state import Mark, VerifierState
from tests.fakes.cluster import Cluster


def test_a_mark_compares_by_epoch_then_version():
    """threats D-15: the hash is no part of the order."""
    marks = [Mark(10, 1, "a"), Mark(2, 2, "y"), Mark(1, 9, "z"), Mark(2, 1, "x")]
    assert [one.content_hash for one in sorted(marks, key=lambda one: one.version)] == ["z", "x", "y", "a"]
    assert Mark(1, 1, "a").version == Mark(1, 1, "b").version


def test_a_new_node_knows_nobody():
    """rules S35: no bundle, no roots, no roles, no marks."""
    new = VerifierState("raven-1", "node-a")
    assert (new.bundle, new.roots, new.roles, new.organization_ids) == (None, None, frozenset(), frozenset())
    assert (new.marks, new.active, new.recoveries, new.used_nonces) == ({}, {}, (), frozenset())
    assert (new.revocations, new.limits, new.clock_synchronised) == (Revocations(), DEFAULT, True)


def test_two_new_nodes_share_nothing():
    """rules L6: not even an empty mapping."""
    one, other = VerifierState("raven-1", "node-a"), VerifierState("raven-2", "node-a")
    assert one.marks is not other.marks
    assert one.active is not other.active


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(VerifierState)])
def test_a_holder_is_frozen(name):
    """rules S53"""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(VerifierState("raven-1", "node-a"), name, None)


def test_a_held_document_is_what_was_verified():
    """rules S81: what an increment starts from, by the names that the format gives it."""
    cluster = Cluster()
    node = cluster.node("core_mesh")
    taken = node.take(cluster.snapshot({"a": {"x": 1}}))
    held = node.holder.active["route_policy"]
    assert (held.envelope, held.content_hash, held.sections) == (taken.envelope, taken.content_hash, taken.state)
    assert held.read("a") == b'{"x":1}'
    with pytest.raises(LookupError):
        held.read("b")

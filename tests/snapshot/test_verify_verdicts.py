"""What the verifier says and hands on, beside its refusals; and how it fails when it fails itself."""

import hashlib
import json
from dataclasses import dataclass, replace

import pytest

from snapshot.container import ChunkParts, Opening
from snapshot.reasons import Reason, Rejected
from snapshot.verify import STEPS, AlreadyApplied, Verified, judge_opening, signed_sizes, verify
from tests.fakes.cluster import NOW, Cluster, key
from tests.fakes.damage import flipped
from tests.fakes.node import Held


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def node(cluster):
    return cluster.node("core_mesh")


def opening(document):
    return Opening(document.envelope_bytes, document.signatures)


def test_the_steps_are_the_formats():
    """rules S41..S52: twelve, in their order, each named as the statement that must be true."""
    assert [number for number, _ in STEPS] == list(range(1, 13))
    assert len({holds.__name__ for _, holds in STEPS}) == 12


def test_a_verified_is_made_by_verify_alone():
    with pytest.raises(TypeError, match="only"):
        Verified()


def test_what_a_verified_says(cluster, node):
    """rules S7, S66, S71: all that a store keeps, verbatim."""
    document = cluster.snapshot({"b": 1, "a": 2}, "route_policy/x,y", keys=[key("config-1"), key("config-2")])
    taken = node.take(document)
    assert (taken.kind, taken.scope) == ("snapshot", "route_policy/x,y")
    assert taken.envelope == document.envelope
    assert taken.envelope_bytes == document.envelope_bytes
    assert taken.envelope_hash == "sha256:" + hashlib.sha256(document.envelope_bytes).hexdigest()
    assert taken.signatures == document.signatures
    assert taken.manifest_bytes == taken.state_bytes == document.manifest_bytes
    assert list(taken.state) == ["a", "b"]
    assert taken.content_hash == taken.mark.content_hash == document.envelope.content_hash
    assert taken.mark.version == (1, 1)
    assert set(taken.signers) == {key("config-1").key_id, key("config-2").key_id}
    assert taken.judged_at == NOW
    assert (taken.recovery, taken.bundle, taken.head) == (None, None, None)
    assert "route_policy/x,y" in repr(taken)


def test_what_a_heads_verdict_says(cluster, node):
    """rules S86: each scope's epoch, version, hash and id, for what arrives to be held against."""
    one = node.take(cluster.snapshot(scope="route_policy/a"))
    said = node.take(cluster.head())
    listed = said.head.scopes["route_policy/a"]
    assert (listed.authority_epoch, listed.config_version, listed.content_hash) == one.mark
    assert (said.scope, said.head.generation, said.head.poll_after_s) == ("head", 1, 15)
    assert said.mark.config_version == 1


def test_what_an_already_applied_says(cluster, node):
    document = cluster.snapshot()
    node.take(document)
    assert node.judge(document) == AlreadyApplied(document.envelope, node.holder.marks["route_policy"])


@pytest.mark.parametrize("kind", ["snapshot", "increment", "head", "recovery", "trust_bundle"])
def test_a_check_changes_nothing(cluster, node, kind):
    """rules S53, S54: a good document judged twice gives the same, and a holder cannot be changed at all."""
    base = cluster.snapshot()
    node.take(base)
    make = {
        "increment": lambda: cluster.increment(sets={"a": 1}),
        "recovery": lambda: cluster.recovery(base, from_version=2),
    }
    document = make.get(kind, getattr(cluster, kind))()
    first, second = node.judge(document), node.judge(document)
    assert vars(first) == vars(second)
    with pytest.raises(AttributeError):
        node.holder.bundle = None


def test_without_keep(cluster, node):
    document = cluster.snapshot({"a": 1})
    assert isinstance(verify(ChunkParts(document.chunks()), node.holder, kind="snapshot", now=NOW), Verified)


# The opening alone


def test_an_opening_that_is_worth_fetching_for(cluster, node):
    """rules S54: steps 1..5; what comes after them is not said yet."""
    document = cluster.snapshot(refresh_after=NOW, expires_at=NOW)
    assert judge_opening(opening(document), node.holder, kind="snapshot", now=NOW) == document.envelope


OPENINGS = {
    "envelope": ({"extra": 1}, 1, Reason.BAD_ENVELOPE),
    "cluster": ({"cluster_id": "raven-2"}, 2, Reason.WRONG_CLUSTER),
    "node": ({"subject_node_id": "node-b"}, 3, Reason.WRONG_NODE),
    "key": ({"signer_key_id": key("other").key_id}, 4, Reason.UNKNOWN_KEY),
    "signature": ({"keys": [key("other")]}, 5, Reason.BAD_SIGNATURE),
}


@pytest.mark.parametrize(("members", "step", "reason"), OPENINGS.values(), ids=OPENINGS)
def test_an_opening_that_is_refused(cluster, node, members, step, reason):
    """rules S41..S45: the same verdict as that on the whole document."""
    document = cluster.forge(cluster.snapshot(), **members)
    with pytest.raises(Rejected) as refused:
        judge_opening(opening(document), node.holder, kind="snapshot", now=NOW)
    assert (refused.value.step, refused.value.reason) == (step, reason) == node.refusal(document)


def test_sizes_by_the_signed_manifest(cluster, node):
    """rules S67; format.md 7, step 6: what a download is held against."""
    document = cluster.snapshot({"b": "xy", "a": 1})
    judged = judge_opening(opening(document), node.holder, kind="snapshot", now=NOW)
    assert signed_sizes(judged, document.manifest_bytes, node.holder) == [1, 4]
    with pytest.raises(Rejected) as refused:
        signed_sizes(judged, flipped(document.manifest_bytes), node.holder)
    assert (refused.value.step, refused.value.reason) == (6, Reason.CONTENT_MISMATCH)


def test_sizes_of_an_increment_are_those_of_what_it_brings(cluster, node):
    """format.md 5: a patch has its own size, what is removed has none."""
    node.take(cluster.snapshot({"a": {"x": 1}, "b": 2}))
    document = cluster.increment(sets={"c": 1}, patches={"a": [{"op": "remove", "path": "/x"}]}, removes=["b"])
    sizes = signed_sizes(document.envelope, document.manifest_bytes, node.holder)
    assert sizes == [len(document.sections[0]), 1] == list(map(len, document.sections))


# What goes wrong on our side


@dataclass(frozen=True)
class Broken(Held):
    """A base whose bytes cannot be had."""

    fault: type[Exception] = Exception

    def read(self, name):
        raise self.fault


@pytest.mark.parametrize("fault", [RecursionError, MemoryError, KeyError, ValueError, AssertionError, OverflowError])
def test_a_fault_of_ours_is_a_refusal(cluster, node, fault):
    """threats D-57, E25; format.md 7: with the step that it happened in, and the next good one goes through."""
    node.take(cluster.snapshot({"a": {"x": 1}}))
    document = cluster.increment(patches={"a": [{"op": "remove", "path": "/x"}]})
    whole = node.holder
    broken = Broken(**vars(whole.active["route_policy"]), fault=fault)
    node.holder = replace(whole, active=whole.active | {"route_policy": broken})
    assert node.refusal(document) == (6, Reason.VERIFIER_FAULT)
    node.holder = whole
    node.take(document)


def test_what_a_disk_says_is_no_verdict_on_a_document(cluster, node):
    """rules L35: a full disk is the caller's to handle; no document is blamed for it."""

    def full(name, data):
        raise OSError(28, "No space left on device")

    parts = ChunkParts(cluster.snapshot({"a": 1}).chunks())
    with pytest.raises(OSError, match="space"):
        verify(parts, node.holder, kind="snapshot", now=NOW, keep=full)


# What is said of a refusal


@pytest.mark.parametrize("name", ["a\n\x1b[31mroot", "x" * 5000, "\u202e\u200b", "\ud800"])
def test_what_is_said_is_bounded_and_harmless(cluster, node, name):
    """rules S54; threats D-59: one line of printable ASCII, however the claim looks."""
    bad = cluster.forge(cluster.snapshot(), envelope=cluster.snapshot().envelope_bytes[:-1]
                        + b',"%s":1}' % json.dumps(name)[1:-1].encode())  # fmt: skip
    also = cluster.forge(cluster.snapshot(), scope_type="weather_policy", snapshot_id="s")
    for document in (bad, also):
        with pytest.raises(Rejected) as refused:
            node.judge(document)
        for text in (refused.value.detail, refused.value.expected, refused.value.found, refused.value.where):
            assert text.isprintable()
            assert text.isascii()
            assert len(text) <= 256

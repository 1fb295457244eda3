"""threats D-44; rules S53, S54, X16"""

import pytest

from snapshot.container import Opening
from snapshot.reasons import Rejected
from store.base.records import Rejection
from store.base.rejections import EVIDENCE_RING, RING
from tests.store.cluster import NOW, SCOPE


def refusal(number, scope=SCOPE, **changes):
    return Rejection(NOW + number, scope, "bad_signature", 5, authenticated=False, config_version=number, **changes)


def test_a_ring_of_32(node):
    """threats D-44"""
    for number in range(RING + 10):
        node.store.rejections.record(refusal(number))
    node.reopen()
    ring = node.store.rejections.ring()
    assert [one.config_version for one in ring] == list(range(10, RING + 10))
    assert node.store.rejections.last(SCOPE) == ring[-1]
    assert node.store.rejections.last("qos_policy") is None


def test_a_held_scope_keeps_its_last(node, cluster):
    """rules S66: beyond the ring"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    node.store.rejections.record(refusal(7))
    for number in range(RING + 1):
        node.store.rejections.record(refusal(number, scope="qos_policy"))
    assert node.store.rejections.last(SCOPE).config_version == 7


def test_a_refusal_touches_nothing_else(node, cluster):
    """rules S53, S54"""
    node.apply(cluster.snapshot(1, {"a": 1}))

    def state():
        with node.store._environment.read() as transaction:
            kept = {name: dict(transaction.items(name)) for name in ("scopes", "snapshots", "trust", "sections")}
        floors = {path.name: path.read_bytes() for path in node.store.paths.floors.iterdir()}
        return kept, floors

    before = state()
    slot = node.download(cluster.snapshot(2, {"password": {"password": "raw"}}))
    with pytest.raises(Rejected) as caught:
        node.judge(slot, "snapshot")
    slot.drop()
    node.store.rejections.record(refusal(2, detail=caught.value.detail))
    node.store.garbage.run()
    assert state() == before
    assert node.store.journal.events()[-1].event == "rejected"
    node.apply(cluster.snapshot(2, {"a": 2}))


def test_text_is_bounded(node):
    """threats D-59"""
    node.store.rejections.record(refusal(1, detail="\n" * 1000, source="s" * 1000))
    kept = node.store.rejections.ring()[0]
    assert len(kept.detail) <= 256
    assert len(kept.source) <= 256


def test_equivocation_keeps_both_bounded(node, cluster):
    """rules X16; threats V05"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    accepted = node.store.active(SCOPE)
    for number in range(EVIDENCE_RING + 3):
        other = cluster.snapshot(1, {"a": number + 2})
        slot = node.download(other)
        with pytest.raises(Rejected) as caught:
            node.judge(slot, "snapshot")
        assert caught.value.reason == "version_conflict"
        parts = slot.parts()
        node.store.rejections.keep_evidence(SCOPE, parts.opening(), parts.manifest(), NOW + number)
        slot.drop()
    kept = node.store.rejections.evidence()
    assert len(kept) == EVIDENCE_RING
    assert {one.accepted for one in kept} == {accepted.envelope_bytes}
    assert (other.envelope_bytes, other.manifest_bytes) in {(one.refused, one.refused_manifest) for one in kept}
    assert node.store.journal.events()[-1].event == "version_conflict"
    assert node.contents() == {"a": b"1"}


def test_evidence_of_a_scope_that_is_not_held(node):
    node.store.rejections.keep_evidence("qos_policy", Opening(b"{}", ()), b"{}", NOW)
    assert node.store.rejections.evidence()[0].accepted == b""


def test_since_when_a_content_is_refused(node, cluster):
    """Under later versions, too, as long as the same one runs; what was taken meanwhile begins it anew."""
    node.apply(cluster.snapshot(1, {"a": 1}))
    refused = {"content_hash": "sha256:" + "ab" * 32}
    node.store.rejections.record(refusal(7, **refused))
    node.apply(cluster.snapshot(8, {"a": 1}))
    node.store.rejections.record(refusal(9, **refused))
    assert (node.store.rejections.last(SCOPE).at, node.store.rejections.last(SCOPE).since) == (NOW + 9, NOW + 7)
    node.store.rejections.record(refusal(10, content_hash="sha256:" + "cd" * 32))
    node.store.rejections.record(refusal(11, **refused))
    assert node.store.rejections.last(SCOPE).since == NOW + 11
    node.apply(cluster.snapshot(12, {"a": 2}))
    node.store.rejections.record(refusal(13, **refused))
    assert node.store.rejections.last(SCOPE).since == NOW + 13
    node.store.rejections.record(refusal(14))
    node.store.rejections.record(refusal(15))
    assert node.store.rejections.last(SCOPE).since == NOW + 15  # of what it was nothing is known

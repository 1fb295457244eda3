"""rules L36"""

from store.base import blobs
from tests.store.cluster import BOOT, NOW, SCOPE


def blob_count(node):
    with node.store._environment.read() as transaction:
        return sum(1 for _ in blobs.digests(transaction))


def test_it_keeps_active_previous_and_pending(node, cluster):
    """rules L36"""
    for version in (1, 2, 3):
        node.apply(cluster.snapshot(version, {"a": version, "b": "same"}))
    slot = node.download(cluster.snapshot(4, {"a": 4, "c": "new"}))
    node.store.garbage.run()
    with node.store.read() as reading:
        for held in (reading.active(SCOPE), reading.previous(SCOPE)):
            assert all(held.read(name) for name in held.sections)
    node.store.activate(node.judge(slot, "snapshot"), now=NOW, boot=BOOT)
    assert node.contents() == {"a": b"4", "c": b'"new"'}


def test_nothing_else_stays(node, cluster):
    node.store.garbage.run()
    before = blob_count(node)
    for version in range(1, 8):
        node.apply(cluster.snapshot(version, {"a": version}))
    node.store.withdraw(SCOPE, now=NOW)
    node.store.set(b"referred to by nobody")
    node.store.garbage.run()
    assert blob_count(node) == before
    with node.store._environment.read() as transaction:
        assert transaction.count("snapshots") == 1
    assert node.store.garbage.run().removed == 0


def test_each_step_is_bounded(node):
    """rules L36"""
    node.store.garbage.run()
    for number in range(50):
        node.store.set(b"garbage %d" % number)
    removed = []
    while not (step := node.store.garbage.step(most=7)).done:
        removed.append(step.removed)
    assert max(removed) <= 7
    assert sum(removed) + step.removed == 50


def test_what_is_put_while_it_runs_is_spared(node, cluster):
    """rules L36: also a blob that was garbage when the cycle began"""
    again = cluster.snapshot(1, {"a": "again"})
    node.store.set(again.sections[0])
    for number in range(30):
        node.store.set(b"garbage %d" % number)
    node.store.garbage.step(most=1)
    node.apply(again)
    while not node.store.garbage.step(most=1).done:
        pass
    assert node.contents() == {"a": b'"again"'}


def test_a_document_that_cannot_be_read_stops_the_sweep(node, cluster):
    node.apply(cluster.snapshot(1, {"a": 1}))
    held = node.store.active(SCOPE)
    with node.store._environment.write() as transaction:
        transaction.put("sections", held.record.state, b"damaged")
    node.store.set(b"garbage")
    assert node.store.garbage.run().removed == 0
    node.store.fall_back(SCOPE, now=NOW, cause="test")
    assert node.store.garbage.run().removed > 0


def test_blobs_in_chunks_go_whole(node):
    node.store.garbage.run()
    node.store.set(b"x" * (3 * blobs.CHUNK_BYTES + 1))
    assert node.store.garbage.run().removed == 1
    with node.store._environment.read() as transaction:
        assert not blobs.has(transaction, blobs.digest_of(b"x" * (3 * blobs.CHUNK_BYTES + 1)))

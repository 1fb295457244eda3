"""The pending slot: rules S66, L39, X26."""

import tracemalloc

import pytest

from coordinator.keys import signer
from snapshot.container import ManifestRead, Opening, SectionRead
from snapshot.identifiers import HEAD
from snapshot.limits import Limits
from snapshot.manifest import SectionChange
from snapshot.reasons import Reason, Rejected
from snapshot.verify import NotYetValid, Verified
from store.base import pending
from store.base.errors import StoreError, StoreFault
from store.base.pending import FLUSH_BYTES, SECTIONS_AT_ONCE, TOGETHER_BYTES
from tests.store.cluster import BOOT, DAY, NOW, SCOPE, Node
from tests.store.dying import FailingDisk


def test_the_document_comes_back_as_it_came(node, cluster):
    """rules S7, S13: to who asks first as it came, then from the disk."""
    document = cluster.snapshot(1, {"a": 1, "b": {"c": [2]}})
    slot = node.download(document)
    for parts in (slot.parts(), slot.parts(), node.store.slot(SCOPE, slot.envelope_hash).parts()):
        assert parts.opening() == Opening(document.envelope_bytes, document.signatures)
        assert parts.manifest() == document.manifest_bytes
        assert tuple(parts.sections([len(data) for data in document.sections])) == document.sections


def test_what_is_judged_from_memory_lies_on_the_disk(node, cluster):
    """rules L39: it is durable before anybody judges it, and a document of several batches is not kept in memory."""
    small = cluster.snapshot(1, {"a": 1})
    slot = node.download(small)
    (held,) = node.store.pending()
    assert (held.sealed, held.envelope_hash) == (True, slot.envelope_hash)
    assert slot.parts()._at_hand is not None
    large = cluster.snapshot(2, {f"s{index}": "x" * 1_000_000 for index in range(FLUSH_BYTES // 1_000_000 + 1)})
    parts = node.download(large).parts()
    assert parts._at_hand is None
    assert tuple(parts.sections([len(data) for data in large.sections])) == large.sections


def test_a_head_becomes_durable_with_the_slot_that_follows(node, cluster):
    """rules S66, L39, X17: in one commit with it, and is judged before"""
    before = node.store.commit_number
    head = node.verified(cluster.head(1))
    assert (node.store.pending(), node.store.commit_number) == ([], before)
    document = node.verified(cluster.snapshot(1, {"a": 1}))
    assert {held.scope for held in node.store.pending() if held.sealed} == {HEAD, SCOPE}
    assert node.store.commit_number == before + 1
    node.store.activate(head, document, now=NOW, boot=BOOT)
    assert node.store.commit_number == before + 2
    assert node.store.pending() == []


def test_a_head_alone_becomes_durable_as_it_is_activated(node, cluster):
    """rules S66, L32: before the floors name it; or as soon as it is judged again"""
    before = node.store.commit_number
    node.apply(cluster.head(1))
    assert node.store.commit_number == before + 2
    assert node.store.active(HEAD).version == (1, 1)
    slot = node.download(cluster.head(2))
    assert slot.parts().opening() == slot.parts().opening()
    assert node.store.slot(HEAD, slot.envelope_hash) is not None


def test_a_head_that_is_not_taken_leaves_nothing(node, cluster):
    """rules L39, S53: nor does the slot that follows bring it"""
    node.download(cluster.head(1)).drop()
    node.download(cluster.snapshot(1, {"a": 1}))
    assert [held.scope for held in node.store.pending()] == [SCOPE]
    node.apply(cluster.head(1))
    assert node.store.active(HEAD).version == (1, 1)


def test_a_slot_that_cannot_be_written_leaves_the_head_to_the_next(tmp_path, cluster):
    """rules L35, L39"""
    disk = FailingDisk()
    with Node(tmp_path / "root", cluster, disk=disk) as node:
        node.apply(cluster.bundle())
        head = node.verified(cluster.head(1))
        disk.fail(1, OSError(28, "No space left on device"))
        with pytest.raises(StoreError):
            node.download(cluster.snapshot(1, {"a": 1}))
        disk.broken = False
        assert node.store.pending() == []
        document = node.verified(cluster.snapshot(1, {"a": 1}))
        node.store.activate(head, document, now=NOW, boot=BOOT)
        assert node.store.active(HEAD).version == (1, 1)
        assert node.contents() == {"a": b"1"}


def test_what_is_completed_without_its_bytes_is_read_from_the_disk(node, cluster):
    """rules L39: a verifier that read the stream has handed over what it kept, and that alone is at hand."""
    document = cluster.snapshot(1, {"a": 1})
    slot = node.store.receive(SCOPE, now=NOW)
    slot.keep("a", document.sections[0])
    slot.complete(node.verified_alone(document))
    assert slot.parts().manifest() == document.manifest_bytes


def test_small_sections_and_large_ones_come_back_in_their_order(node, cluster):
    """However they are read: small ones together, and while none is judged the store can be written."""
    sizes = [1, TOGETHER_BYTES // 2, TOGETHER_BYTES // 2, 10, TOGETHER_BYTES + 1, 10, 1, TOGETHER_BYTES - 10, 20, 3]
    sections = {f"s{index}": {"x": f"{index}" * size} for index, size in enumerate(sizes)}
    document = cluster.snapshot(1, sections)
    slot = node.download(document)
    assert tuple(slot.parts().sections([len(data) for data in document.sections])) == document.sections
    parts = slot.parts()
    read = []
    for data in parts.sections([len(data) for data in document.sections]):
        node.store.set(b"written meanwhile %d" % len(read))
        read.append(data)
    assert tuple(read) == document.sections
    lying = [len(data) for data in document.sections]
    lying[6] += 1
    with pytest.raises(Rejected) as caught:
        list(parts.sections(lying))
    assert (caught.value.step, caught.value.reason) == (6, Reason.CONTENT_MISMATCH)


@pytest.mark.parametrize("count", [SECTIONS_AT_ONCE, SECTIONS_AT_ONCE + 1, 2 * SECTIONS_AT_ONCE + 7])
def test_many_small_sections_are_written_by_neighbours(node, cluster, count):
    """No transaction writes to more pages than so many sections need: LMDB keeps their memory. They come back in their
    order all the same, and some that are known already change nothing.
    """
    node.apply(cluster.snapshot(1, {"s1": "1" * 10, "s7": "7"}))
    document = cluster.snapshot(2, {f"s{number}": f"{number % 1000}" * 10 for number in range(count)})
    before = node.store._environment.lmdb.info()["last_txnid"]
    slot = node.download(document)
    commits = node.store._environment.lmdb.info()["last_txnid"] - before
    assert commits == 1 + (count - 1) // SECTIONS_AT_ONCE
    assert tuple(slot.parts().sections([len(data) for data in document.sections])) == document.sections
    node.reopen()
    (held,) = node.store.pending()
    verdict = node.judge(node.store.slot(SCOPE, held.envelope_hash), "snapshot")
    node.store.activate(verdict, now=NOW, boot=BOOT)
    assert len(node.contents()) == count


def test_many_results_of_patches_are_kept_beside(node, cluster, monkeypatch):
    """Of a slot that is whole already: it stays so."""
    monkeypatch.setattr(pending, "SECTIONS_AT_ONCE", 3)
    base = node.apply(cluster.snapshot(1, {f"s{number}": {"x": number} for number in range(8)}))
    results = {name: signer.section_bytes({"x": -1, "y": number}) for number, name in enumerate(base.state)}
    brought = {
        name: signer.section_bytes(
            [{"op": "replace", "path": "/x", "value": -1}, {"op": "add", "path": "/y", "value": number}]
        )
        for number, name in enumerate(base.state)
    }
    changes = {
        name: SectionChange("patch", signer.entry_of(brought[name]), signer.entry_of(results[name]))
        for name in base.state
    }
    slot = node.download(cluster.increment(2, base, changes, brought))
    verdict = node.judge(slot, "increment")
    slot.flush()
    node.store.garbage.run()
    node.store.activate(verdict, now=NOW, boot=BOOT)
    assert node.contents() == results


def test_a_sealed_slot_survives_a_restart(node, cluster):
    """rules S66"""
    document = cluster.snapshot(1, {"a": 1})
    envelope_hash = node.download(document).envelope_hash
    node.reopen()
    (held,) = node.store.pending()
    assert (held.scope, held.envelope_hash, held.sealed) == (SCOPE, envelope_hash, True)
    verdict = node.judge(node.store.slot(SCOPE, envelope_hash), "snapshot")
    assert isinstance(verdict, Verified)


def test_an_unsealed_slot_gives_nothing_back(node):
    slot = node.store.receive(SCOPE, now=NOW)
    with pytest.raises(StoreError) as caught:
        slot.parts()
    assert caught.value.fault is StoreFault.NOT_DURABLE
    with pytest.raises(StoreError):
        slot.seal(NOW)
    slot.drop()


@pytest.mark.parametrize("sizes", [(), (1,), (1, 1, 1), (1, 2)])
def test_another_number_or_size_of_sections_is_step_6(node, cluster, sizes):
    """rules S46"""
    slot = node.download(cluster.snapshot(1, {"a": 1, "b": 2}))
    for parts in (slot.parts(), slot.parts()):
        with pytest.raises(Rejected) as caught:
            list(parts.sections(sizes))
        assert (caught.value.step, caught.value.reason) == (6, Reason.CONTENT_MISMATCH)


def test_a_bad_download_evicts_neither_active_nor_waiting(node, cluster):
    """rules L39, S53; threats C08"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    waiting = cluster.snapshot(3, {"a": 3}, valid_from=NOW + 100, refresh_after=NOW + 200, expires_at=NOW + DAY)
    slot = node.download(waiting)
    verdict = node.judge(slot, "snapshot")
    assert isinstance(verdict, NotYetValid)
    slot.wait(verdict.envelope.valid_from)

    bad = node.store.receive(SCOPE, now=NOW)
    bad.receive(Opening(b"{}", ()))
    bad.receive(ManifestRead(b"{}"))
    bad.receive(SectionRead(b"x" * 100))
    bad.seal(NOW)
    with pytest.raises(Rejected):
        node.judge(bad, "snapshot")
    bad.drop()

    assert node.contents() == {"a": b"1"}
    (held,) = node.store.pending()
    assert held.waiting_until == NOW + 100
    node.reopen()
    again = node.store.slot(SCOPE, held.envelope_hash)
    verdict = node.judge(again, "snapshot", NOW + 100)
    node.store.activate(verdict, now=NOW + 100, boot=BOOT)
    assert node.contents() == {"a": b"3"}
    assert node.store.pending() == []


def test_a_newer_one_takes_the_waiting_place(node, cluster):
    """rules X26"""
    for version in (2, 3):
        times = {"valid_from": NOW + 100, "refresh_after": NOW + 200, "expires_at": NOW + DAY}
        slot = node.download(cluster.snapshot(version, {"a": version}, **times))
        slot.wait(NOW + 100)
    (held,) = node.store.pending()
    assert held.envelope_hash == slot.envelope_hash


def test_a_new_download_takes_the_place_of_an_unfinished_one(node):
    """rules L39: one slot for each scope"""
    for _ in range(5):
        slot = node.store.receive(SCOPE, now=NOW)
        slot.receive(Opening(b"{}", ()))
        slot.flush()
    assert len(node.store.pending()) == 1


def test_the_slot_is_bounded(node):
    """rules L39"""
    slot = node.store.receive(SCOPE, now=NOW, limits=Limits(sections=2))
    slot.receive(SectionRead(b"1"))
    slot.receive(SectionRead(b"2"))
    with pytest.raises(StoreError) as caught:
        slot.receive(SectionRead(b"3"))
    assert caught.value.fault is StoreFault.TOO_LARGE
    slot = node.store.receive(SCOPE, now=NOW, limits=Limits(content_bytes=1000))
    slot.receive(SectionRead(bytes(1500)))
    with pytest.raises(StoreError) as caught:
        slot.receive(SectionRead(bytes(1500)))
    assert caught.value.fault is StoreFault.TOO_LARGE
    slot.drop()


def test_memory_stays_bounded(tmp_path, cluster):
    """rules S8: 100 MiB pass in about a flush of memory"""
    from tests.store.cluster import Node

    with Node(tmp_path / "root", cluster, map_bytes=512 << 20) as node:
        slot = node.store.receive(SCOPE, now=NOW)
        slot.receive(Opening(b"{}", (("k", b"s"),)))
        tracemalloc.start()
        for number in range(100):
            slot.receive(SectionRead(number.to_bytes(4, "big") * (1 << 18)))
        slot.seal(NOW)
        seen = sum(len(data) for data in slot.parts().sections([1 << 20] * 100))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert seen == 100 << 20
        assert peak < 4 * FLUSH_BYTES


def test_what_is_flushed_is_durable_and_goes_when_forgotten(node, cluster):
    """rules L36"""
    document = cluster.snapshot(1, {f"s{number}": "x" * 200_000 + str(number) for number in range(40)})
    node.download(document)
    node.reopen()
    assert node.store.garbage.run().bytes == 0  # the slot refers to them
    (held,) = node.store.pending()
    node.store.slot(SCOPE, held.envelope_hash).drop()
    assert node.store.garbage.run().bytes > 7_000_000


def test_patch_results_lie_beside_what_was_received(node, cluster):
    base = node.apply(cluster.snapshot(1, {"a": {"x": 1}}))
    operations = signer.section_bytes([{"op": "replace", "path": "/x", "value": 5}])
    change = SectionChange("patch", signer.entry_of(operations), signer.entry_of(b'{"x":5}'))
    slot = node.download(cluster.increment(2, base, {"a": change}, {"a": operations}))
    verdict = node.judge(slot, "increment")
    slot.flush()
    node.store.garbage.run()
    node.store.activate(verdict, now=NOW, boot=BOOT)
    assert node.contents() == {"a": b'{"x":5}'}


def test_looking_at_what_waits_changes_nothing(node, cluster):
    """rules X26: a status between the verdict and the swap displaces nothing that is on its way"""
    base = node.apply(cluster.snapshot(1, {"a": {"x": 1}}))
    later = cluster.snapshot(9, {"b": 1}, valid_from=NOW + 100, refresh_after=NOW + 200, expires_at=NOW + DAY)
    node.download(later).wait(NOW + 100)
    operations = signer.section_bytes([{"op": "replace", "path": "/x", "value": 5}])
    change = SectionChange("patch", signer.entry_of(operations), signer.entry_of(b'{"x":5}'))
    verdict = node.judge(node.download(cluster.increment(2, base, {"a": change}, {"a": operations})), "increment")

    (seen,) = node.store.waiting().values()
    assert (seen.scope, seen.until, seen.envelope) == (SCOPE, NOW + 100, later.envelope_bytes)
    assert seen.parts.manifest() == later.manifest_bytes
    assert list(seen.parts.sections([1])) == [b"1"]

    node.store.activate(verdict, now=NOW, boot=BOOT)
    assert node.contents() == {"a": b'{"x":5}'}
    assert node.store.waiting() == {SCOPE: seen}
    node.reopen()
    assert node.store.waiting()[SCOPE].envelope == later.envelope_bytes

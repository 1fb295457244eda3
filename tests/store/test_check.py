"""`check`: every fault, not the first, and nothing is changed"""

import pytest

from store.base import blobs
from store.base.documents import put_scope, scope_record
from store.base.records import ScopeRecord, scope_key
from store.fsck.check import check
from store.fsck.examine import examine
from tests.store.cluster import CLUSTER, NOW, SCOPE, Cluster, Node


@pytest.fixture
def broken(tmp_path):
    node = Node(tmp_path / "root", Cluster())
    node.open()
    node.apply(node.cluster.bundle())
    node.apply(node.cluster.snapshot(1, {"a": 1, "b": 2}))
    node.apply(node.cluster.snapshot(2, {"a": 3, "b": 2}))
    yield node
    node.close()


def codes(node):
    """By the child process on a running store, and the same from inside."""
    found = sorted(fault.code for fault in check(node.path, CLUSTER))
    with node.store._environment.read() as transaction:
        assert sorted(fault.code for fault in examine(transaction, CLUSTER, node.store.floors)) == found
    return found


def change(node, work):
    with node.store._environment.write() as transaction:
        work(transaction)


def test_a_sound_one_has_none(broken):
    broken.store.table("peers")
    broken.download(broken.cluster.snapshot(3, {"a": 4}))
    assert codes(broken) == []


def test_every_fault_not_the_first(broken):
    held = broken.store.active(SCOPE)

    def damage(transaction):
        transaction.put("sections", bytes.fromhex(held.sections["a"].sha256), b"other")
        blobs.remove(transaction, bytes.fromhex(held.sections["b"].sha256))
        transaction.put("snapshots", bytes(32), b"rubbish")
        transaction.put("scopes", bytes(32), b"rubbish")
        transaction.delete("journal", (2).to_bytes(8, "big"))
        transaction.put("updates", b"evidence/x", b"rubbish")
        transaction.put("trust", b"recovery/x", b"rubbish")

    change(broken, damage)
    assert codes(broken) == [
        "blob_damaged",
        "document_damaged",
        "document_incomplete",  # active
        "document_incomplete",  # previous
        "journal_gap",
        "record_damaged",
        "record_damaged",
        "record_damaged",
    ]
    broken.reopen()
    assert [str(finding.happened) for finding in broken.store.findings][-1] == "active_lost"
    assert codes(broken) == []  # mended
    broken.apply(broken.cluster.snapshot(3, {"a": 4}))


def test_pointers_and_marks(broken):
    with broken.store._environment.read() as transaction:
        record = scope_record(transaction, SCOPE)
        bundle = scope_record(transaction, "trust_bundle")
    change(broken, lambda transaction: put_scope(transaction, ScopeRecord(**{**vars(record), "version": 1})))
    assert codes(broken) == ["pointer_wrong"]  # above its mark
    change(broken, lambda transaction: put_scope(transaction, ScopeRecord(**{**vars(record), "version": 9})))
    assert codes(broken) == ["floor_behind"]
    change(broken, lambda transaction: put_scope(transaction, ScopeRecord(**{**vars(record), "active": bundle.active})))
    assert codes(broken) == ["pointer_wrong"]
    change(broken, lambda transaction: put_scope(transaction, ScopeRecord(**{**vars(record), "active": bytes(32)})))
    assert codes(broken) == ["document_damaged"]
    change(broken, lambda transaction: put_scope(transaction, record))
    change(
        broken,
        lambda transaction: transaction.put("scopes", scope_key("x"), transaction.get("scopes", scope_key(SCOPE))),
    )
    assert codes(broken) == ["record_damaged"]


def test_a_slot_without_its_bytes(broken):
    document = broken.cluster.snapshot(3, {"a": "only here"})
    broken.download(document)
    change(broken, lambda transaction: blobs.remove(transaction, blobs.digest_of(document.sections[0])))
    assert codes(broken) == ["slot_incomplete"]
    broken.reopen()
    assert broken.store.pending() == []
    assert codes(broken) == []


def test_what_lies_outside_of_lmdb(broken):
    home = broken.store.paths.home
    broken.close()
    (home / "floors" / "a.rec").unlink()
    (home / "floors" / "b.rec").write_bytes(b"x")
    (home / "identity" / "enrolment.rec").write_bytes(b"x")
    (home / "identity" / "enrolment.rec").chmod(0o640)
    (home / "store" / "data.mdb").write_bytes(b"")
    for number in range(4):
        (home / "quarantine" / str(number)).mkdir(mode=0o700)
    found = sorted(fault.code for fault in check(broken.path, CLUSTER))
    assert found == [
        "bad_permissions",
        "enrolment_unreadable",
        "floor_missing",
        "floor_unreadable",
        "quarantine_bound",
        "store_corrupt",
    ]


def test_another_clusters_store(broken):
    home = broken.store.paths.home
    broken.close()
    home.rename(home.parent / "green")
    assert {"other_cluster", "floor_unreadable"} <= {fault.code for fault in check(broken.path, "green")}
    assert NOW

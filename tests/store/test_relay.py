"""What is kept for neighbours: bounded, found again after a restart, and let go in order."""

import pytest

from snapshot.limits import DEFAULT
from store.base.disk import Disk
from store.base.errors import StoreError
from store.relay import RelayBounds, RelayStore, digest_of
from tests.store.cluster import NOW, Cluster

DAY = 86_400


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def made(tmp_path):
    (tmp_path / "tmp").mkdir()

    def open_again(most_bytes=1 << 20, most_files=100):
        bounds = RelayBounds(most_bytes, most_files)
        store = RelayStore(tmp_path / "relay", Disk(), tmp_path / "tmp", bounds, DEFAULT)
        store.load()
        return store

    return open_again


def put(store, document, now=NOW):
    file = store.temporary / "x.new"
    file.write_bytes(b"".join(document.to_bytes() for _ in "x"))
    file.chmod(0o600)
    change = store.put_head if document.envelope.kind == "head" else store.put_document
    return change(document.envelope, file, now)


def kept(store):
    return {container.envelope.snapshot_id for container in store.documents.values()}


def test_it_is_all_there_after_a_restart(made, cluster):
    """rules S84: heads, documents and bundles, byte for byte"""
    store = made()
    head, document, bundle = cluster.head(3), cluster.snapshot(1, {"a": {"b": 1}}), cluster.bundle()
    assert put(store, head)
    assert put(store, document)
    store.put_bundle(1, bundle.to_bytes())
    again = made()
    for opened in (store, again):
        found = opened.head_of(digest_of(head.envelope.subject_node_id))
        assert opened.read(found) == head.to_bytes()
        assert found.envelope.version == head.envelope.version
        assert opened.read(opened.document(document.envelope.snapshot_id)) == document.to_bytes()
        assert (opened.bundle_versions(), opened.bundle(1)) == ([1], bundle.to_bytes())
    assert again.used_bytes() == store.used_bytes() == len(head.to_bytes()) + len(document.to_bytes())


def test_a_lower_head_never_takes_the_place_of_a_higher_one(made, cluster):
    """rules K32"""
    store = made()
    assert put(store, cluster.head(3))
    assert not put(store, cluster.head(3))
    assert not put(store, cluster.head(2))
    assert put(store, cluster.head(4))
    assert [container.envelope.config_version for container in store.heads.values()] == [4]
    assert len(list((store.temporary).iterdir())) == 0


def test_the_oldest_documents_go_before_heads_and_what_has_expired_before_all(made, cluster):
    """the bounds of `[peers] relay_bytes` and `relay_files`"""
    store = made(most_files=3)
    assert put(store, cluster.head(1))
    documents = [cluster.snapshot(number, {"n": {"x": number}}) for number in (1, 2, 3)]
    for document in documents:
        assert put(store, document)
    assert kept(store) == {document.envelope.snapshot_id for document in documents[1:]}
    assert len(store.heads) == 1
    late = max(document.envelope.expires_at for document in documents)
    assert put(store, cluster.snapshot(4, {"n": {}}, expires_at=late + DAY, refresh_after=late), late + 1)
    assert len(kept(store)) == 1, "all others have expired"
    assert {file.name for file in (store._folder / "documents").iterdir()} == {
        f"{digest}.hfs" for digest in store.documents
    }


def test_bytes_are_bounded_and_what_is_too_large_is_not_kept(made, cluster):
    size = len(cluster.snapshot(1, {"n": {"x": "y" * 1000}}).to_bytes())
    store = made(most_bytes=2 * size + 10)
    for number in (1, 2, 3):
        assert put(store, cluster.snapshot(number, {"n": {"x": "y" * 1000}}))
    assert len(store.documents) == 2
    assert store.used_bytes() <= store.bounds.most_bytes
    assert not put(store, cluster.snapshot(4, {"n": {"x": "y" * 5000}}))
    assert len(store.documents) == 2
    smaller = made(most_bytes=size + 10)
    assert len(smaller.documents) == 1, "a bound that was lowered holds from the next start on"


def test_damage_and_foreign_files_go_at_the_start(made, cluster):
    """rules L34: nobody is given half of a document knowingly; whoever asks judges it again anyhow"""
    store = made()
    document = cluster.snapshot(1, {"n": {}})
    assert put(store, document)
    folder = store._folder / "documents"
    (folder / f"{'0' * 64}.hfs").write_bytes(document.to_bytes())
    (folder / "notes.txt").write_bytes(b"x")
    (store._folder / "heads" / f"{'1' * 64}.hfs").write_bytes(b"\x94")
    again = made()
    assert kept(again) == {document.envelope.snapshot_id}
    assert len(list(folder.iterdir())) == 1
    assert not again.heads
    found = again.document(document.envelope.snapshot_id)
    found.file.write_bytes(document.to_bytes()[:-4])
    with pytest.raises(StoreError, match="store_corrupt"):
        again.read(found)


def test_bundles_are_bounded_by_themselves(made, cluster, monkeypatch):
    """the lowest go: who is so far behind gets them elsewhere"""
    monkeypatch.setattr("store.relay.MOST_BUNDLES", 3)
    store = made(most_bytes=0)
    for version in range(1, 6):
        store.put_bundle(version, b"bundle")
    assert store.bundle_versions() == [3, 4, 5]
    assert made().bundle_versions() == [3, 4, 5]
    with pytest.raises(StoreError):
        store.bundle(1)


def test_a_head_in_the_place_of_another_one_counts_once(made, cluster):
    """the bound of `[peers] relay_bytes` holds where the former one has expired"""
    first, longer = cluster.head(1), cluster.head(10**12)
    late = first.envelope.expires_at + 1
    document = cluster.snapshot(1, {"n": {"x": 1}}, expires_at=late + DAY)
    store = made(most_bytes=len(longer.to_bytes()) + len(document.to_bytes()) - 1)
    assert put(store, first)
    assert put(store, document)
    assert put(store, longer, late)
    assert store.used_bytes() <= store.bounds.most_bytes
    assert [kept.envelope.config_version for kept in store.heads.values()] == [10**12]


@pytest.mark.parametrize("where", ["first", "middle", "last", "checksum"])
def test_a_byte_that_has_turned_is_found_before_the_last_piece(made, cluster, where):
    """rules L34: whatever it is a byte of; and what has come in its place meanwhile is not dropped with it"""
    store = made()
    document = cluster.snapshot(1, {"n": {"x": "y" * 600_000}})
    assert put(store, document)
    found = store.document(document.envelope.snapshot_id)
    data = bytearray(found.file.read_bytes())
    data[{"first": 30, "middle": len(data) // 2, "last": found.size - 1, "checksum": found.size + 3}[where]] ^= 1
    found.file.write_bytes(data)
    given = []
    with pytest.raises(StoreError, match="store_corrupt"):
        given.extend(store.pieces(found))
    assert sum(map(len, given)) < found.size
    assert store.drop_damaged(found) == [found]
    assert not store.documents
    assert put(store, document)
    assert store.drop_damaged(found) == [], "it is another one"
    assert made().read(made().document(document.envelope.snapshot_id)) == document.to_bytes()

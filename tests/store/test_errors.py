"""Full disks, full maps and I/O errors: rules L35; threats D-25."""

import errno

import lmdb
import pytest

from snapshot.identifiers import HEAD
from store.base.disk import refusal
from store.base.errors import StoreError, StoreFault
from store.fsck.check import check
from tests.store.cluster import BOOT, CLUSTER, NOW, SCOPE, Cluster, Node
from tests.store.dying import FailingDisk

NO_SPACE, BROKEN = OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "Input/output error")


@pytest.fixture
def failing(tmp_path):
    node = Node(tmp_path / "root", Cluster(), disk=FailingDisk())
    node.open()
    node.apply(node.cluster.bundle())
    node.apply(node.cluster.snapshot(1, {"a": 1}))
    yield node
    node.close()
    assert list(check(node.path, CLUSTER)) == []


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (NO_SPACE, StoreFault.STORE_FULL),
        (lmdb.DiskError("mdb_txn_commit: No space left on device"), StoreFault.STORE_FULL),
        (lmdb.MapFullError("mdb_put"), StoreFault.STORE_FULL),
        (BROKEN, StoreFault.STORE_IO),
        (lmdb.Error("mdb_txn_commit: Input/output error"), StoreFault.STORE_IO),
        (lmdb.CorruptedError("mdb_get"), StoreFault.STORE_CORRUPT),
    ],
)
def test_one_clear_reason(error, fault):
    """rules L35"""
    assert refusal(error).fault is fault


@pytest.mark.parametrize("error", [NO_SPACE, BROKEN, lmdb.Error("mdb_txn_commit: Input/output error")])
@pytest.mark.parametrize("at", range(1, 10))
def test_an_error_at_every_step_leaves_active_intact(failing, at, error):
    """rules L35, S53: and it works again, in the same process, when the disk does"""
    document = failing.cluster.snapshot(2, {"a": 2})
    failing.disk.fail(at, error)
    try:
        failing.apply(document)
        told = None
    except StoreError as caught:
        told = caught
    failing.disk.broken = False
    if told is None:
        assert failing.contents() == {"a": b"2"}
        return
    assert told.fault in (StoreFault.STORE_FULL, StoreFault.STORE_IO)
    assert failing.contents() == {"a": b"1"}
    if failing.store.is_unfinished:
        assert failing.disk.seen[-1] in ("fsync_directory", "commit")
        assert failing.store.resume(NOW) == (SCOPE,)
    else:
        failing.apply(document)
    assert failing.contents() == {"a": b"2"}
    assert failing.store.standing().marks[SCOPE].config_version == 2
    failing.reopen()
    assert failing.contents() == {"a": b"2"}
    failing.apply(failing.cluster.snapshot(3, {"a": 3}))


def test_a_floor_that_may_be_on_the_disk_counts(failing):
    """rules L32: its rename came through, the sync of the directory did not; nothing is built on it before it is"""
    verdict = failing.verified(failing.cluster.snapshot(2, {"a": 2}))
    failing.disk.fail(4, BROKEN)
    with pytest.raises(StoreError):
        failing.store.activate(verdict, now=NOW, boot=BOOT)
    assert failing.disk.seen[-1] == "fsync_directory"
    assert failing.store.is_unfinished
    assert failing.store.standing().marks[SCOPE].config_version == 2
    failing.disk.broken = False
    failing.disk.seen.clear()
    assert failing.store.resume(NOW) == (SCOPE,)
    assert failing.disk.seen == ["write", "fsync", "rename", "fsync_directory", "commit"]
    failing.reopen()
    assert failing.store.findings == ()


def test_a_withdrawal_finishes_what_the_floors_name(failing):
    """rules S3, L32: or the next start would take it for a store that was restored from an old backup"""
    verdict = failing.verified(failing.cluster.snapshot(2, {"a": 2}))
    failing.disk.fail(5, NO_SPACE)
    with pytest.raises(StoreError):
        failing.store.activate(verdict, now=NOW, boot=BOOT)
    failing.disk.broken = False
    failing.store.withdraw(SCOPE, now=NOW)
    failing.reopen()
    assert failing.store.findings == ()
    assert failing.store.standing().marks[SCOPE].config_version == 2


def test_a_new_download_finishes_what_the_floors_name(failing):
    """rules L32: its slot is not lost to the next download"""
    verdict = failing.verified(failing.cluster.snapshot(2, {"a": 2}))
    failing.disk.fail(5, NO_SPACE)
    with pytest.raises(StoreError):
        failing.store.activate(verdict, now=NOW, boot=BOOT)
    assert failing.store.is_unfinished
    failing.disk.broken = False
    failing.apply(failing.cluster.snapshot(3, {"a": 3}))
    with failing.store.read() as reading:
        assert reading.previous(SCOPE).read("a") == b"2"


def test_another_activation_finishes_what_the_floors_name(failing):
    """rules L32: they would name the other one alone then, and the first be asked for in vain: accepted already"""
    document = failing.verified(failing.cluster.snapshot(2, {"a": 2}))
    head = failing.verified(failing.cluster.head(1))
    failing.disk.fail(6, BROKEN)
    with pytest.raises(StoreError):
        failing.store.activate(head, now=NOW, boot=BOOT)
    assert failing.store.is_unfinished
    failing.disk.broken = False
    failing.store.activate(document, now=NOW, boot=BOOT)
    assert failing.contents() == {"a": b"2"}
    assert failing.store.active(HEAD).version == failing.store.standing().marks[HEAD].version == (1, 1)
    failing.reopen()
    assert failing.store.findings == ()


def test_the_same_activation_may_be_made_again(failing):
    """rules L32: it is what the floors name, so nothing is to be finished before"""
    verdict = failing.verified(failing.cluster.snapshot(2, {"a": 2}))
    failing.disk.fail(5, BROKEN)
    with pytest.raises(StoreError):
        failing.store.activate(verdict, now=NOW, boot=BOOT)
    assert failing.store.is_unfinished
    failing.disk.broken = False
    failing.store.activate(verdict, now=NOW, boot=BOOT)
    assert failing.contents() == {"a": b"2"}


def test_a_broken_disk_at_start_changes_nothing(failing):
    """rules A14: and the next start goes well"""
    failing.close()
    for at in range(1, 12):
        failing.disk.fail(at, BROKEN)
        with_error = None
        try:
            failing.open()
        except StoreError as error:
            with_error = error
        failing.disk.broken = False
        failing.reopen()
        assert failing.contents() == {"a": b"1"}
        failing.close()
        if with_error is None:
            break


def bulk(size, tag=0):
    """A section of about that many bytes; one string may have 64 KiB (format.md 10)."""
    return [tag, ["x" * 1000] * (size // 1003)]


def test_a_full_map(tmp_path):
    """rules L35, M10: active stays, garbage goes, and there is room again"""
    node = Node(tmp_path / "root", Cluster(), map_bytes=8 << 20)
    with node:
        node.apply(node.cluster.bundle())
        node.apply(node.cluster.snapshot(1, {"a": bulk(500_000)}))
        before = node.contents()
        big = {f"s{number}": bulk(900_000, number) for number in range(10)}
        floors = node.store.floors
        with pytest.raises(StoreError) as caught:
            node.apply(node.cluster.snapshot(2, big))
        assert caught.value.fault is StoreFault.STORE_FULL
        assert "map" in str(caught.value)
        assert node.contents() == before
        assert node.store.floors == floors
        assert node.store.fill_level() <= 1
        node.store._slots[SCOPE].drop()
        assert node.store.garbage.run().bytes > 1_000_000
        for version in range(2, 12):  # far more than the map holds, one after another
            node.apply(node.cluster.snapshot(version, {"a": bulk(900_000, version)}))
        assert node.store.active(SCOPE).envelope.config_version == 11
    assert list(check(node.path, CLUSTER)) == []


def test_garbage_can_be_collected_when_the_map_is_full_to_the_brim(tmp_path):
    """rules L35: to delete, LMDB needs pages, and has a reserve of them"""
    node = Node(tmp_path / "root", Cluster(), map_bytes=3 << 20)
    with node:
        kept = 0
        with pytest.raises(StoreError):
            while True:
                with node.store._environment.write() as transaction:
                    from store.base import blobs

                    blobs.put(transaction, kept.to_bytes(4, "big") * 2000)
                kept += 1
        assert kept > 200
        assert node.store.garbage.run().removed == kept
        node.apply(node.cluster.bundle())


def test_a_write_inside_a_write_is_refused_and_does_not_hang(failing):
    """rules M3"""
    environment = failing.store._environment
    with environment.write(), pytest.raises(RuntimeError), environment.write():
        pass
    failing.apply(failing.cluster.snapshot(2, {"a": 2}))


def test_a_writer_on_another_thread_waits(failing):
    """rules L26, M4"""
    import threading

    order = []
    entered = threading.Event()

    def other():
        entered.wait()
        failing.store.set(b"other")
        order.append("other")

    thread = threading.Thread(target=other)
    thread.start()
    with failing.store._environment.write() as transaction:
        entered.set()
        transaction.put("health", b"k", b"v")
        order.append("first")
        transaction.delete("health", b"k")
    thread.join(20)
    assert order == ["first", "other"]


def test_no_unsafe_flag_is_set(failing):
    """rules L27; threats C11"""
    flags = failing.store._environment.lmdb.flags()
    wanted = {"sync": True, "metasync": True, "writemap": False, "map_async": False, "lock": True}
    assert {name: flags[name] for name in wanted} == wanted


def test_an_environment_that_lmdb_gave_up_is_opened_anew(failing):
    """A meta page that could not be written makes LMDB refuse everything until it is opened again."""
    environment = failing.store._environment

    class GivenUp:
        def __init__(self, real):
            self.real = real

        def begin(self, **_):
            raise lmdb.PanicError("mdb_txn_begin")

        def close(self):
            self.real.close()

    environment.lmdb = GivenUp(environment.lmdb)
    failing.apply(failing.cluster.snapshot(2, {"a": 2}))
    assert failing.contents() == {"a": b"2"}


def test_a_reader_that_was_killed_keeps_nothing(failing):
    """Its slot in the lock file would pin every page that was in use when it died."""
    import signal

    from tests.store.dying import in_a_child

    failing.close()

    def read_and_die():
        import os

        failing.open()
        transaction = failing.store._environment.lmdb.begin()
        assert transaction.stat()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(read_and_die) == -signal.SIGKILL
    failing.open()
    assert failing.store._environment.lmdb.reader_check() == 0  # forgotten at start
    before = failing.store._environment.lmdb.info()["last_pgno"]
    for version in range(2, 40):
        failing.apply(failing.cluster.snapshot(version, {"a": ["x" * 1000] * 100 + [version]}))
        failing.store.garbage.run()
    assert failing.store._environment.lmdb.info()["last_pgno"] < before + 500

"""What a storage node keeps for others: bounded, found again after a restart, and nothing but files of our names."""

import errno
import hashlib
import resource

import pytest

from snapshot.limits import DEFAULT
from store import published_files
from store.base.disk import Disk
from store.base.errors import StoreError, StoreFault
from store.published_files import REMEMBERED_S, PublishedFile, PublishedFiles, is_path
from tests.store.cluster import Cluster

DAY = 86_400.0
NAME = f"{'ab' * 32}.hfs"


@pytest.fixture
def made(tmp_path):
    def open_again(most_bytes=1_000, most_files=3, now=0.0):
        files = PublishedFiles(tmp_path / "published", Disk(), most_bytes, most_files, DEFAULT)
        files.load(now)
        return files

    return open_again


@pytest.fixture
def bring(tmp_path):
    def put(files, path, data, version=(0, 0), ends_at=0):
        source = tmp_path / "came.new"
        source.write_bytes(data)
        files.put(path, source, PublishedFile(hashlib.sha256(data).hexdigest(), len(data), version, ends_at))

    return put


def read(files, path):
    return b"".join(files.pieces(path))


def test_it_is_all_there_after_a_restart(made, bring):
    """rules S2, L19: byte for byte, and a head with its version"""
    files, head = made(1 << 20), Cluster().head(3)
    bring(files, "trust/7.hfs", b"bundle")
    bring(files, f"documents/{NAME}", b"document")
    bring(files, f"heads/{NAME}", head.to_bytes(), head.envelope.version, head.envelope.expires_at)
    again = made(1 << 20)
    for opened in (files, again):
        assert read(opened, "trust/7.hfs") == b"bundle"
        assert read(opened, f"heads/{NAME}") == head.to_bytes()
        assert opened.files[f"heads/{NAME}"].version == head.envelope.version
        assert opened.used_bytes == len(b"bundle") + len(b"document") + len(head.to_bytes())
    assert again.now() == files.now()


def test_a_full_one_says_so_and_takes_what_fits(made, bring, tmp_path):
    files = made(most_bytes=10, most_files=2)
    bring(files, "trust/1.hfs", b"12345")
    with pytest.raises(StoreError) as full:
        bring(files, "trust/2.hfs", b"123456")
    assert full.value.fault is StoreFault.STORE_FULL
    assert (files.used_bytes, list(files.files)) == (5, ["trust/1.hfs"])
    bring(files, "trust/1.hfs", b"1234567890")  # in the place of what lies there
    bring(files, "trust/2.hfs", b"")
    with pytest.raises(StoreError):
        files.check_room("trust/3.hfs", 0)
    files.remove("trust/1.hfs", 0.0)
    files.remove("trust/1.hfs", 0.0)
    assert (files.used_bytes, list(files.files)) == (0, ["trust/2.hfs"])
    bring(files, "trust/3.hfs", b"12345")
    with pytest.raises(StoreError):
        read(files, "trust/1.hfs")


def test_what_has_no_name_of_ours_goes_at_the_start(made, bring, tmp_path):
    """Nor is a head believed whose bytes are none: any other takes its place."""
    files = made()
    bring(files, f"heads/{NAME}", b"no head")
    stray = tmp_path / "published" / "documents" / "stray"
    stray.write_bytes(b"x")
    again = made()
    assert not stray.exists()
    assert {path: file.version for path, file in again.now().items()} == {f"heads/{NAME}": (0, 0)}


def test_a_disk_that_refuses_is_said(made, bring, tmp_path):
    files = made()
    (tmp_path / "published" / "documents").rmdir()
    with pytest.raises(StoreError):
        bring(files, f"documents/{NAME}", b"x")
    assert files.used_bytes == 0
    (tmp_path / "published" / "trust").rmdir()
    (tmp_path / "published" / "trust").write_bytes(b"no folder")
    with pytest.raises(StoreError):
        made()


def test_what_a_head_was_that_is_taken_away_is_remembered_for_its_time(made, bring, tmp_path):
    """rules K32: over restarts, also where the last line was cut off; of what has no version nothing is written"""
    files, path = made(1 << 20, 16), f"heads/{NAME}"
    bring(files, "trust/7.hfs", b"bundle")
    for version in ((1, 4), (1, 7)):
        bring(files, path, b"head", version, ends_at=100)
        files.remove(path, 0.0)
    files.remove("trust/7.hfs", 0.0)
    place = tmp_path / "published" / "removed"
    assert len(place.read_bytes().splitlines()) == 2
    with place.open("ab") as opened:
        opened.write(f"{path} 1 9".encode())
    for opened in (files, made(), made()):
        assert opened.highest(path, now=99) == (1, 7)
        assert opened.highest(path, now=100) == opened.highest("trust/7.hfs", now=0) == (0, 0)
    assert place.read_text() == f"{path} 1 7 100\n"
    bring(opened, path, b"head", (1, 8), ends_at=50)
    assert opened.highest(path, now=200) == (1, 8), "what lies here counts, whatever its time"


def test_who_takes_the_same_one_away_again_and_again_fills_nothing(made, bring, tmp_path):
    """threats D-46: what is remembered counts in no bound"""
    files, path = made(1 << 20, 16), f"heads/{NAME}"
    for _ in range(3):
        bring(files, path, b"head", (1, 7), ends_at=100)
        files.remove(path, 0.0)
    assert (tmp_path / "published" / "removed").read_text() == f"{path} 1 7 100\n"
    bring(files, path, b"damaged", (0, 0), ends_at=0)
    files.remove(path, 0.0)
    for opened in (files, made()):
        assert opened.highest(path, now=99) == (1, 7), "nor does one that says nothing take its place"


def test_a_disk_that_is_full_in_the_middle_of_a_line_costs_no_other_one(made, bring, tmp_path):
    """rules K32, L35: nothing is taken away then; and what is remembered after it is read again"""
    files, first, second = made(1 << 20, 16), f"heads/{NAME}", f"heads/{'cd' * 32}.hfs"
    bring(files, first, b"head", (1, 7), ends_at=100)
    bring(files, second, b"head", (1, 8), ends_at=100)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
        with pytest.raises(StoreError):
            files.remove(first, 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert read(files, first) == b"head"
    files.remove(second, 0.0)
    assert made().highest(second, now=99) == (1, 8)


def test_what_is_remembered_is_durable_before_the_file_goes(bring, tmp_path):
    """rules J47: the name of the first line's file as well"""

    class Watched(Disk):
        def about_to(self, step):
            steps.append(step)

    steps, path = [], f"heads/{NAME}"
    files = PublishedFiles(tmp_path / "published", Watched(), 1_000, 3, DEFAULT)
    files.load(0.0)
    bring(files, path, b"head", (1, 7), ends_at=100)
    steps.clear()
    files.remove(path, 0.0)
    assert steps == ["write", "fsync", "fsync_directory", "remove"]


def test_a_line_that_is_none_costs_no_other_one(made, bring, tmp_path):
    files, path = made(1 << 20, 16), f"heads/{NAME}"
    bring(files, path, b"head", (1, 7), ends_at=100)
    files.remove(path, 0.0)
    with (tmp_path / "published" / "removed").open("ab") as opened:
        opened.write(b"\n \n\xff\0\nheads/x 1 2 3\n" + f"{path} {'9' * 5_000} 1 1\n".encode())
    assert made().highest(path, now=99) == (1, 7)


def test_what_is_over_for_long_is_forgotten(made, bring, tmp_path, monkeypatch):
    """rules K32: at a start, and whenever it is more than the rest; over restarts what is in its time stays"""
    monkeypatch.setattr(published_files, "LINES", 4)
    files, place, sizes = made(1 << 20, 16), tmp_path / "published" / "removed", set()
    paths = [f"heads/{hashlib.sha256(b'%d' % number).hexdigest()}.hfs" for number in range(60)]
    for number, path in enumerate(paths):
        bring(files, path, b"head", (1, 7), ends_at=(number + 1) * DAY)
        files.remove(path, number * DAY)
        sizes.add(len(place.read_bytes().splitlines()))
        for opened in (files, made(1 << 20, 16, number * DAY)) if number % 10 == 0 else ():
            assert opened.highest(path, now=number * DAY) == (1, 7)
    in_time = [path for number, path in enumerate(paths) if (number + 1) * DAY + REMEMBERED_S > 59 * DAY]
    assert max(sizes) <= 2 * len(in_time) + 4 + 1
    again = made(1 << 20, 16, 59 * DAY)
    assert sorted(line.split()[0] for line in place.read_text().splitlines()) == sorted(in_time)
    assert [path for path in paths if again.highest(path, now=52 * DAY + 1) != (0, 0)] == in_time


def test_a_disk_without_room_to_forget_keeps_nobody_from_taking_files_away(bring, tmp_path, monkeypatch):
    """rules L35: that is what makes room again; nor from serving what lies there."""

    class Full(Disk):
        is_full = False

        def about_to(self, step):
            if self.is_full and step == "rename":  # of the list that is written anew
                raise OSError(errno.ENOSPC, "No space left on device")

    def opened(now):
        files = PublishedFiles(folder, disk, 1 << 20, 16, DEFAULT)
        files.load(now)
        return files

    monkeypatch.setattr(published_files, "LINES", 2)
    disk, folder = Full(), tmp_path / "published"
    files = opened(0.0)
    paths = [f"heads/{hashlib.sha256(b'%d' % number).hexdigest()}.hfs" for number in range(8)]
    for path in paths:
        bring(files, path, b"head", (1, 7), ends_at=100)
    disk.is_full = True
    for path in paths[:6]:
        files.remove(path, 0.0)
        assert not (folder / path).exists()
    later = 200 + REMEMBERED_S
    for found in (files, opened(0.0), opened(later)):
        assert found.files.keys() == set(paths[6:])
        assert {found.highest(path, now=50) for path in paths[:6]} == {(1, 7)}
    assert sorted(place.name for place in folder.iterdir() if place.is_file()) == ["removed"]
    disk.is_full = False
    for path in paths[6:]:
        files.remove(path, later)
    opened(later)
    assert (folder / "removed").read_bytes() == b""


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("trust/1.hfs", True),
        (f"increments/{NAME}", True),
        ("trust/01.hfs", False),
        (f"trust/{NAME}", False),
        ("documents/1.hfs", False),
        (f"other/{NAME}", False),
        (f"documents/../heads/{NAME}", False),
        (f"documents/{NAME}\n", False),
        ("", False),
    ],
)
def test_names(path, is_one):
    assert is_path(path) is is_one


def test_they_are_listed_page_by_page_whatever_comes_and_goes(made, bring):
    """In byte order, each once; what a page costs does not depend on how many lie here"""
    files, there = made(1 << 20, 1 << 10), set()

    def listed(opened):
        found, after, is_more = {}, "", True
        while is_more:
            page, is_more = opened.page(after, 7)
            assert list(page) == sorted(page) and len(page) <= 7 and not page.keys() & found.keys()
            found |= page
            after = max(page, default=after)
        return found

    for number in range(60):
        name = f"{hashlib.sha256(str(number).encode()).hexdigest()}.hfs"
        path = f"{('documents', 'increments', 'trust')[number % 3]}/{name if number % 3 < 2 else f'{number}.hfs'}"
        bring(files, path, b"%d" % number)
        there.add(path)
        if number % 5 == 4:
            gone = sorted(there)[number % len(there)]
            files.remove(gone, 0.0)
            files.remove(gone, 0.0)
            bring(files, sorted(there - {gone})[0], b"another one")
            there.discard(gone)
        assert listed(files) == {path: files.files[path].sha256 for path in sorted(there)}
    again = made(1 << 20, 1 << 10)
    assert listed(again) == listed(files) and len(listed(files)) == 48
    assert again.page("z", 7) == ({}, False)

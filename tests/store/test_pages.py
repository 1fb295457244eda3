"""rules L30, M6, M7; threats facts 1 and 2: what is sound is called sound, what would kill a writer is not"""

import itertools
import os
import random
import struct

import lmdb
import pytest

from store.fsck.metapage import FileState, inspect
from store.fsck.pages import PageFaultError, require_sound

PAGE = 4096


def grown(directory, seed, transactions=40):
    """A healthy environment after many puts and deletes; yields after each commit."""
    dice, keys = random.Random(seed), []
    directory.mkdir()
    environment = lmdb.open(str(directory), map_size=64 << 20, max_dbs=4, sync=False)
    databases = [environment.open_db(b"%d" % number) for number in range(3)]
    for _ in range(transactions):
        transaction = environment.begin(write=True)
        for _ in range(dice.randint(1, 60)):
            database = dice.choice(databases)
            if keys and dice.random() < dice.choice((0.3, 0.5, 0.9)):
                transaction.delete(dice.choice(keys), db=database)
            else:
                keys.append(dice.choice((os.urandom(32), b"%d" % dice.randrange(300))))
                transaction.put(keys[-1], bytes(dice.choice((0, 10, 1000, 2000, 9000, 60000))), db=database)
        transaction.commit()
        yield directory / "data.mdb"
    environment.close()


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_file_is_sound_after_each_commit(tmp_path, seed):
    for data in grown(tmp_path / "store", seed):
        require_sound(data, PAGE)


@pytest.mark.no_cover
def test_a_healthy_file_may_be_shorter_than_its_meta_page_says(tmp_path):
    """LMDB leaves pages unwritten that it took and gave back: the length alone is no verdict"""
    short = 0
    for seed in range(15):
        for data in grown(tmp_path / f"{seed}", seed, transactions=60):
            inspection = inspect(data)
            assert inspection.opens
            if inspection.state is FileState.SHORT:
                short += 1
                require_sound(data, PAGE)
    assert short or lmdb.version() != (0, 9, 36)


@pytest.fixture
def data(tmp_path):
    (*_, last) = grown(tmp_path / "store", 3)
    return last


def test_states_of_a_file(tmp_path, data):
    """rules L30, L31, M8"""
    assert inspect(tmp_path / "none").state is FileState.ABSENT
    (tmp_path / "empty").touch()
    assert inspect(tmp_path / "empty").state is FileState.EMPTY
    (tmp_path / "little").write_bytes(b"x" * 100)
    assert inspect(tmp_path / "little").state is FileState.DAMAGED
    whole = data.read_bytes()
    (tmp_path / "cut").write_bytes(whole[: 3 * PAGE])
    assert inspect(tmp_path / "cut").state is FileState.SHORT
    assert inspect(data).state is FileState.WHOLE
    for page in (0, 1):
        broken = bytearray(whole)
        broken[page * PAGE + 16] ^= 1
        (tmp_path / "broken").write_bytes(broken)
        assert inspect(tmp_path / "broken").state is FileState.DAMAGED


def test_every_exchanged_or_emptied_page_that_is_in_use_is_found(data):
    """rules J47: misdirected and lost writes"""
    whole = data.read_bytes()
    numbers = [number for number in range(2, len(whole) // PAGE) if is_tree_page(whole, number)]
    assert len(numbers) > 10
    found = 0
    for one, other in itertools.pairwise(numbers):
        swapped = bytearray(whole)
        swapped[one * PAGE : (one + 1) * PAGE] = whole[other * PAGE : (other + 1) * PAGE]
        data.write_bytes(swapped)
        try:
            require_sound(data, PAGE)
        except PageFaultError:
            found += 1
    assert found > len(numbers) // 3  # the others are free pages that hold old bytes


def is_tree_page(whole, number):
    (own, _, flags, _, _) = struct.unpack_from("=QHHHH", whole, number * PAGE)
    return own == number and flags & 3


def free_the_root(data):
    """Write the root of the main tree into a record of the free list: a writer would take it and write over it."""
    whole = bytearray(data.read_bytes())
    metas = [struct.unpack_from("=QQ", whole, start + 136) for start in (0, PAGE)]
    newest = metas.index(max(metas, key=lambda meta: meta[1])) * PAGE
    (free_root,) = struct.unpack_from("=Q", whole, newest + 40 + 40)
    (main_root,) = struct.unpack_from("=Q", whole, newest + 88 + 40)
    page = free_root * PAGE
    (start,) = struct.unpack_from("=H", whole, page + 16)
    _, _, flags, key_size = struct.unpack_from("=HHHH", whole, page + start)
    assert flags == 0
    struct.pack_into("=Q", whole, page + start + 8 + key_size + 8, main_root)
    data.write_bytes(whole)


def test_a_page_that_is_free_and_in_use_is_found(tmp_path):
    (*_, data) = grown(tmp_path / "store", 5)
    free_the_root(data)
    with pytest.raises(PageFaultError, match="free"):
        require_sound(data, PAGE)


def filled(folder, keys, value_size):
    """One database, written at once; the file, its bytes, and the pages of its tree with how many nodes each has."""
    folder.mkdir()
    with lmdb.open(str(folder), map_size=1 << 20, max_dbs=1) as environment:
        database = environment.open_db(b"one")
        with environment.begin(write=True) as writing:
            for key in keys:
                writing.put(key, bytes(value_size), db=database)
    whole = (folder / "data.mdb").read_bytes()
    require_sound(folder / "data.mdb", PAGE)
    pages = [number * PAGE for number in range(2, len(whole) // PAGE) if is_tree_page(whole, number)]
    counts = {page: (struct.unpack_from("=H", whole, page + 12)[0] - 16) // 2 for page in pages}
    return folder / "data.mdb", whole, counts


@pytest.mark.parametrize("grows", [2, 512])
def test_a_node_of_another_size_than_it_has_is_found(tmp_path, grows):
    """rules J47, M6: inside its page it reads well, and its removal would tear its neighbours"""
    data, whole, counts = filled(tmp_path / "store", (b"%032d" % number for number in range(20)), 20)
    (page,) = [page for page, count in counts.items() if count == 20]
    for start in struct.unpack_from("=20H", whole, page + 16):
        (size,) = struct.unpack_from("=H", whole, page + start)
        broken = bytearray(whole)
        struct.pack_into("=H", broken, page + start, size + grows)
        data.write_bytes(broken)
        with pytest.raises(PageFaultError, match=r"node|goes beyond"):
            require_sound(data, PAGE)


def test_a_key_where_nobody_looks_for_it_is_found(tmp_path):
    """rules J47, M6: its neighbours are in order, and it could be neither read nor removed"""
    data, whole, counts = filled(tmp_path / "store", (b"%032d" % (2 * number) for number in range(100)), 100)
    branches = [page for page in counts if struct.unpack_from("=QHH", whole, page)[2] & 1]
    (branch,) = branches
    starts = struct.unpack_from(f"={counts[branch]}H", whole, branch + 16)
    assert len(starts) > 2
    for start in starts[1:]:
        key = branch + start + 8
        for step in (-2, 2):  # the neighbour's: the last one of the part before, or the second one of this
            broken = bytearray(whole)
            broken[key : key + 32] = b"%032d" % (int(whole[key : key + 32]) + step)
            data.write_bytes(broken)
            with pytest.raises(PageFaultError, match="leads"):
                require_sound(data, PAGE)


@pytest.mark.parametrize("length", [2, 3, 10])
def test_a_cut_file_is_found(data, length):
    """rules M7"""
    with data.open("r+b") as file:
        file.truncate(length * PAGE)
    with pytest.raises(PageFaultError):
        require_sound(data, PAGE)


@pytest.mark.no_cover
def test_random_damage_raises_nothing_else(data):
    """threats fact 2: an exception of one kind, no other, no loop without end"""
    whole, dice = data.read_bytes(), random.Random(9)
    faults = 0
    for _ in range(100):
        broken = bytearray(whole)
        for _ in range(dice.randint(1, 20)):
            page = dice.randrange(len(broken) // PAGE) * PAGE
            broken[page + dice.choice((dice.randrange(16), dice.randrange(200), dice.randrange(PAGE)))] = (
                dice.randrange(256)
            )
        data.write_bytes(broken)
        try:
            require_sound(data, PAGE)
        except PageFaultError:
            faults += 1
    assert faults > 25

"""Flipped bits, cut files and mixed pages in numbers: rules J47, L30, L34; threats C02, C03, C09."""

import os
import random
import shutil

import pytest

from tests.store.cluster import Cluster, Node
from tests.store.test_startup import data_file, home, sections, survives

ROUNDS = int(os.environ.get("HOLDFAST_ROT", "400"))
PAGE = 4096


def flip(data, dice):
    for _ in range(dice.randint(1, 8)):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def zero_page(data, dice):
    start = dice.randrange(len(data) // PAGE) * PAGE
    data[start : start + PAGE] = bytes(PAGE)


def swap_pages(data, dice):
    one, other = (dice.randrange(2, len(data) // PAGE) * PAGE for _ in range(2))
    data[one : one + PAGE], data[other : other + PAGE] = data[other : other + PAGE], data[one : one + PAGE]


def tear_page(data, dice):
    """The second half of a page is another's: a torn write."""
    one, other = (dice.randrange(2, len(data) // PAGE) * PAGE for _ in range(2))
    data[one + PAGE // 2 : one + PAGE] = data[other + PAGE // 2 : other + PAGE]


def cut(data, dice):
    del data[dice.randrange(len(data)) :]


def page_header(data, dice):
    start = dice.randrange(len(data) // PAGE) * PAGE
    data[start + dice.randrange(16)] ^= 1 << dice.randrange(8)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [flip, zero_page, swap_pages, tear_page, cut, page_header])
def test_never_a_dead_process_nor_a_lowered_floor_nor_wrong_bytes(tmp_path, damage):
    """rules J47: torn, misdirected and lost writes, bit rot"""
    origin = Node(tmp_path / "origin", Cluster())
    with origin:
        origin.apply(origin.cluster.bundle())
        for version in (1, 2, 3):
            origin.apply(origin.cluster.snapshot(version, sections(version)))
    dice = random.Random(damage.__name__)
    for number in range(ROUNDS // 6):
        node = Node(tmp_path / f"{number}", origin.cluster)
        shutil.copytree(origin.path, node.path)
        data = bytearray(data_file(node).read_bytes())
        damage(data, dice)
        data_file(node).write_bytes(data)
        survives(node)
        shutil.rmtree(node.path)


@pytest.mark.slow
def test_floor_files_in_any_state(tmp_path):
    """rules L32; threats D-24: one, both, cut, flipped, exchanged; the mark never goes down"""
    origin = Node(tmp_path / "origin", Cluster())
    with origin:
        origin.apply(origin.cluster.bundle())
        for version in (1, 2, 3):
            origin.apply(origin.cluster.snapshot(version, sections(version)))
    dice = random.Random(2)
    for number in range(ROUNDS // 6):
        node = Node(tmp_path / f"{number}", origin.cluster)
        shutil.copytree(origin.path, node.path)
        for name in dice.choice([("a.rec",), ("b.rec",), ("a.rec", "b.rec")]):
            path = home(node) / "floors" / name
            data = bytearray(path.read_bytes())
            dice.choice([flip, cut, lambda found, _: found.clear()])(data, dice)
            path.write_bytes(data)
        survives(node)
        shutil.rmtree(node.path)

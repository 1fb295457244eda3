"""Every code block of every page is executed, read, or booted elsewhere: none stands there for show.

How a new block is covered: one line in page_table.py, whose head says how. The tour of README.md is pasted as a reader
would paste it, in test_tour.py.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documented_blocks import PAGES, blocks
from tests.journeys.page_table import COVERED
from tests.journeys.page_world import Ran, World


@pytest.mark.parametrize("page", PAGES)
def test_every_block_stands_in_the_table(page):
    """How to add one stands at the head of this file."""
    there, listed = [block.name for block in blocks(page)], [name for name, _ in COVERED.get(page, [])]
    strays = [name for name in there if not name.startswith(tuple(listed))]
    assert strays == [], f"{page} has blocks that nobody executes"
    assert [name for name, begin in zip(there, listed, strict=True) if not name.startswith(begin)] == []


def test_the_table_is_of_pages_that_there_are():
    assert set(COVERED) == {page for page in PAGES if blocks(page)}


@pytest.fixture
def world() -> Iterator[World]:
    """In a folder with a short name, since sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="hf-", dir="/tmp"))
    made = World(folder)
    try:
        yield made
    finally:
        made.end()
        shutil.rmtree(folder)


@pytest.mark.parametrize("page", sorted(COVERED))
def test_what_the_page_shows_is_so(page, world):
    """As somebody who goes through it from its first block to its last"""
    last: list[Ran] = []
    for block, (_, covered) in zip(blocks(page), COVERED[page], strict=True):
        last = covered.hold(block, world, last)

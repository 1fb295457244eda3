"""The pages of `data.mdb`, walked without LMDB and without mapping them: do they hold together?

LMDB has no checksums and, before 0.9.36, no page checks. A tree whose pages contradict each other may read well and
end the process at the next write. So before LMDB maps the file, everything that its writers rely on is looked at:
each page says its own number and kind, is reached once, has its nodes side by side inside it and its keys in order;
what is counted is there; no free page is in use. Format: lmdb.h and mdb.c of 0.9, 64 bits, this machine's byte order.

What is inside the values has checksums of its own (`store.base.records`, `store.base.blobs`).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

_PAGE = struct.Struct("=QHHHH")  # number, pad, flags, lower, upper
_PAGES = struct.Struct("=I")  # of an overflow page, in place of lower and upper
_NODE = struct.Struct("=HHHH")  # low and high half of the size, flags, size of the key
_DATABASE = struct.Struct("=IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_META_DATABASES, _META_LAST = 40, struct.Struct("=QQ")
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_KIND = _BRANCH | _LEAF | _OVERFLOW | 8 | 32 | 64
_BIG, _SUB, _DUP = 1, 2, 4
_NO_PAGE = (1 << 64) - 1
_MOST_DEPTH = 32
_MOST_KEY = 511
_META_PAGES = 2
_NUMBER_SIZE = 8  # of a page number, which a long value's node has in place of it

Node = tuple[int, int, int, int]


class PageFaultError(Exception):
    """The pages do not hold together; the text says where."""


class Tree(NamedTuple):
    """What a meta page or a leaf says of one database."""

    flags: int
    depth: int
    branch_pages: int
    leaf_pages: int
    overflow_pages: int
    entries: int
    root: int


@dataclass
class _Count:
    branch: int = 0
    leaf: int = 0
    overflow: int = 0
    entries: int = 0


@dataclass
class _Walk:
    """One look at one file."""

    file: BinaryIO
    page_size: int
    pages: int  # the first page number that was never used
    reached: set[int] = field(default_factory=set)
    free: set[int] = field(default_factory=set)


def require_sound(data_file: Path, page_size: int) -> None:
    """PageFaultError unless the newest transaction's pages hold together."""
    with data_file.open("rb") as file:
        free, main, pages = _newest(file, page_size)
        walk = _Walk(file, page_size, pages)
        try:
            for key, value in _entries(walk, free, "free list"):
                _take_free(walk, key, value)
            for name, value in list(_entries(walk, main, "main")):
                _sub_database(walk, name, value)
        except struct.error as error:
            raise PageFaultError(f"a page is cut short: {error}") from error
        if walk.free & walk.reached:
            raise PageFaultError(f"page {min(walk.free & walk.reached)} is free and in use")


def _newest(file: BinaryIO, page_size: int) -> tuple[Tree, Tree, int]:
    """The two trees of the newer meta page, and the first page number that was never used."""
    metas = []
    for number in range(_META_PAGES):
        file.seek(number * page_size)
        page = file.read(page_size)
        last, transaction = _META_LAST.unpack_from(page, _META_DATABASES + 2 * _DATABASE.size)
        trees = [Tree(*_DATABASE.unpack_from(page, _META_DATABASES + n * _DATABASE.size)[1:]) for n in (0, 1)]
        metas.append((transaction, trees[0], trees[1], last + 1))
    _, free, main, pages = max(metas, key=lambda meta: meta[0])
    return free, main, pages


def _sub_database(walk: _Walk, name: bytes, value: "_Value") -> None:
    if not value.flags & _SUB:
        raise PageFaultError(f"{name[:32]!r} in the main tree is no database")
    tree = Tree(*_DATABASE.unpack(value.data)[1:])
    for _, entry in _entries(walk, tree, name.decode("ascii", "replace")):
        if entry.flags & _SUB:
            raise PageFaultError(f"{name[:32]!r} holds a database")


def _take_free(walk: _Walk, key: bytes, value: "_Value") -> None:
    """A record of the free list: a count, and so many page numbers."""
    numbers = struct.unpack(f"={len(value.data) // 8}Q", value.data[: len(value.data) // 8 * 8])
    if len(key) != 8 or not numbers or numbers[0] > len(numbers) - 1:
        raise PageFaultError("a record of the free list is not one")
    for number in numbers[1 : numbers[0] + 1]:
        if number in walk.free or not _META_PAGES <= number < walk.pages:
            raise PageFaultError(f"page {number} cannot be free, or is so twice")
        walk.free.add(number)


class _Value(NamedTuple):
    flags: int
    data: bytes  # of a value on pages of its own: nothing, but in the free list


def _entries(walk: _Walk, tree: Tree, name: str) -> Iterator[tuple[bytes, _Value]]:
    """Keys and values of a tree in order; every page of it is looked at, and counted in the end."""
    count = _Count()
    if tree.root != _NO_PAGE:
        before = None
        for key, value in _subtree(walk, tree.root, tree.depth, count, keep=name == "free list"):
            if name != "free list" and before is not None and before >= key:
                raise PageFaultError(f"{name}: keys are out of order")
            before = key
            count.entries += 1
            yield key, value
    expected = tree.branch_pages, tree.leaf_pages, tree.overflow_pages, tree.entries
    if (count.branch, count.leaf, count.overflow, count.entries) != expected:
        raise PageFaultError(f"{name}: it counts {expected}, and has {tuple(vars(count).values())}")


def _subtree(walk: _Walk, number: int, depth: int, count: _Count, *, keep: bool) -> Iterator[tuple[bytes, _Value]]:
    if not 0 < depth <= _MOST_DEPTH:
        raise PageFaultError(f"page {number} lies at depth {depth}")
    if depth > 1:
        yield from _branch(walk, number, depth, count, keep=keep)
        return
    page = _page(walk, number, _LEAF)
    count.leaf += 1
    for (low, high, flags, key_size), start in _nodes(page, number, depth):
        key_end = start + _NODE.size + key_size
        key = page[start + _NODE.size : key_end]
        yield key, _value(walk, page, key_end, low | high << 16, flags, count, keep=keep)


def _branch(walk: _Walk, number: int, depth: int, count: _Count, *, keep: bool) -> Iterator[tuple[bytes, _Value]]:
    """What is below it, each part from the key on by which it is looked for; the first has none."""
    page = _page(walk, number, _BRANCH)
    count.branch += 1
    last = b""
    for index, ((low, high, flags, key_size), start) in enumerate(_nodes(page, number, depth)):
        # The free list's keys are numbers, in this machine's byte order.
        least = page[start + _NODE.size : start + _NODE.size + key_size] if index and not keep else b""
        if least and last >= least:
            raise PageFaultError(f"page {number} leads past a key of the part before")
        for key, value in _subtree(walk, low | high << 16 | flags << 32, depth - 1, count, keep=keep):
            if key < least:
                raise PageFaultError(f"page {number} leads to a key where nobody looks for it")
            last = key
            yield key, value


def _value(walk: _Walk, page: bytes, start: int, size: int, flags: int, count: _Count, *, keep: bool) -> _Value:
    if flags & _DUP or flags & ~(_BIG | _SUB | _DUP):
        raise PageFaultError("a node has flags that we never use")
    if not flags & _BIG:
        if start + size > len(page):
            raise PageFaultError("a value goes beyond its page")
        return _Value(flags, page[start : start + size])
    (number,) = struct.unpack_from("=Q", page, start)
    header = _page(walk, number, _OVERFLOW)
    (pages,) = _PAGES.unpack_from(header, 12)
    if pages * walk.page_size < _PAGE.size + size or number + pages > walk.pages:
        raise PageFaultError(f"the value at page {number} has {size} bytes on {pages} pages")
    rest = set(range(number + 1, number + pages))
    if rest & walk.reached:
        raise PageFaultError(f"a page of the value at page {number} is in use elsewhere")
    walk.reached |= rest
    count.overflow += pages
    return _Value(flags, _long_value(walk, number, pages, size) if keep else _last_page(walk, number, pages))


def _long_value(walk: _Walk, number: int, pages: int, size: int) -> bytes:
    walk.file.seek(number * walk.page_size + _PAGE.size)
    data = walk.file.read(size)
    if len(data) != size:
        raise PageFaultError(f"the value at page {number} is cut short")
    return data


def _last_page(walk: _Walk, number: int, pages: int) -> bytes:
    """Nothing of it is wanted, only that the file has it: to read beyond the end would be SIGBUS."""
    walk.file.seek((number + pages) * walk.page_size - 1)
    if not walk.file.read(1):
        raise PageFaultError(f"the value at page {number} is cut short")
    return b""


def _page(walk: _Walk, number: int, kind: int) -> bytes:
    if not _META_PAGES <= number < walk.pages or number in walk.reached:
        raise PageFaultError(f"page {number} does not exist, or is reached twice")
    walk.reached.add(number)
    walk.file.seek(number * walk.page_size)
    page = walk.file.read(walk.page_size)
    if len(page) < walk.page_size:
        raise PageFaultError(f"page {number} is beyond the end of the file")
    own, _, flags, _, _ = _PAGE.unpack_from(page)
    if own != number or flags & _KIND != kind:
        raise PageFaultError(f"page {number} says it is page {own} of kind {flags & _KIND}, not {kind}")
    return page


def _nodes(page: bytes, number: int, depth: int) -> list[tuple[Node, int]]:
    """The nodes of a tree page, each with its offset, all inside the page."""
    _, _, _, lower, upper = _PAGE.unpack_from(page)
    if not _PAGE.size <= lower <= upper <= len(page) or (lower - _PAGE.size) % 2:
        raise PageFaultError(f"page {number} has its bounds at {lower} and {upper}")
    starts = struct.unpack_from(f"={(lower - _PAGE.size) // 2}H", page, _PAGE.size)
    if not starts or (depth > 1 and len(starts) < 2):
        raise PageFaultError(f"page {number} has {len(starts)} nodes")
    nodes = []
    for index, start in enumerate(starts):
        if not upper <= start <= len(page) - _NODE.size:
            raise PageFaultError(f"page {number} has a node at {start}")
        node = _NODE.unpack_from(page, start)
        least = 0 if depth > 1 and index == 0 else 1
        if not least <= node[3] <= _MOST_KEY or start + _NODE.size + node[3] > len(page):
            raise PageFaultError(f"page {number} has a key of {node[3]} bytes")
        nodes.append((node, start))
    _require_side_by_side(nodes, number, depth, upper, len(page))
    return nodes


def _require_side_by_side(nodes: list[tuple[Node, int]], number: int, depth: int, upper: int, end: int) -> None:
    """LMDB leaves no room between nodes. Who deletes one of another size than it has moves parts of its neighbours."""
    expected = upper
    for (low, high, flags, key_size), start in sorted(nodes, key=lambda node: node[1]):
        if start != expected:
            raise PageFaultError(f"page {number} has a node at {start}, where the one before it ends at {expected}")
        value_size = 0 if depth > 1 else _NUMBER_SIZE if flags & _BIG else low | high << 16
        size = _NODE.size + key_size + value_size
        expected = start + size + size % 2
    if expected != end:
        raise PageFaultError(f"page {number} has its last node's end at {expected}")

"""What LMDB's two meta pages say of `data.mdb`, read without mapping it (rules L30, L31, M7, M8)."""

import struct
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

_PAGE_HEADER = 16
_MAGIC = 0xBEEFC0DE
_VERSION = 1
_P_META = 0x08
_NUMBERS = struct.Struct("=QQ")  # last page, transaction
_OFFSET_OF_NUMBERS = 136
_OFFSET_OF_PAGE_SIZE = 40
_LEAST_PAGE, _MOST_PAGE = 512, 65536


class FileState(Enum):
    ABSENT = "no data.mdb"
    EMPTY = "data.mdb is empty"
    DAMAGED = "a meta page is damaged"
    SHORT = "shorter than its newest meta page says"
    WHOLE = "as long as its newest meta page says"


@dataclass(frozen=True)
class Inspection:
    """`pages_missing` counts what a SHORT file lacks at its end.

    SHORT alone is no verdict: LMDB does not write a page that it took and gave back in the same transaction, so a
    healthy file can lack pages at its end that nothing refers to. Who has read everything decides (`store.fsck.walk`).
    """

    state: FileState
    page_size: int = 0
    pages_missing: int = 0

    @property
    def opens(self) -> bool:
        return self.state in (FileState.SHORT, FileState.WHOLE)


def inspect(data_file: Path) -> Inspection:
    """The state of `data.mdb`, by its size and its newest meta page."""
    try:
        size = data_file.stat().st_size
    except FileNotFoundError:
        return Inspection(FileState.ABSENT)
    if size == 0:
        return Inspection(FileState.EMPTY)
    with data_file.open("rb") as file:
        head = file.read(2 * _MOST_PAGE)
    if len(head) < _OFFSET_OF_NUMBERS + _NUMBERS.size:
        return Inspection(FileState.DAMAGED)
    (page_size,) = struct.unpack_from("=I", head, _OFFSET_OF_PAGE_SIZE)
    if not _LEAST_PAGE <= page_size <= _MOST_PAGE or not all(_is_meta(head, start) for start in (0, page_size)):
        return Inspection(FileState.DAMAGED, page_size)
    last_page, _ = max(
        (_NUMBERS.unpack_from(head, start + _OFFSET_OF_NUMBERS) for start in (0, page_size)),
        key=lambda numbers: numbers[1],
    )
    missing = max(0, last_page + 1 - size // page_size)
    return Inspection(FileState.SHORT if missing else FileState.WHOLE, page_size, missing)


def _is_meta(head: bytes, start: int) -> bool:
    if len(head) < start + _OFFSET_OF_NUMBERS + _NUMBERS.size:
        return False
    (flags,) = struct.unpack_from("=H", head, start + 10)
    magic, version = struct.unpack_from("=II", head, start + _PAGE_HEADER)
    return bool(flags & _P_META) and magic == _MAGIC and version == _VERSION

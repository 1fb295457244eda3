"""What a projected file is written from: bytes, and pieces of the file that it takes the place of; or what is written
into one of before.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class CopiedPiece(NamedTuple):
    """So many bytes of the file before, from there on."""

    offset: int
    size: int


class PlacedPiece(NamedTuple):
    """Bytes that lie from there on."""

    offset: int
    data: bytes


Piece = bytes | CopiedPiece
ReadSection = Callable[[str], bytes]
Pieces = Callable[[ReadSection], Iterable[bytes]]

"""What a projected file is written from: bytes, and pieces of the file that it takes the place of."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class CopiedPiece(NamedTuple):
    """So many bytes of the file before, from there on."""

    offset: int
    size: int


Piece = bytes | CopiedPiece
ReadSection = Callable[[str], bytes]
Pieces = Callable[[ReadSection], Iterable[bytes]]

"""Contents of files, looked at in their parts: how many there are, where a secret stands, what a text says. Pure.

A file may have 256 MiB, so nothing here holds more of one than a part and what a match may begin in before it.
"""

import codecs
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from coordinator.base import private_key_scan
from coordinator.declared import value_shapes
from coordinator.declared.value_shapes import Shapes
from snapshot import secrets
from snapshot.limits import DEFAULT

ReadPart = Callable[[str], bytes]
"""The bytes of a part by their SHA-256 (hex)."""
PART_BYTES = DEFAULT.section_bytes
_REACH = 4_096  # a match is looked for across the end of a part, and is no longer than this (format.md 11)
HIDDEN_KEY = "private_key_in_base64"


@dataclass(frozen=True)
class UploadedFile:
    """What was uploaded of a file: its size, and the SHA-256 of each of its parts."""

    size: int
    parts: tuple[str, ...]


def read_none(sha256: str) -> bytes:
    """A `ReadPart` of who needs none: of what lies in no store."""
    raise KeyError(sha256)


def split(data: bytes) -> list[bytes]:
    """In parts of one MiB; of nothing there is one, empty."""
    return [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)] or [b""]


def digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


def sizes(size: int) -> list[int]:
    """Of the parts of a file of this size."""
    return [min(PART_BYTES, size - start) for start in range(0, size, PART_BYTES)] or [0]


@dataclass(frozen=True)
class Suspicion:
    """What a text is taken for. `is_certain`: nodes refuse it, and nothing exempts it; else it is a family of the
    coordinator's own table, which may have the same name.
    """

    family: str
    is_certain: bool


def secrets_in(parts: Iterable[bytes], shapes: Shapes) -> Iterator[tuple[int, Suspicion]]:
    """Line (from 1) of what looks like a secret, the first of each family."""
    found: set[Suspicion] = set()
    for before, text in _texts(parts):
        for suspicion in _suspicions(text, shapes):
            if suspicion not in found:
                found.add(suspicion)
                yield before + _line_of(text, suspicion, shapes), suspicion


def _texts(parts: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """Each part with the end of the one before, as text; and how many lines lie before it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    kept, before = "", 0
    for part in parts:
        text = kept + decoder.decode(part)
        yield before, text
        kept = text[-_REACH:]
        before += text.count("\n", 0, len(text) - len(kept))


def _suspicions(text: str, shapes: Shapes) -> Iterator[Suspicion]:
    finding = secrets.find_secret(text)  # its gates cost less than `shape_of`
    if finding is not None:
        yield Suspicion(finding.detector, is_certain=True)
    if private_key_scan.find(text) is not None:
        yield Suspicion(HIDDEN_KEY, is_certain=True)
    if "\0" not in text and "\ufffd" not in text:  # the table is of what people write
        yield from (Suspicion(family, is_certain=False) for family in value_shapes.families_in(shapes, text))


def _line_of(text: str, wanted: Suspicion, shapes: Shapes) -> int:
    """The line at whose end it is whole. By halves: each line by itself is seconds of work in a file of many."""
    ends = [*(found.start() for found in re.finditer("\n", text)), len(text)]
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        earlier = max(0, ends[low - 1] - _REACH) if low else 0
        begin = text.rfind("\n", 0, earlier) + 1  # what began on a line before
        if wanted in set(_suspicions(text[begin : ends[middle]], shapes)):
            high = middle
        else:
            low = middle + 1
    return low + 1

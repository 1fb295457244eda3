"""Many parts of files in one body: a folder of ten thousand small files goes up in a few requests. Pure.

    join(parts)      bodies, each as full as it may be, in the order of the parts
    split(body)      the parts of one; ValueError where it is anything else

A body is one part after the other: 32 bytes of SHA-256, 4 bytes of length (big-endian), the bytes. The hash says what
the sender read, so that no part is kept under what became of it on the way. Rejected: multipart, whose borders are
looked for in the content; and base64 in JSON, a third larger and read as a whole.
"""

import hashlib
from collections.abc import Iterable, Iterator

from coordinator.declared.contents import PART_BYTES

MEDIA_TYPE = "application/vnd.holdfast.parts"
BODY_BYTES = 4 << 20  # what a coordinator holds of one upload at a time
_HASH, _LENGTH = 32, 4
_FRAME = _HASH + _LENGTH


def join(parts: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Each body, and how many bytes of parts are in it."""
    gathered: list[bytes] = []
    size = 0
    for part in parts:
        if size + (_FRAME * (len(gathered) + 1)) + len(part) > BODY_BYTES:
            yield _body(gathered), size
            gathered, size = [], 0
        gathered.append(part)
        size += len(part)
    if gathered:
        yield _body(gathered), size


def split(body: bytes) -> list[bytes]:
    """Each with the bytes that its hash says; nothing of a body of which one has others."""
    found, at, view = [], 0, memoryview(body)
    while at < len(view):
        frame, at = view[at : at + _FRAME], at + _FRAME
        length = int.from_bytes(frame[_HASH:], "big")
        part, at = bytes(view[at : at + length]), at + length
        if len(frame) < _FRAME or length > PART_BYTES or len(part) < length:
            raise ValueError("these are no parts, each with its hash and length")
        if hashlib.sha256(part).digest() != frame[:_HASH]:
            raise ValueError("a part has another SHA-256 than it says")
        found.append(part)
    return found


def _body(parts: Iterable[bytes]) -> bytes:
    framed = (hashlib.sha256(part).digest() + len(part).to_bytes(_LENGTH, "big") + part for part in parts)
    return b"".join(framed)

"""Small checksummed files: magic, sequence number, length, canonical JSON, SHA-256 (threats D-24)."""

import hashlib
import hmac
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from snapshot.canonical import NotCanonical, dumps, loads

_HEADER = struct.Struct(">QI")
_DIGEST = hashlib.sha256().digest_size
MAX_BYTES = 16 << 20


class UnreadableFile(ValueError):
    """A sealed file that is not what was written: cut, flipped, of another kind."""


def seal(magic: bytes, sequence: int, payload: Mapping[str, object]) -> bytes:
    body = dumps(payload)
    record = magic + _HEADER.pack(sequence, len(body)) + body
    return record + hashlib.sha256(record).digest()


def unseal(magic: bytes, data: bytes) -> tuple[int, dict[str, object]]:
    """The sequence number and the payload; Unreadable for anything that `seal` did not write."""
    start = len(magic) + _HEADER.size
    record, digest = data[:-_DIGEST], data[-_DIGEST:]
    if not data.startswith(magic) or len(data) < start + _DIGEST:
        raise UnreadableFile("cut short, or of another kind")
    if not hmac.compare_digest(hashlib.sha256(record).digest(), digest):
        raise UnreadableFile("checksum does not match")
    sequence, length = _HEADER.unpack_from(record, len(magic))
    if length != len(record) - start:
        raise UnreadableFile("length does not match")
    try:
        payload = loads(record[start:])
    except NotCanonical as error:
        raise UnreadableFile(str(error)) from error
    if not isinstance(payload, dict):
        raise UnreadableFile("not an object")
    return sequence, payload


def read(magic: bytes, path: Path) -> tuple[int, dict[str, object]] | None:
    """What the file holds; None when there is no file; Unreadable when it is damaged."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(str(error)) from error
    with os.fdopen(descriptor, "rb") as file:
        try:
            return unseal(magic, file.read(MAX_BYTES))
        except OSError as error:
            raise UnreadableFile(str(error)) from error

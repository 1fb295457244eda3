"""The bytes of one published document, as a store takes them: small ones whole, large ones piece by piece.

A large one is read twice: once for its hashes, which stores want before the first byte, and once as it is sent. Its
sections lie in the database under their hashes, so that both readings give the same; and memory holds one at a time.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coordinator.database import documents
from coordinator.database.database import Database
from coordinator.database.documents import Document, StoredObject, container_of
from snapshot import container, envelope
from snapshot.container import ChunkParts
from snapshot.identifiers import HEAD

WHOLE_BYTES = 1 << 20


@dataclass(frozen=True)
class Payload:
    """`read` gives the bytes anew at each call, from the database: on a thread."""

    size: int
    sha256: str
    md5: str
    read: Callable[[], Iterator[bytes]]


def read_payload(database: Database, snapshot_id: str) -> Payload:
    """Refused `not_found` for a document that is kept no more."""
    found = documents.stored_document(database, snapshot_id, most=WHOLE_BYTES)
    named = [section for section in found.sections if isinstance(section, StoredObject)]
    if not named:
        return payload_of(container_of(found))
    return _payload_of(lambda: _pieces(database, found, named))


def payload_of(data: bytes) -> Payload:
    """Of a document that is at hand."""
    return _payload_of(lambda: iter((data,)))


def snapshot_id_of(container_bytes: bytes) -> str:
    """Of a head of ours."""
    return envelope.parse(ChunkParts([container_bytes]).opening().envelope, HEAD).snapshot_id


def _payload_of(read: Callable[[], Iterator[bytes]]) -> Payload:
    size, sha256, md5 = 0, hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    for piece in read():
        size += len(piece)
        sha256.update(piece)
        md5.update(piece)
    return Payload(size, sha256.hexdigest(), md5.hexdigest(), read)


def _pieces(database: Database, found: Document, named: list[StoredObject]) -> Iterator[bytes]:
    yield from container.encode_opening(found.envelope, found.signatures, found.manifest, len(named))
    for section in named:
        yield container.encode_section_head(section.size)
        yield documents.section(database, section.key)

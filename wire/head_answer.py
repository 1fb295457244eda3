"""What a request for a head is answered with: the head, and small documents that it lists anew, where asked for.

A change of one small document costs a node two requests, the head and the document, and of a fleet the coordinator has
as many to answer: with `inline` in its request a node says how many bytes of documents it takes beside a head. The
answer is of a type of its own then. What is in it is as good as its signatures: the node verifies each as if it had
fetched it, looks for what its head lists alone, and asks for all that is not there.

The form: of each container its length in four bytes, the greatest first, and its bytes; the head is the first.

Rejected: JSON with base64, a third more bytes and a copy of each; and multipart, whose boundaries have to be searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from snapshot import container
from wire.strict_json import BadMessageError

MEDIA_TYPE = "application/vnd.holdfast.documents"
INLINE_BYTES = 32 << 10  # of documents beside one head, at most
INLINE_DOCUMENTS = 64
_LENGTH = 4


@dataclass(frozen=True)
class HeadAnswer:
    """Containers, as they were signed."""

    head: bytes
    documents: tuple[bytes, ...] = ()

    @property
    def media_type(self) -> str:
        return MEDIA_TYPE if self.documents else container.MEDIA_TYPE

    def to_bytes(self) -> bytes:
        if not self.documents:
            return self.head
        parts = (self.head, *self.documents)
        return b"".join(piece for part in parts for piece in (len(part).to_bytes(_LENGTH, "big"), part))

    @classmethod
    def parse(cls, media_type: str, data: bytes) -> Self:
        """BadMessageError for what is out of form. Of another type it is a head alone: whoever serves files knows of no
        other.
        """
        if media_type != MEDIA_TYPE:
            return cls(data)
        head, *documents = _parts(data)
        if len(documents) > INLINE_DOCUMENTS or sum(map(len, documents)) > INLINE_BYTES:
            raise BadMessageError("more documents beside a head than it may have")
        if len(set(documents)) < len(documents):
            raise BadMessageError("a document beside a head that stands there twice")
        return cls(head, tuple(documents))


def _parts(data: bytes) -> Iterator[bytes]:
    start = 0
    while not start or start < len(data):
        length = int.from_bytes(data[start : start + _LENGTH], "big")
        start += _LENGTH
        if not 0 < length <= len(data) - start:
            raise BadMessageError("a length that is none of a document's")
        yield data[start : start + length]
        start += length

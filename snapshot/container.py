"""The container of format.md 3: one MessagePack value, read as it arrives, by hand.

    Reader      sans-I/O: fed with any split of the bytes, gives the parts in order
    Parts       what a verifier pulls: from a stream of chunks here, from a pending slot in the store
    encode      the bytes of a container

No general decoder and no recursion; nothing is allocated by a length that was not checked first (threats D-4).
A section is handed over whole, and at most one is ever held.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from snapshot.frozen import frozen
from snapshot.identifiers import is_key_id
from snapshot.limits import DEFAULT, Limits
from snapshot.reasons import Reason, Rejected

MEDIA_TYPE = "application/vnd.holdfast.document"
SUFFIX = ".hfs"

_OUTER = 0x94  # array(4)
_KEY_ID_BYTES = 71  # "sha256:" and 64 digits, as str 8


class Need(Enum):
    DATA = "data"


@frozen
class Opening:
    """All that steps 1..5 look at: the envelope and the signatures over it, each a key id and its bytes."""

    envelope: bytes
    signatures: tuple[tuple[str, bytes], ...]


@frozen
class ManifestRead:
    manifest: bytes


@dataclass(frozen=True)
class SectionRead:
    data: bytes


@frozen
class End:
    """The container is whole, and nothing follows it."""


Event = Opening | ManifestRead | SectionRead | End
_Steps = Generator[int | Event, bytes, None]


class Parts(Protocol):
    """A document as the verifier pulls it; each is called once, in this order."""

    def opening(self) -> Opening: ...

    def manifest(self) -> bytes: ...

    def sections(self, sizes: Sequence[int]) -> Iterator[bytes]:
        """The sections, whose signed sizes in bytes are `sizes`; the last one read, nothing may follow."""


class Reader:
    """Reads one container; after a `Rejected` it gives that verdict for ever.

    receive_data(b"") says that no more is coming. After `ManifestRead`, `expect(sizes)` must tell the signed sizes.
    """

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._buffer = bytearray()
        self._ended = False
        self._sizes: Sequence[int] | None = None
        self._verdict: Rejected | None = None
        self._steps = self._read()
        self._next: int | Event = next(self._steps)  # bytes wanted, or what has been read

    def receive_data(self, data: bytes) -> None:
        self._ended = self._ended or not data
        self._buffer += data

    def expect(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes

    def next_event(self) -> Event | Need:
        if self._verdict is not None:
            raise self._verdict
        try:
            return self._advance()
        except Rejected as verdict:
            self._verdict = verdict
            raise

    def _advance(self) -> Event | Need:
        while isinstance(self._next, int):
            if len(self._buffer) < self._next:
                if self._ended:
                    raise _bad(f"{self._next} more bytes", f"the end after {len(self._buffer)}")
                return Need.DATA
            data = bytes(memoryview(self._buffer)[: self._next])
            del self._buffer[: self._next]
            self._next = self._steps.send(data)
        event = self._next
        if isinstance(event, End):
            if self._buffer:
                raise _bad("nothing after the last section", "more bytes")
            return event if self._ended else Need.DATA
        self._next = next(self._steps)
        return event

    def _read(self) -> _Steps:
        """The format, top to bottom. Yields how many bytes it wants, or a part."""
        if (yield 1)[0] != _OUTER:
            raise _bad("an array of 4", "something else", "container")
        envelope = yield from self._binary(self._limits.envelope_bytes, "envelope")
        yield Opening(envelope, (yield from self._signatures()))
        yield ManifestRead((yield from self._binary(self._limits.manifest_bytes, "manifest")))
        yield from self._sections()
        yield End()

    def _signatures(self) -> Generator[int | Event, bytes, tuple[tuple[str, bytes], ...]]:
        count = yield from self._array(self._limits.signatures, "signatures")
        if count == 0:
            raise _bad("at least one signature", "none", "signatures")
        found: dict[str, bytes] = {}
        for _ in range(count):
            if (yield 1)[0] != 0x92:
                raise _bad("an array of 2", "something else", "signatures")
            key_id = yield from self._key_id()
            if key_id in found:
                raise _bad("each key id once", "one twice", "signatures")
            found[key_id] = yield from self._binary(self._limits.signature_bytes, "signatures")
        return tuple(found.items())

    def _key_id(self) -> Generator[int | Event, bytes, str]:
        if (yield 2) != bytes((0xD9, _KEY_ID_BYTES)):
            raise _bad("a key id", "something else", "signatures")
        text = (yield _KEY_ID_BYTES).decode("ascii", "replace")
        if not is_key_id(text):
            raise _bad("a key id", "other characters", "signatures")
        return text

    def _sections(self) -> _Steps:
        count = yield from self._array(self._limits.sections, "sections")
        if self._sizes is None:
            raise RuntimeError("expect() was not called after ManifestRead")
        if count != len(self._sizes):
            raise _mismatch(f"{len(self._sizes)} sections", count)
        for size in self._sizes:
            length = yield from self._length(self._limits.section_bytes, "sections")
            if length != size:
                raise _mismatch(f"a section of {size} bytes", length)
            yield SectionRead((yield length))

    def _binary(self, most: int, where: str) -> Generator[int | Event, bytes, bytes]:
        return (yield (yield from self._length(most, where)))

    def _length(self, most: int, where: str) -> Generator[int | Event, bytes, int]:
        """The length of a bin, in its shortest form."""
        width = {0xC4: 1, 0xC5: 2, 0xC6: 4}.get((yield 1)[0])
        if width is None:
            raise _bad("a bin", "something else", where)
        length = int.from_bytes((yield width), "big")
        if width > 1 and length < 1 << 8 * (width // 2):
            raise _bad("the shortest form of a length", "a longer one", where)
        if length > most:
            raise _too_large(most, length, where)
        return length

    def _array(self, most: int, where: str) -> Generator[int | Event, bytes, int]:
        """The number of items of an array, in its shortest form."""
        first = (yield 1)[0]
        width = {0xDC: 2, 0xDD: 4}.get(first)
        if first & 0xF0 == 0x90:
            count = first & 0x0F
        elif width is not None:
            count = int.from_bytes((yield width), "big")
            if count < (16 if width == 2 else 1 << 16):
                raise _bad("the shortest form of a length", "a longer one", where)
        else:
            raise _bad("an array", "something else", where)
        if count > most:
            raise _too_large(most, count, where)
        return count


class ChunkParts:
    """`Parts` of a stream of chunks, pulled as they are needed."""

    def __init__(self, chunks: Iterable[bytes], limits: Limits = DEFAULT) -> None:
        self._chunks = iter(chunks)
        self._reader = Reader(limits)

    def opening(self) -> Opening:
        event = self._pull()
        if not isinstance(event, Opening):
            raise RuntimeError("opening() comes first")
        return event

    def manifest(self) -> bytes:
        event = self._pull()
        if not isinstance(event, ManifestRead):
            raise RuntimeError("manifest() comes after opening()")
        return event.manifest

    def sections(self, sizes: Sequence[int]) -> Iterator[bytes]:
        self._reader.expect(sizes)
        while isinstance(event := self._pull(), SectionRead):
            yield event.data

    def _pull(self) -> Event:
        while (event := self._reader.next_event()) is Need.DATA:
            # An empty chunk in the middle is no end.
            self._reader.receive_data(next((chunk for chunk in self._chunks if chunk), b""))
        assert not isinstance(event, Need)  # noqa: S101 - narrows the type
        return event


def encode(
    envelope: bytes, signatures: Iterable[tuple[str, bytes]], manifest: bytes, sections: Sequence[bytes]
) -> Iterator[bytes]:
    """The container's bytes, piece by piece."""
    yield from encode_opening(envelope, signatures, manifest, len(sections))
    for section in sections:
        yield encode_section_head(len(section))
        yield section


def encode_opening(
    envelope: bytes, signatures: Iterable[tuple[str, bytes]], manifest: bytes, sections: int
) -> Iterator[bytes]:
    """What comes before the sections, of which there are so many."""
    signed = list(signatures)
    yield bytes([_OUTER])
    yield from _bin(envelope)
    yield _array_head(len(signed))
    for key_id, signature in signed:
        yield bytes((0x92, 0xD9, _KEY_ID_BYTES)) + key_id.encode("ascii")
        yield from _bin(signature)
    yield from _bin(manifest)
    yield _array_head(sections)


def encode_section_head(size: int) -> bytes:
    """What comes before the bytes of one section."""
    width, first = (1, 0xC4) if size < 1 << 8 else (2, 0xC5) if size < 1 << 16 else (4, 0xC6)
    return bytes([first]) + size.to_bytes(width, "big")


def _bin(data: bytes) -> Iterator[bytes]:
    yield encode_section_head(len(data))
    yield data


def _array_head(count: int) -> bytes:
    if count < 16:
        return bytes([0x90 | count])
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _bad(expected: str, found: str, where: str = "") -> Rejected:
    return Rejected(0, Reason.BAD_CONTAINER, expected=expected, found=found, where=where)


def _too_large(most: int, found: int, where: str) -> Rejected:
    return Rejected(0, Reason.TOO_LARGE, expected=f"at most {most}", found=f"{found}", where=where)


def _mismatch(expected: str, found: int) -> Rejected:
    return Rejected(6, Reason.CONTENT_MISMATCH, expected=expected, found=f"{found}", where="sections")

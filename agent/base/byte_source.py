"""Bytes that are there already, read as an answer's body is; no generator, since a refusal reads on no further."""

from collections.abc import AsyncIterator

PEEK_BYTES = 128 << 10


class Chunks:
    """`first`, then what `rest` gives."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes] | None = None) -> None:
        self._first: bytes | None = first
        self._rest = rest

    def __aiter__(self) -> "Chunks":
        return self

    async def __anext__(self) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        if self._rest is None:
            raise StopAsyncIteration
        return await anext(self._rest)


async def opening_of(chunks: AsyncIterator[bytes]) -> bytes:
    """What comes first, in which envelope and signatures of a container lie."""
    data = b""
    async for chunk in chunks:
        data += chunk
        if len(data) >= PEEK_BYTES:
            break
    return data

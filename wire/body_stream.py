"""A body as it arrives: an iterator and no generator, so who stops early leaves nothing behind to be closed."""

from collections.abc import Awaitable, Callable


class BodyStream:
    """Ends at the first empty piece."""

    def __init__(self, read: Callable[[], Awaitable[bytes]]) -> None:
        self._read = read

    def __aiter__(self) -> "BodyStream":
        return self

    async def __anext__(self) -> bytes:
        piece = await self._read()
        if not piece:
            raise StopAsyncIteration
        return piece

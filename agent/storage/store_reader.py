"""One other store, as it is read: what it lists, whole, and the bytes of a file at a bounded pace."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import trio

from agent.base.threads import Threads
from agent.storage.copy_state import SourceFault
from store.published_files import is_path
from wire.client import Call, HttpClient, Streamed
from wire.endpoint import Endpoint
from wire.endpoint import path as target_of
from wire.messages import BadMessageError
from wire.peers.storage_messages import FileListing


@dataclass
class CopyPace:
    """So many bytes a second, of all files of all stores."""

    bytes_per_s: int
    _free_at: float = 0.0

    async def wait(self, size: int) -> None:
        self._free_at = max(self._free_at, trio.current_time()) + size / self.bytes_per_s
        await trio.sleep_until(self._free_at)


@dataclass
class StoreReader:
    client: HttpClient[Endpoint]
    endpoint: Endpoint
    threads: Threads
    pace: CopyPace

    async def list(self, most_files: int) -> dict[str, str]:
        """path -> SHA-256. ClientError, SourceFault."""
        found: dict[str, str] = {}
        last = ""
        while len(found) <= most_files:
            target = target_of("v1", "files", **({"after": last} if last else {}))
            answer = await self.client.fetch(self.endpoint, Call("GET", target, limit=FileListing.MOST_BYTES))
            try:
                page = await self.threads.read(FileListing.read, answer.body)
            except BadMessageError as error:
                raise SourceFault(f"is it a storage node? {error}") from error
            if not all(name > last and is_path(name) for name in page.files):
                raise SourceFault("it lists what is no file of ours, or the same again")
            found |= page.files
            if not page.is_more or not page.files:
                return found
            last = max(page.files)
        raise SourceFault(f"it lists more than {most_files} files")

    @asynccontextmanager
    async def open(self, path: str, most: int) -> AsyncIterator[AsyncGenerator[bytes, None]]:
        """Its bytes as they come. ClientError."""
        call = Call("GET", f"/{path}", limit=most)
        async with self.client.stream(self.endpoint, call) as answer, aclosing(self._pieces_of(answer)) as chunks:
            yield chunks

    async def _pieces_of(self, answer: Streamed) -> AsyncGenerator[bytes, None]:
        async for piece in answer.chunks():
            yield piece
            await self.pace.wait(len(piece))

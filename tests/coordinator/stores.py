"""Stores that are kept up with a press, a round at a time; and an HTTP server that answers as a test wants."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from coordinator.storage.published_tree import TreeReader
from coordinator.storage.s3_store import S3Access, opened_s3
from coordinator.storage.shards import Shard, wanted_files
from coordinator.storage.store import OpenStore
from coordinator.storage.upkeep import StoreUpkeep
from tests.coordinator.publishing import Press
from tests.fakes.s3 import REGION


@dataclass
class Kept:
    """One store, brought to what the press has published."""

    press: Press
    open: OpenStore
    shard: Shard = field(default_factory=Shard)
    check_s: float = 0.0

    def __post_init__(self) -> None:
        self.upkeep = StoreUpkeep(self.press.database, self.check_s)
        self._reader = TreeReader(self.press.database)

    def wanted(self):
        return wanted_files(self._reader.read(), self.shard)

    async def round(self) -> bool:
        async with self.open() as store:
            return await self.upkeep.bring(store, self.wanted())


def bucket(url: str, credentials: Path, now: Callable[[], float], prefix: str = "prod/") -> OpenStore:
    access = S3Access(url, REGION, prefix, lambda: credentials)
    return lambda: opened_s3(access, now)


@asynccontextmanager
async def answering(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[str]:
    """A server at this URL that answers each request's head; None: it says nothing, and holds the connection."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = await stream.receive_some()
                if not piece:
                    return
                head += piece
            said = answer(head)
            if said is None:
                await trio.sleep_forever()
            await stream.send_all(said)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield f"http://127.0.0.1:{listener.socket.getsockname()[1]}/holdfast"
        nursery.cancel_scope.cancel()


def saying(status: str, code: str = "", headers: str = "") -> bytes:
    body = f"<Error><Code>{code}</Code><Message>so it is</Message></Error>".encode() if code else b""
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}connection: close\r\n\r\n".encode() + body


def listed(body: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n{body}".encode()

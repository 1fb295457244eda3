"""A store that another one copies from, over real TLS with a node's certificate: honest, or as a test wants it."""

import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from tests.fakes.storage import own_address
from wire.certificate import KeyPair, make_identity
from wire.limits import REMOTE
from wire.peers.storage_messages import FileListing
from wire.pins import PinTable
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute, Routes
from wire.server import Server
from wire.tls import PinnedTransport


@dataclass
class CopiedStore:
    """`files`: what it has. `listed`: what it says that it has in the place of that. `refused`: what its disk does
    not give. `asked`: paths, in order."""

    node_id: str
    reader: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    listed: Callable[[str], FileListing] | None = None
    body: Callable[[bytes], AsyncIterator[bytes]] | None = None
    refused: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    listings: int = 0
    url: str = ""
    sent: int = 0

    def __post_init__(self) -> None:
        self.pair: KeyPair = make_identity(self.node_id, time.time())

    @asynccontextmanager
    async def running(self) -> AsyncIterator["CopiedStore"]:
        table, host = PinTable([self.pair.der]), own_address()
        table.add(self.reader, "copier")
        routes = Routes(HttpRoute("GET", "/v1/files", self._list), HttpRoute("GET", "/{folder}/{name}", self._read))
        server = Server(self.node_id, routes, PinnedTransport(table, self.pair, REMOTE), REMOTE)
        listener = (await trio.open_tcp_listeners(0, host=host))[0]
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listener)
            self.url = f"https://{host}:{listener.socket.getsockname()[1]}"
            yield self
            nursery.cancel_scope.cancel()

    async def _list(self, request: Request) -> Response:
        self.listings += 1
        if self.listed is not None:
            answer = self.listed(request.query_one("after") or "")
        else:
            answer = FileListing({path: hashlib.sha256(data).hexdigest() for path, data in self.files.items()}, False)
        return Response.json(answer.to_value())

    async def _read(self, request: Request) -> Response:
        path = f"{request.parameters['folder']}/{request.parameters['name']}"
        self.asked.append(path)
        if path not in self.files:
            raise HttpError(404, "not_found", "gone")
        if path in self.refused:
            raise HttpError(500, "store_io", "refused")
        data = self.files[path]
        return Response(200, [("content-type", "application/octet-stream")], self._send(data))

    async def _send(self, data: bytes) -> AsyncIterator[bytes]:
        for start in range(0, len(data), 64 << 10):
            piece = data[start : start + (64 << 10)]
            self.sent += len(piece)
            yield piece

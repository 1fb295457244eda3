"""What a storage node answers (protocol.md 7): files to whoever knows their names, and changes to coordinators alone.

A name is the hash of an id, and what lies under it is signed: who reads it verifies it, as from any mirror. A change is
for those whose certificates the configuration pins; what they bring is judged all the same (judging.py), so a stolen
coordinator's certificate puts nothing here that nobody has signed, but for what says that it is a trust bundle of long
ago. It can take files away, and fill what [storage] lets it; no head takes the place of a newer one.
"""

import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from io import FileIO
from itertools import count
from pathlib import Path

import trio

from agent.state.node import RunningNode
from agent.storage.judging import judge_file
from agent.storage.shard import StorageShard, parse_shards
from snapshot import canonical
from snapshot.container import MEDIA_TYPE
from snapshot.identifiers import HEAD
from snapshot.reasons import Rejected
from store.base.disk import refusal
from store.base.errors import StoreError, StoreFault
from store.published_files import PIECE_BYTES, PublishedFile, PublishedFiles, is_path
from wire.limits import Tally
from wire.peer import TlsPeer
from wire.peers.storage_messages import LISTED, FileListing, KeptFile
from wire.request import HttpError, Request, Response
from wire.routes import Handler, HttpRoute, Routes
from wire.shedding import Concern

SCOPE, SECTION = "storage_directory", "shards"
FILE = ("content-type", MEDIA_TYPE)
AGAIN_S = 30
AT_ONCE, IN_LINE, EACH = 16, 256, 4
LEAST_RATE = 32 << 10
UPLOAD_S = 60.0
CHUNKED_BYTES = 256 << 20


@dataclass
class PublishedFilesApi:
    """`temporary`: where a file lies until it is judged."""

    node: RunningNode
    kept: PublishedFiles
    temporary: Path
    _taking: trio.Lock = field(default_factory=trio.Lock)  # from the look at what lies there to the rename
    _numbers: Iterator[int] = field(default_factory=count)
    _shards: tuple[str, tuple[StorageShard, ...]] = ("", ())

    def routes(self) -> Routes:
        each = Tally(EACH, 1 << 20)
        read = HttpRoute(
            "GET",
            "/{folder}/{name}",
            self.read,
            concern=Concern.DOCUMENT,
            most=AT_ONCE,
            line=IN_LINE,
            each=each,
        )
        largest = self.kept.most_bytes
        return Routes(
            *(
                replace(route, handler=_guard(route.handler))
                for route in (
                    read,
                    HttpRoute("PUT", "/{folder}/{name}", self.put, body_bytes=largest, most=EACH, line=IN_LINE),
                    HttpRoute("DELETE", "/{folder}/{name}", self.remove, most=EACH, line=IN_LINE),
                    HttpRoute("GET", "/v1/files", self.listing, most=2, line=IN_LINE),
                )
            )
        )

    def shards(self) -> tuple[StorageShard, ...]:
        """Of the unexpired directory; read once for each version of it."""
        document = self.node.holdings.kept.active.get(SCOPE)
        if document is None or self.node.now() >= document.envelope.expires_at:
            return ()
        if self._shards[0] != document.envelope_hash:
            section = canonical.loads(document.read(SECTION)) if SECTION in document.sections else None
            self._shards = document.envelope_hash, parse_shards(section)
        return self._shards[1]

    # ---- for anybody

    async def read(self, request: Request) -> Response:
        path = _path(request)
        file = self.kept.files.get(path)
        if file is None:
            raise _nothing()
        self.node.counters.add("storage_files_served")
        headers = [FILE, ("content-length", str(file.size)), ("etag", f'"{file.sha256}"')]
        return Response(200, headers, self._stream(self.kept.pieces(path)))

    # ---- for coordinators

    async def listing(self, request: Request) -> Response:
        _check_writer(request)
        return await self.node.threads.read(self._listing, request.query_one("after") or "")

    async def put(self, request: Request) -> Response:
        _check_writer(request)
        path = _path(request)
        if not self.shards():
            raise HttpError(409, "no_shard", "the storage_directory of this node names no endpoint that it runs")
        request.allow(UPLOAD_S + _length_of(request) / LEAST_RATE)
        kept = await self._take(request, path)
        self.node.counters.add("storage_files_taken")
        return Response.json(KeptFile(kept.sha256).to_value())

    async def remove(self, request: Request) -> Response:
        _check_writer(request)
        path = _path(request)
        async with self._taking:
            await self.node.threads.write(self.kept.remove, path)
        return Response(204)

    # ---- inside

    def _listing(self, after: str) -> Response:
        """On a reading thread, of files that are a fleet's. A sort of all of them would hold the others up."""
        files = self.kept.now()
        paths = nsmallest(LISTED + 1, (path for path in files if path > after))
        page = {path: files[path].sha256 for path in paths[:LISTED]}
        return Response.json(FileListing(page, len(paths) > LISTED).to_value())

    async def _take(self, request: Request, path: str) -> PublishedFile:
        """Several come at a time, and who brings one slowly holds up nobody: each has a file of its own until it is
        judged.
        """
        file = self.temporary / f"published-{next(self._numbers)}.new"
        try:
            sha256, size = await self._write(file, request, path)
            holder = self.node.holder()
            said = await self.node.threads.verify(judge_file, path, file, holder, self.shards(), self.node.now())
            version = said.version if said.kind == HEAD else (0, 0)
            kept = PublishedFile(sha256, size, version)
            async with self._taking:
                before = self.kept.files.get(path)
                if before is not None and before.version > version:
                    raise HttpError(409, "older", "a newer head of that node lies here")
                await self.node.threads.write(self.kept.put, path, file, kept)
            return kept
        finally:
            with trio.CancelScope(shield=True):
                await self.node.threads.write(_remove, file)

    async def _write(self, file: Path, request: Request, path: str) -> tuple[str, int]:
        """Durable; its hash and its size."""
        digest, size = hashlib.sha256(), 0
        opened = await self.node.threads.write(_create, file)
        try:
            async for piece in request.chunks():
                size += len(piece)
                self.kept.check_room(path, size)
                digest.update(piece)
                await self.node.threads.write(_write_all, opened, piece)
            await self.node.threads.write(os.fsync, opened.fileno())
        finally:
            with trio.CancelScope(shield=True):
                await self.node.threads.write(opened.close)
        return digest.hexdigest(), size

    async def _stream(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (piece := await self.node.threads.read(next, pieces, None)) is not None:
            yield piece


def _guard(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Rejected as refused:
            raise HttpError(422, str(refused.reason), "refused", step=refused.step) from refused
        except StoreError as error:
            if error.fault is StoreFault.STORE_FULL:
                raise HttpError(507, str(error.fault), "no room", retry_after=AGAIN_S) from error
            raise HttpError(503, str(error.fault), "refused", retry_after=AGAIN_S) from error

    return answer


def _check_writer(request: Request) -> None:
    """Whoever is no coordinator that the configuration pins learns nothing of what else there is."""
    if not isinstance(request.peer, TlsPeer):
        raise _nothing()


def _path(request: Request) -> str:
    path = f"{request.parameters['folder']}/{request.parameters['name']}"
    if not is_path(path):
        raise _nothing()
    return path


def _length_of(request: Request) -> int:
    """Bytes; of what comes in chunks, and does not say how many, the most that is waited for."""
    said = request.header("content-length") or ""
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 14 else CHUNKED_BYTES


def _nothing() -> HttpError:
    return HttpError(404, "not_found", "there is nothing at this path")


def _create(file: Path) -> FileIO:
    return FileIO(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _write_all(file: FileIO, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[file.write(view[:PIECE_BYTES]) or 0 :]
    except OSError as error:
        raise refusal(error) from error


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)

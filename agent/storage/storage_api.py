"""What a storage node answers (protocol.md 7): files to whoever knows their names, and changes to coordinators alone.

A name is the hash of an id, and what lies under it is signed: who reads it verifies it, as from any mirror. A change is
for those whose certificates the configuration pins; what they bring is judged all the same (judging.py), so a stolen
coordinator's certificate puts nothing here that nobody has signed, but for what says that it is a trust bundle from
before this node's time. It can take files away, and fill what [storage] lets it; no head takes the place of a newer
one, also of one that was taken away.

What there is, other stores may ask as well: those that the signed `storage_directory` lets copy from here.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace

import trio

from agent.state.node import RunningNode
from agent.storage.storage_terms import SignedTerms
from agent.storage.taking import FileTaking, OlderFileError
from snapshot.container import MEDIA_TYPE
from snapshot.reasons import Rejected
from store.base.errors import StoreError, StoreFault
from store.published_files import is_path
from wire.certificate import fingerprint
from wire.limits import Tally
from wire.peer import TlsPeer
from wire.peers.storage_messages import LISTED, FileListing, KeptFile
from wire.request import HttpError, Request, Response
from wire.routes import Handler, HttpRoute, Routes
from wire.shedding import Concern

FILE = ("content-type", MEDIA_TYPE)
AGAIN_S = 30
AT_ONCE, IN_LINE, EACH = 16, 256, 4
LEAST_RATE = 32 << 10
UPLOAD_S = 60.0
CHUNKED_BYTES = 256 << 20


@dataclass
class PublishedFilesApi:
    """`writers`: fingerprints of the coordinators that may write here. `brought_at`: when one was here last, by trio's
    clock.
    """

    node: RunningNode
    taking: FileTaking
    writers: frozenset[str] = frozenset()
    brought_at: float = field(default=float("-inf"), init=False)

    @property
    def terms(self) -> SignedTerms:
        return self.taking.terms

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
        largest = self.taking.kept.most_bytes
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

    # ---- for anybody

    async def read(self, request: Request) -> Response:
        path = _path(request)
        file = self.taking.kept.files.get(path)
        if file is None:
            raise _nothing()
        self.node.counters.add("storage_files_served")
        headers = [FILE, ("content-length", str(file.size)), ("etag", f'"{file.sha256}"')]
        return Response(200, headers, self._stream(self.taking.kept.pieces(path)))

    # ---- for coordinators; the listing also for stores that copy

    async def listing(self, request: Request) -> Response:
        if not self._is_writer(request) and not self._is_reader(request):
            raise _nothing()
        answer = await self.node.threads.read(self._listing, request.query_one("after") or "")
        self._note_writer(request)
        return answer

    async def put(self, request: Request) -> Response:
        self._check_writer(request)
        path = _path(request)
        if not self.terms.now().shards:
            raise HttpError(409, "no_shard", "the storage_directory of this node names no endpoint that it runs")
        request.allow(UPLOAD_S + _length_of(request) / LEAST_RATE)
        kept = await self.taking.take(path, request.chunks())
        self._note_writer(request)
        self.node.counters.add("storage_files_taken")
        return Response.json(KeptFile(kept.sha256).to_value())

    async def remove(self, request: Request) -> Response:
        self._check_writer(request)
        await self.taking.remove(_path(request))
        return Response(204)

    # ---- inside

    def _listing(self, after: str) -> Response:
        """On a reading thread, of files that are a fleet's."""
        return Response.json(FileListing(*self.taking.kept.page(after, LISTED)).to_value())

    def _check_writer(self, request: Request) -> None:
        """Whoever is no coordinator that the configuration pins learns nothing of what else there is."""
        if not self._is_writer(request):
            raise _nothing()

    def _is_writer(self, request: Request) -> bool:
        return isinstance(request.peer, TlsPeer) and request.peer.fingerprint in self.writers

    def _is_reader(self, request: Request) -> bool:
        readers = {fingerprint(der) for _, der in self.terms.now().readers}
        return isinstance(request.peer, TlsPeer) and request.peer.fingerprint in readers

    def _note_writer(self, request: Request) -> None:
        if self._is_writer(request):
            self.brought_at = trio.current_time()

    async def _stream(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (piece := await self.node.threads.read(next, pieces, None)) is not None:
            yield piece


def _guard(handler: Handler) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except OlderFileError as refused:
            raise HttpError(409, "older", "a newer one of that node lies here, or lay here") from refused
        except Rejected as refused:
            raise HttpError(422, str(refused.reason), "refused", step=refused.step) from refused
        except StoreError as error:
            if error.fault is StoreFault.STORE_FULL:
                raise HttpError(507, str(error.fault), "no room", retry_after=AGAIN_S) from error
            raise HttpError(503, str(error.fault), "refused", retry_after=AGAIN_S) from error

    return answer


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

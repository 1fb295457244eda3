"""`GET /v1/config/<id>` and `GET /v1/config/<id>/<path>`: which files a Config has, and one of them.

    /v1/config/<id>           {files: {"<path>": {size, mode, hash}}, version, expires_at, grade}
    /v1/config/<id>/<path>    its bytes, as they were declared

Which files there are is parsed once for each version: of 10,000 files it takes a tenth of a second, and who reads them
all asks as often.

A file lies in one section or, where it is large, in several of at most 1 MiB: they are read one after the other while
the answer is sent, so that its size costs no memory. The ETag is of the bytes; a renewal, or a change of another file,
keeps it. That of the list is of everything in it: who waits for that waits for any change of any file.
"""

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import field

from agent.access.access import Access
from agent.base.threads import Threads
from agent.local.scope_answers import (
    BYTES,
    Headers,
    ScopeAnswers,
    ScopeRequest,
    ServedDocument,
    document_facts,
    is_known,
)
from snapshot import canonical
from snapshot.config_files import FILES, MOST_FILES, FileEntry, parse_index
from snapshot.frozen import frozen
from snapshot.identifiers import CONFIG, is_id, scope_name
from wire.local.local_answers import ConfigFileList, ListedConfigFile
from wire.request import HttpError, Request, Response

MOST_KEPT = 64

_RANGE = re.compile(r"bytes=(?:([0-9]{1,15})-([0-9]{0,15})|-([0-9]{1,15}))", re.ASCII)


@frozen
class ByteRange:
    """From `start`, up to and without `end`."""

    start: int
    end: int


class FileIndexes:
    """Those that were parsed last, by the hash of the section; for the reading threads."""

    def __init__(self, most_files: int = 2 * MOST_FILES) -> None:
        self._most_files = most_files
        self._kept: OrderedDict[str, Mapping[str, FileEntry]] = OrderedDict()
        self._changing = threading.Lock()

    def of(self, shown: ServedDocument) -> Mapping[str, FileEntry]:
        """By path."""
        if FILES not in shown.sections:
            return {}
        digest = shown.sections[FILES].sha256
        found = self._kept.get(digest)
        if found is None:
            found = parse_index(canonical.loads(shown.read(FILES)))
            self._keep(digest, found)
        return found

    def _keep(self, digest: str, files: Mapping[str, FileEntry]) -> None:
        with self._changing:
            self._kept[digest] = files
            while sum(map(len, self._kept.values())) > self._most_files or len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)


@frozen
class FileAnswers:
    """Made on a reading thread from one view; what is streamed afterwards is of that version."""

    scopes: ScopeAnswers
    threads: Threads
    access: Access
    indexes: FileIndexes = field(default_factory=FileIndexes)

    async def file(self, request: Request, now: float) -> Response:
        """The file, or a range of it."""
        path, wanted = request.parameters["path"], request.header("range")
        return await self.threads.read(self._file, self._scope_request(request), path, wanted, now)

    async def files(self, request: Request, now: float) -> Response:
        """Which files there are."""
        return await self.threads.read(self._files, self._scope_request(request), now)

    def _scope_request(self, request: Request) -> ScopeRequest:
        """What is no id is the id of nothing."""
        config_id = request.parameters["id"]
        if not is_id(config_id):
            raise HttpError(404, "not_found", "that is no id: lower-case letters, digits and ._- make one")
        return ScopeRequest.of(request, self.access, scope_name(CONFIG, (config_id,)))

    def _files(self, asked: ScopeRequest, now: float) -> Response:
        shown, headers = self.scopes.find(asked, now)
        etag = f'"{shown.content_hash}"'
        headers.append(("etag", etag))
        if is_known(etag, asked):
            return Response(304, headers)
        files = {
            path: ListedConfigFile(size=entry.size, mode=entry.mode, hash=hash_of(shown, entry))
            for path, entry in self.indexes.of(shown).items()
        }
        answer = ConfigFileList(files=files, **vars(document_facts(headers)))
        return Response.json(answer.to_value(), headers=headers)

    def _file(self, asked: ScopeRequest, path: str, wanted: str | None, now: float) -> Response:
        shown, headers = self.scopes.find(asked, now)
        entry = self.indexes.of(shown).get(path)
        if entry is None:
            raise HttpError(404, "not_found", "this Config has no such file", headers=headers)
        etag = f'"{hash_of(shown, entry)}"'
        headers += [("etag", etag), ("accept-ranges", "bytes")]
        if is_known(etag, asked):
            return Response(304, headers)
        part = _range_of(wanted, entry.size, headers)
        if part is None:
            whole = ByteRange(0, entry.size)
            return Response(200, [BYTES, *headers, _length(whole)], self._bytes(shown, entry, whole))
        headers.append(("content-range", f"bytes {part.start}-{part.end - 1}/{entry.size}"))
        return Response(206, [BYTES, *headers, _length(part)], self._bytes(shown, entry, part))

    async def _bytes(self, shown: ServedDocument, entry: FileEntry, part: ByteRange) -> AsyncIterator[bytes]:
        begin = 0
        for section in entry.sections:
            end = begin + shown.sections[section].size
            if begin < part.end and part.start < end:
                data = await self.threads.read(shown.read, section)
                yield data[max(0, part.start - begin) : part.end - begin]
            begin = end


def hash_of(shown: ServedDocument, entry: FileEntry) -> str:
    """Of one section its hash; of several a hash over theirs."""
    hashes = [shown.sections[section].sha256 for section in entry.sections]
    whole = hashes[0] if len(hashes) == 1 else hashlib.sha256(",".join(hashes).encode()).hexdigest()
    return f"sha256:{whole}"


def _range_of(wanted: str | None, size: int, headers: Headers) -> ByteRange | None:
    """One range; several, or other units, are answered by the whole (RFC 9110, 14.2). HttpError 416 beyond its end."""
    match = _RANGE.fullmatch(wanted.strip()) if wanted is not None else None
    if match is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        part = ByteRange(max(0, size - int(suffix)), size)
    else:
        if last and int(last) < int(first):
            return None
        part = ByteRange(int(first), min(size, int(last) + 1) if last else size)
    if part.start >= part.end:
        unsatisfied = ("content-range", f"bytes */{size}")
        raise HttpError(416, "bad_range", "the file has no such bytes", headers=[*headers, unsatisfied])
    return part


def _length(part: ByteRange) -> tuple[str, str]:
    return ("content-length", str(part.end - part.start))

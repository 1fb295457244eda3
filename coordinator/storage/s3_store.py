"""An S3-compatible store: Amazon's, MinIO, Ceph, Garage, and what else speaks it.

By httpx, whose TLS is the ordinary one: such stores are others' servers, of public CAs and often without TLS 1.3, and
what is sent there was signed to be read by anybody who has it. Nothing is taken from the environment (threats N06).

The ETag of an object is the MD5 of its bytes where the store says so of it; then what lies there already is not sent
again. Where it is something else (encryption with the store's keys), the one that a PUT has answered is compared with.
Each PUT carries the SHA-256 of its body, signed: a store takes no half of a file.
"""

import html
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import trio

from coordinator.base.threads import in_library
from coordinator.storage.payload import Payload
from coordinator.storage.published_tree import FOLDERS, HEADS, RECOVERIES, TRUST
from coordinator.storage.s3_credentials import read_credentials
from coordinator.storage.s3_signature import S3Credentials, SignedRequest, authorize
from coordinator.storage.static_tree import names_in
from coordinator.storage.storage_error import StorageError, StorageFault
from coordinator.storage.store import MOST_LISTED
from wire.tls_contexts import alert_of

CONNECT_S = 10.0
SILENCE_S = 60.0
REQUEST_S = 60.0
LEAST_RATE = 32 << 10  # bytes a second; slower than that is not waited for
ANSWER_BYTES = 4 << 20
MOST_PAGES = 10_000
_MUTABLE = (HEADS, RECOVERIES, TRUST)
_FAULTS = {
    **dict.fromkeys(
        (
            "AccessDenied",
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "InvalidToken",
            "ExpiredToken",
            "AllAccessDisabled",
        ),
        StorageFault.DENIED,
    ),
    "RequestTimeTooSkewed": StorageFault.CLOCK_APART,
    "NoSuchBucket": StorageFault.NO_SUCH_BUCKET,
    **dict.fromkeys(("SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout"), StorageFault.BUSY),
    **dict.fromkeys(
        ("QuotaExceeded", "InsufficientStorage", "InsufficientCapacity", "XMinioStorageFull", "XAmzStorageFull"),
        StorageFault.FULL,
    ),
}
_OF_STATUS = {401: StorageFault.DENIED, 403: StorageFault.DENIED, 503: StorageFault.BUSY, 507: StorageFault.FULL}
_OF_FILE = (400, 411, 413)
_CHANGED, _NO_CONDITIONS = (409, 412), (400, 403, 501)
_NONE: Mapping[str, str] = {}
_OF_BODY = ("content-encoding", "content-length", "content-type", "transfer-encoding")
_TAG = "<{0}>([^<]*)</{0}>"


@dataclass(frozen=True)
class S3Access:
    """`bucket`: its URL. `credentials`, `authority`: files, read at each round."""

    bucket: str
    region: str
    prefix: str
    credentials: Callable[[], Path]
    authority: Path | None = None


@asynccontextmanager
async def opened_s3(access: S3Access, now: Callable[[], float]) -> AsyncIterator["S3Store"]:
    credentials = await in_library(read_credentials, access.credentials)
    context = await in_library(_context, access)
    timeout = httpx.Timeout(SILENCE_S, connect=CONNECT_S)
    limits = httpx.Limits(max_connections=S3Store.workers, max_keepalive_connections=S3Store.workers)
    async with httpx.AsyncClient(verify=context, timeout=timeout, limits=limits, trust_env=False) as client:
        yield S3Store(access, credentials, client, now)


class S3Store:
    workers = 8

    def __init__(
        self, access: S3Access, credentials: S3Credentials, client: httpx.AsyncClient, now: Callable[[], float]
    ) -> None:
        self._access = access
        self._credentials = credentials
        self._client = client
        self._now = now
        self._place = urlsplit(access.bucket)

    async def listing(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for folder in FOLDERS:
            await self._list(folder, found)
        return found

    async def put(self, path: str, payload: Payload, present: str | None) -> str:
        if present == f"{payload.size}:{payload.md5}":
            return present
        return _mark_of(await self._send(path, payload), payload)

    async def replace(self, path: str, payload: Payload, mark: str) -> str | None:
        """Looked at right before it is put, on the condition that it is still so. Whoever knows no conditions, or asks
        for leave to read for them, refuses them or passes over them: there a moment is left, in which another one's
        file may be written over until the next listing.
        """
        if (await self._find(path)).get(path) != mark:
            return None
        condition = {"if-match": f'"{mark.partition(":")[2]}"'}
        answer = await self._send(path, payload, condition, passes=(*_CHANGED, *_NO_CONDITIONS))
        if answer.status_code in _NO_CONDITIONS:
            answer = await self._send(path, payload)
        return None if answer.status_code in _CHANGED else _mark_of(answer, payload)

    async def _send(
        self, path: str, payload: Payload, condition: Mapping[str, str] = _NONE, passes: Sequence[int] = ()
    ) -> httpx.Response:
        cached = "no-cache" if path.partition("/")[0] in _MUTABLE else "max-age=31536000, immutable"
        headers = {"cache-control": cached, "content-type": "application/octet-stream", **condition}
        request = self._request("PUT", self._key(path), payload_sha256=payload.sha256, headers=headers)
        return await self._ask(request, payload, passes)

    async def remove(self, path: str) -> None:
        await self._ask(self._request("DELETE", self._key(path)))

    async def settle(self) -> None:
        """Each answer says that it is."""

    async def _list(self, folder: str, found: dict[str, str]) -> None:
        token = ""
        for _ in range(MOST_PAGES):
            query = [("prefix", self._key(f"{folder}/")), ("max-keys", "1000")]
            text = await self._page([*query, *([("continuation-token", token)] if token else [])])
            found |= self._files_in(text, folder)
            if len(found) > MOST_LISTED:
                raise StorageError(StorageFault.BAD_ANSWER, f"a listing of more than {MOST_LISTED} files")
            token = _member(text, "NextContinuationToken")
            if _member(text, "IsTruncated") != "true" or not token:
                return
        raise StorageError(StorageFault.BAD_ANSWER, "a listing without an end")

    async def _find(self, path: str) -> Mapping[str, str]:
        """One file: whoever may list may ask so, and needs no leave to read."""
        text = await self._page([("prefix", self._key(path)), ("max-keys", "1")])
        return self._files_in(text, path.partition("/")[0])

    async def _page(self, query: Sequence[tuple[str, str]]) -> str:
        answer = await self._ask(self._request("GET", "", query=[("list-type", "2"), *query]))
        if "<ListBucketResult" not in answer.text:
            raise StorageError(StorageFault.BAD_ANSWER, "what came is no listing: is this the URL of a bucket?")
        if "</ListBucketResult>" not in answer.text:  # of one without a length its cut is not told us
            raise StorageError(StorageFault.BAD_ANSWER, "the listing ends in the middle")
        return answer.text

    def _files_in(self, text: str, folder: str) -> dict[str, str]:
        found, names = {}, names_in(folder)
        for entry in _contents(text):
            name = _member(entry, "Key").rpartition("/")[2]
            if names.fullmatch(name) and _member(entry, "Key") == self._key(f"{folder}/{name}"):
                found[f"{folder}/{name}"] = f"{_member(entry, 'Size')}:{_member(entry, 'ETag').strip(chr(34))}"
        return found

    def _key(self, path: str) -> str:
        return f"{self._access.prefix}{path}"

    def _request(self, method: str, key: str, **given: object) -> SignedRequest:
        path = f"{self._place.path.rstrip('/')}/{key}"
        return SignedRequest(method, self._place.netloc, path, **given)  # type: ignore[arg-type]

    async def _ask(
        self, request: SignedRequest, payload: Payload | None = None, passes: Sequence[int] = ()
    ) -> httpx.Response:
        """`passes`: statuses that are no error."""
        headers = authorize(request, self._credentials, self._access.region, self._now())
        size = payload.size if payload is not None else 0
        if payload is not None:
            headers["content-length"] = str(size)
        url = f"{self._place.scheme}://{self._place.netloc}{request.target}"
        made = httpx.Request(request.method, url, headers=headers, stream=_Sent(payload) if payload else None)
        with trio.move_on_after(REQUEST_S + size / LEAST_RATE):
            answer = await self._answer(made)
            if answer.is_success or answer.status_code in passes:
                return answer
            raise self._error(answer)
        raise StorageError(StorageFault.TIMED_OUT, f"{self._place.netloc} has not answered in time")

    async def _answer(self, made: httpx.Request) -> httpx.Response:
        try:
            answer = await self._client.send(made, stream=True)
            try:
                body = bytearray()
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > ANSWER_BYTES:
                        raise StorageError(StorageFault.BAD_ANSWER, "an answer without an end")
            finally:
                await answer.aclose()
        except httpx.TimeoutException as error:
            raise StorageError(StorageFault.TIMED_OUT, f"{self._place.netloc}: {type(error).__name__}") from error
        except httpx.HTTPError as error:
            raise StorageError(_fault_of(error), f"{self._place.netloc}: {alert_of(error)}") from error
        return httpx.Response(answer.status_code, headers=_plain(answer.headers), content=bytes(body))

    def _error(self, answer: httpx.Response) -> StorageError:
        code, said = _member(answer.text, "Code"), _member(answer.text, "Message")
        fault = _FAULTS.get(code) or _OF_STATUS.get(answer.status_code, StorageFault.REFUSED)
        apart = self._clock_words(answer) if fault is StorageFault.CLOCK_APART else ""
        words = " ".join(filter(None, (str(answer.status_code), code, said, apart)))
        is_of_file = fault is StorageFault.REFUSED and answer.status_code in _OF_FILE
        return StorageError(fault, _printable(words), retry_after_s=_retry_after(answer.headers), is_of_file=is_of_file)

    def _clock_words(self, answer: httpx.Response) -> str:
        try:
            theirs = parsedate_to_datetime(answer.headers.get("date", "")).timestamp()
        except (ValueError, OverflowError):
            return ""
        return f"(our clock is {self._now() - theirs:+.0f} s from the store's)"


def _mark_of(answer: httpx.Response, payload: Payload) -> str:
    etag = answer.headers.get("etag", "").strip('"')
    if not etag:
        raise StorageError(StorageFault.BAD_ANSWER, "a PUT was answered without an ETag: is this an S3 store?")
    return f"{payload.size}:{etag}"


class _Sent(httpx.AsyncByteStream):
    """Read on a thread, piece by piece. No generator: of a request that is cancelled nothing is left to be closed."""

    def __init__(self, payload: Payload) -> None:
        self._pieces = payload.read()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await in_library(next, self._pieces, None)
        if piece is None:
            raise StopAsyncIteration
        return piece


def _context(access: S3Access) -> ssl.SSLContext:
    """The system's authorities are read only for who is asked over TLS: they are twenty milliseconds of each round."""
    authority = access.authority
    if authority is None and not access.bucket.lower().startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # it believes nobody
    try:
        return ssl.create_default_context(cafile=str(authority) if authority else None)
    except OSError as error:  # ssl's own are, too
        raise StorageError(StorageFault.UNUSABLE, f"{authority}: {error.strerror or error}") from error


def _fault_of(error: BaseException) -> StorageFault:
    """Its whole chain of causes says whether TLS did not believe the server."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return StorageFault.UNTRUSTED
        cause = cause.__cause__ or cause.__context__
    return StorageFault.UNREACHABLE


def _contents(text: str) -> Iterator[str]:
    """Each entry of a listing, in one walk. An expression that looks for the end of each is quadratic in those that
    have none: a page of them would hold the coordinator up for hours.
    """
    return (entry for entry, end, _ in (part.partition("</Contents>") for part in text.split("<Contents>")[1:]) if end)


def _member(text: str, name: str) -> str:
    """The first element of this name. What stores answer is read for a few flat members, so that no parser follows
    what else a stranger may write into XML.
    """
    found = re.search(_TAG.format(name), text)
    return html.unescape(found[1]) if found else ""


def _plain(headers: httpx.Headers) -> dict[str, str]:
    """Without those that say how a body is to be read: it is whole, and read as UTF-8, whatever a store calls it."""
    return {name: value for name, value in headers.items() if name not in _OF_BODY}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    said = headers.get("retry-after", "")
    return min(3_600.0, float(said)) if said.isascii() and said.isdecimal() and len(said) < 6 else None


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)

"""A storage node of ours as a store: files are put over mutual TLS, and it judges each before it keeps it.

The node is known by its pinned certificates, whatever its endpoint is declared to show; this coordinator shows its
identity, which the node pins. What the node says of a file is the SHA-256 of the bytes that lie there.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from coordinator.base.threads import in_library
from coordinator.keys.signing_key import UnusableKeyError
from coordinator.storage.payload import WHOLE_BYTES, Payload
from coordinator.storage.static_tree import is_name
from coordinator.storage.storage_error import StorageError, StorageFault
from coordinator.storage.store import MOST_LISTED
from wire.answer_message import AnswerMessage
from wire.client import Call, ClientError, ClientFault, Deadlines, HttpClient, HttpsConnector, Reply
from wire.endpoint import Endpoint, path
from wire.messages import BadMessageError
from wire.peers.storage_messages import FileListing, KeptFile
from wire.tls_contexts import EmptyTrustError, TlsIdentity

Answer = TypeVar("Answer", bound=AnswerMessage)

PATIENCE = Deadlines(connect_s=10, first_byte_s=60, silence_s=30)
_FAULTS = {
    ClientFault.TIMED_OUT: StorageFault.TIMED_OUT,
    ClientFault.TOO_SLOW: StorageFault.TIMED_OUT,
    ClientFault.PEER_PIN_MISMATCH: StorageFault.UNTRUSTED,
    ClientFault.UNKNOWN_CA: StorageFault.UNTRUSTED,
    ClientFault.TLS_FAILED: StorageFault.UNTRUSTED,
    ClientFault.CONNECT_FAILED: StorageFault.UNREACHABLE,
    ClientFault.BAD_ENDPOINT: StorageFault.UNREACHABLE,
}
_OF_STATUS = {
    404: StorageFault.DENIED,
    409: StorageFault.BUSY,
    429: StorageFault.BUSY,
    503: StorageFault.BUSY,
    507: StorageFault.FULL,
}
_OF_FILE = (413, 422)


@asynccontextmanager
async def open_node(url: str, pins: Sequence[bytes], identity: Callable[[], Path]) -> AsyncIterator["NodeStore"]:
    """`identity`: the file of this coordinator's."""
    try:
        connector = await in_library(_connector, pins, identity)
    except (UnusableKeyError, EmptyTrustError, OSError) as error:
        detail = f"this coordinator has no identity to show, or the node none to be known by: {error}"
        raise StorageError(StorageFault.UNUSABLE, detail) from error
    client = HttpClient(connector, PATIENCE)
    try:
        yield NodeStore(Endpoint.parse(url, configured=True), client)
    finally:
        await client.aclose()


class NodeStore:
    workers = 4

    def __init__(self, endpoint: Endpoint, client: HttpClient[Endpoint]) -> None:
        self._endpoint = endpoint
        self._client = client

    async def listing(self) -> Mapping[str, str]:
        """A node that names none of our files, or lists without an end, is a node that something is wrong with."""
        found: dict[str, str] = {}
        last = ""
        while len(found) <= MOST_LISTED:
            after = {"after": last} if last else {}
            call = Call("GET", path("v1", "files", **after), limit=FileListing.MOST_BYTES)
            answer = await in_library(_read, FileListing, await self._ask(call))
            if not all(name > last and is_name(name) for name in answer.files):
                raise StorageError(StorageFault.BAD_ANSWER, "the node lists what is no file of ours, or the same again")
            found |= answer.files
            if not answer.is_more or not answer.files:
                return found
            last = max(answer.files)
        raise StorageError(StorageFault.BAD_ANSWER, f"a listing of more than {MOST_LISTED} files")

    async def put(self, path: str, payload: Payload, present: str | None) -> str:
        if present == payload.sha256:
            return present
        small = payload.size <= WHOLE_BYTES
        body = await in_library(b"".join, payload.read()) if small else _pieces_of(payload)
        answer = _read(KeptFile, await self._ask(Call("PUT", f"/{path}", body=body)))
        if answer.sha256 != payload.sha256:
            raise StorageError(StorageFault.BAD_ANSWER, "the node has kept other bytes than were sent")
        return answer.sha256

    async def replace(self, path: str, payload: Payload, mark: str) -> str | None:
        """The node itself takes no head that is older than what lies there."""
        try:
            return await self.put(path, payload, mark)
        except StorageError as error:
            if not error.is_of_file:
                raise
            return None

    async def remove(self, path: str) -> None:
        await self._ask(Call("DELETE", f"/{path}"))

    async def settle(self) -> None:
        """Each answer says that it is."""

    async def _ask(self, call: Call) -> Reply:
        try:
            return await self._client.fetch(self._endpoint, call)
        except ClientError as error:
            fault = _FAULTS.get(error.reason)
            if fault is None:
                fault = _OF_STATUS.get(error.status or 0, StorageFault.REFUSED)
            is_of_file = error.status in _OF_FILE or (error.status == 409 and error.code == "older")
            raise StorageError(fault, str(error), retry_after_s=error.retry_after_s, is_of_file=is_of_file) from error


def _connector(pins: Sequence[bytes], identity: Callable[[], Path]) -> HttpsConnector:
    file = identity()
    return HttpsConnector.to_node(pins, TlsIdentity(file, file))


def _read(kind: type[Answer], answer: Reply) -> Answer:
    try:
        return kind.read(answer.body)
    except BadMessageError as error:
        raise StorageError(StorageFault.BAD_ANSWER, f"is it a storage node? {error}") from error


async def _pieces_of(payload: Payload) -> AsyncIterator[bytes]:
    """Read on a thread, piece by piece."""
    pieces = payload.read()
    while (piece := await in_library(next, pieces, None)) is not None:
        yield piece

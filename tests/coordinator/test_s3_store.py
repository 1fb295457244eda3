"""An S3 store over TLS: an answer that is cut is none, and who cuts it is told from who is not believed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from coordinator.storage.s3_store import S3Access, opened_s3
from coordinator.storage.storage_error import StorageError, StorageFault
from tests.fakes.cluster import NOW
from tests.fakes.s3 import REGION, write_credentials
from tests.wire.lab import authority, issued
from wire.certificate import KeyPair
from wire.tls_contexts import server_context

OURS, THEIRS = authority("ours"), authority("theirs")
BODY = b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>"
WITHOUT_A_LENGTH = b"HTTP/1.1 200 OK\r\n\r\n" + BODY  # it ends with the connection
WITH_A_LENGTH = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


@asynccontextmanager
async def store(folder: Path, answer: bytes, believed: KeyPair = OURS) -> AsyncIterator["Store"]:
    """It answers so, and then the connection is cut: TLS does not say that it ends."""
    context = server_context(issued(OURS, "127.0.0.1"))

    async def serve(raw: trio.SocketStream) -> None:
        stream = trio.SSLStream(raw, context, server_side=True)
        try:
            head = b""
            while b"\r\n\r\n" not in head:
                head += await stream.receive_some()
            await stream.send_all(answer)
        except trio.BrokenResourceError:
            pass
        finally:
            await trio.aclose_forcefully(raw)

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/holdfast"
    (folder / "ca.pem").write_bytes(believed.certificate_pem)
    credentials = write_credentials(folder / "credentials", "AKIA", "secret")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield Store(S3Access(url, REGION, "prod/", lambda: credentials, folder / "ca.pem"))
        nursery.cancel_scope.cancel()


class Store:
    def __init__(self, access: S3Access) -> None:
        self._access = access

    async def listing(self) -> object:
        async with opened_s3(self._access, lambda: NOW) as opened:
            return await opened.listing()


@pytest.mark.parametrize(
    ("answer", "fault"), [(WITHOUT_A_LENGTH, StorageFault.BAD_ANSWER), (WITH_A_LENGTH, StorageFault.UNREACHABLE)]
)
async def test_a_listing_that_is_cut_is_none(tmp_path: Path, answer: bytes, fault: StorageFault) -> None:
    """threats D-46: what it lacks would be sent again, and what comes after it never be seen"""
    async with store(tmp_path, answer[:-10]) as cut:
        with pytest.raises(StorageError) as caught:
            await cut.listing()
        assert caught.value.fault is fault
    async with store(tmp_path, answer) as whole:
        assert await whole.listing() == {}


async def test_who_shows_another_authority_is_not_believed(tmp_path: Path) -> None:
    async with store(tmp_path, WITH_A_LENGTH, believed=THEIRS) as strange:
        with pytest.raises(StorageError) as caught:
            await strange.listing()
        assert caught.value.fault is StorageFault.UNTRUSTED

"""The status with which an address of this machine answers. It stands alone for what it loads (HttpCheck)."""

from dataclasses import dataclass

import trio

from agent.config.check_address import CheckAddress
from wire.client import LOCAL_HOST, Call, ClientError, Connected, HttpClient, UnixConnector
from wire.exchange import ClientFault

ANY_BYTES = 1 << 62  # of a body that nobody reads


async def ask(address: CheckAddress, timeout_s: float) -> tuple[int, str]:
    """The status, or 0 and why there is none. Raises nothing for what the other side does."""
    client = HttpClient(_LocalConnector())
    try:
        with trio.move_on_after(timeout_s):
            async with client.stream(address, Call("GET", address.path, limit=ANY_BYTES)) as answer:
                return answer.status, ""
    except ClientError as error:
        return 0, str(error.status or error)
    finally:
        await client.aclose()
    return 0, f"no answer in {timeout_s:g} s"


@dataclass(frozen=True)
class _LocalConnector:
    async def connect(self, place: CheckAddress, seconds: float) -> Connected:
        if place.socket is not None:
            return await UnixConnector().connect(place.socket, seconds)
        with trio.move_on_after(seconds):
            try:
                return Connected(await trio.open_tcp_stream(place.host, place.port), LOCAL_HOST)
            except OSError as error:
                raise ClientError(ClientFault.CONNECT_FAILED, str(error)) from error
        raise ClientError(ClientFault.TIMED_OUT, "no connection in time")

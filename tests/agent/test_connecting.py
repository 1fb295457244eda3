"""Connections that can be ended from outside, whatever is done over them (threats D-49)."""

import contextlib
from functools import partial

import pytest
import trio
import trio.testing

from agent.sources.connecting import LateConnector
from wire.client import ClientError, ClientFault, HttpsConnector
from wire.endpoint import Endpoint
from wire.tls_contexts import server_context


@pytest.fixture
def connector(one):
    return LateConnector(partial(HttpsConnector.to_authority, one.server.ca_file), str(one.server.ca_file))


def place_of(one):
    return Endpoint("127.0.0.1", one.server.join_port, configured=True)


async def refused(connector, place):
    """It makes no connection any more."""
    with pytest.raises(ClientError, match="is asked no more") as caught:
        await connector.connect(place, 5.0)
    assert caught.value.reason is ClientFault.CONNECT_FAILED


async def test_who_reads_gets_an_error_and_nobody_connects_again(one, connector, mock_clock):
    """threats D-49"""
    read, idle = [(await connector.connect(place_of(one), 5.0)).stream for _ in range(2)]

    async def reading():
        with trio.fail_after(1), pytest.raises(trio.ClosedResourceError):
            await read.receive_some(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reading)
        await trio.testing.wait_all_tasks_blocked()
        await connector.cut_off()
    with pytest.raises(trio.ClosedResourceError):
        await idle.send_all(b"x")
    await refused(connector, place_of(one))
    await connector.cut_off()


async def test_a_connection_that_is_just_made_is_ended_too(one, connector, mock_clock):
    """threats D-49"""
    cut = trio.Event()
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

    async def serving():
        """The handshake goes on once the client's connections have been ended."""
        stream = trio.SSLStream(await listener.accept(), server_context(one.server.shown), server_side=True)
        await cut.wait()
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.do_handshake()
            assert await stream.receive_some(1) == b""
        await trio.aclose_forcefully(stream)

    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(serving)
        place = Endpoint("127.0.0.1", listener.socket.getsockname()[1], configured=True)
        nursery.start_soon(refused, connector, place)
        await trio.testing.wait_all_tasks_blocked()
        await connector.cut_off()
        cut.set()

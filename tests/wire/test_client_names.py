"""Names that DNS does not answer: the last working address is tried beside the look-up, and judged by the name."""

import socket
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from tests.wire.lab import authority, get, issued, text
from wire.addresses import Addresses
from wire.client import Call, ClientError, ClientFault, HttpClient, HttpsConnector
from wire.endpoint import Endpoint
from wire.limits import REMOTE
from wire.routes import Routes
from wire.server import Server
from wire.tls import ServerAuthTransport

OURS = authority("ours")
NAME = "coordinator.example"


@pytest.fixture
def autojump_clock():
    return MockClock(autojump_threshold=0.05)


class Names(trio.abc.HostnameResolver):
    """DNS: answers at once, fails, or is silent until it is told to speak."""

    def __init__(self):
        self.addresses, self.asked, self.speak = [], 0, trio.Event()
        self.speak.set()

    async def getaddrinfo(self, host, port, *_):
        self.asked += 1
        await self.speak.wait()
        if self.addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in self.addresses]

    async def getnameinfo(self, sockaddr, flags):
        raise NotImplementedError

    def fall_silent(self):
        self.speak = trio.Event()


class World:
    """A new book, DNS, and servers of one certificate on two addresses, at one port."""

    def __init__(self, names, servers, port, folder):
        self.names, self.servers, self.port = names, servers, port
        self.book, self.folder = Addresses(), folder
        self.endpoint = Endpoint(NAME, port, configured=True)

    async def ask(self, endpoint=None):
        """`ok`, or the fault; over a new connection of a new client."""
        connector = HttpsConnector.to_authority(self.folder / "ca.pem")
        connector.remember_in(self.book)
        client = HttpClient(connector)
        try:
            await client.fetch(endpoint or self.endpoint, Call("GET", "/", [("connection", "close")]))
        except ClientError as error:
            return error.reason
        finally:
            await client.aclose()
        return "ok"


async def two_listeners():
    """On two addresses at one port: a port that is free at one may be somebody's at the other."""
    for _ in range(100):
        first = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = first.socket.getsockname()[1]
        try:
            return first, (await trio.open_tcp_listeners(port, host="127.0.0.2"))[0], port
        except OSError:
            await first.aclose()
    raise AssertionError("no port is free at both addresses")


@asynccontextmanager
async def serving(tmp_path, name=NAME, believed=OURS):
    (tmp_path / "ca.pem").write_bytes(believed.certificate_pem)
    names = Names()
    trio.socket.set_custom_hostname_resolver(names)
    shown, routes = issued(OURS, name), Routes(get("/", text("root")))
    servers = [Server("join", routes, ServerAuthTransport(shown, REMOTE), REMOTE) for _ in range(2)]
    first, second, port = await two_listeners()
    async with trio.open_nursery() as nursery:
        await nursery.start(servers[0].serve, first)
        await nursery.start(servers[1].serve, second)
        yield World(names, servers, port, tmp_path)
        nursery.cancel_scope.cancel()


async def test_dns_that_hangs_cuts_nobody_off_who_was_ever_reached(tmp_path, autojump_clock):
    """rules K50: by a process of before, too; without a known address there is nothing to try"""
    async with serving(tmp_path) as world:
        world.names.fall_silent()
        assert await world.ask() == ClientFault.TIMED_OUT
        world.book.note(world.endpoint, "127.0.0.1")
        assert await world.ask() == "ok"
        assert world.names.asked == 2


async def test_the_names_of_dns_are_preferred_while_it_answers(tmp_path, autojump_clock):
    """rules P16: who has moved is found at the next attempt, and the place of before is forgotten"""
    async with serving(tmp_path) as world:
        world.book.note(world.endpoint, "127.0.0.1")
        world.names.addresses = ["127.0.0.2"]
        assert await world.ask() == "ok"
        assert world.book.find(world.endpoint) == "127.0.0.2"
        world.names.addresses = None
        assert await world.ask() == "ok"
        assert world.book.find(world.endpoint) == "127.0.0.2"


async def test_a_late_answer_counts_where_the_last_address_is_gone(tmp_path, autojump_clock):
    """rules P16: neither waits for the other"""
    async with serving(tmp_path) as world, trio.open_nursery() as nursery:
        for gone in ("127.0.0.3", "192.0.2.1"):  # refused; and silent, or without a way
            world.book.note(world.endpoint, gone)
            world.names.addresses = ["127.0.0.2"]
            world.names.fall_silent()

            async def speak_later():
                await trio.sleep(2)
                world.names.speak.set()

            nursery.start_soon(speak_later)
            assert await world.ask() == "ok"
            assert world.book.find(world.endpoint) == "127.0.0.2"


async def test_whoever_is_there_now_has_to_be_the_one_of_the_name(tmp_path, autojump_clock):
    """rules K15, L17: an address is no identity, and what fails there is not remembered"""
    async with serving(tmp_path, "other.example") as world:
        world.book.note(world.endpoint, "127.0.0.1")
        world.names.addresses = None
        assert await world.ask() == ClientFault.TLS_FAILED
        assert [server.statistics().answered for server in world.servers] == [0, 0]
        world.names.addresses = ["127.0.0.2"]
        assert await world.ask() == ClientFault.TLS_FAILED
        assert world.book.find(world.endpoint) == "127.0.0.1"


async def test_where_a_name_may_not_lead_nobody_is_asked(tmp_path, autojump_clock):
    """threats N05, D-47: by DNS, whatever was known"""
    async with serving(tmp_path) as world:
        signed = Endpoint(NAME, world.port)
        world.book.note(signed, "192.0.2.1")
        world.names.addresses = ["127.0.0.1"]
        assert await world.ask(signed) == ClientFault.BAD_ENDPOINT
        assert [server.statistics().accepted for server in world.servers] == [0, 0]


async def test_a_verdict_on_a_certificate_is_told_before_who_was_not_reached(tmp_path, autojump_clock):
    """rules S44: who shows a chain to another CA is asked for trust bundles by a last resort, if it is known"""
    async with serving(tmp_path, believed=authority("theirs")) as world, trio.open_nursery() as nursery:
        for addresses in (["127.0.0.1", "127.0.0.3"], ["127.0.0.3", "127.0.0.1"]):
            world.names.addresses = addresses
            assert await world.ask() == ClientFault.UNKNOWN_CA
        world.book.note(world.endpoint, "127.0.0.1")
        world.names.fall_silent()
        assert await world.ask() == ClientFault.UNKNOWN_CA

        async def fail_later():
            await trio.sleep(2)
            world.names.addresses = None
            world.names.speak.set()

        nursery.start_soon(fail_later)
        assert await world.ask() == ClientFault.UNKNOWN_CA
        world.names.fall_silent()
        world.names.addresses = ["127.0.0.1", "192.0.2.1"]  # the other is silent, or without a way

        async def speak_later():
            await trio.sleep(2)
            world.names.speak.set()

        nursery.start_soon(speak_later)
        assert await world.ask() == ClientFault.UNKNOWN_CA


async def test_of_those_that_were_not_reached_silence_is_told_last(tmp_path, autojump_clock):
    async with serving(tmp_path) as world:
        world.book.note(world.endpoint, "127.0.0.3")
        world.names.fall_silent()
        assert await world.ask() == ClientFault.TIMED_OUT

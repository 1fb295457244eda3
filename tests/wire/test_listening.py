"""A TCP listener, or one sentence: the address, what hinders, the setting."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from tests.fakes.ports import held_port
from wire.listening import ListenError, ListenFault, hosts_of, tcp_listener

SETTING = "[listen] probes"


async def refused(host: str, port: int) -> ListenError:
    with pytest.raises(ListenError) as caught:
        await tcp_listener(host, port, setting=SETTING)
    text = str(caught.value)
    assert "\n" not in text and "Errno" not in text
    assert SETTING in text
    return caught.value


async def test_a_port_that_is_taken_is_named_with_its_setting() -> None:
    with held_port() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        error = await refused("127.0.0.1", port)
        assert (error.reason, error.may_pass) == (ListenFault.IN_USE, True)
        assert f"127.0.0.1:{port}: another program listens there" in str(error)
    async with await tcp_listener("127.0.0.1", port, setting=SETTING):
        """Once it is free."""


async def test_an_address_that_is_not_this_machines() -> None:
    error = await refused("192.0.2.1", 7443)
    assert (error.reason, error.may_pass) == (ListenFault.NO_SUCH_ADDRESS, True)
    assert str(error).startswith("192.0.2.1:7443: ")


async def test_a_host_that_has_no_address() -> None:
    error = await refused("nowhere.invalid", 7443)
    assert (error.reason, error.may_pass) == (ListenFault.NO_SUCH_HOST, False)


async def test_a_port_that_is_not_for_this_account() -> None:
    with without_rights():
        error = await refused("127.0.0.1", 1)
    assert (error.reason, error.may_pass) == (ListenFault.NOT_PERMITTED, False)


async def test_a_machine_without_this_family() -> None:
    trio.socket.set_custom_socket_factory(NoInet6())
    error = await refused("::1", 7443)
    assert (error.reason, error.may_pass) == (ListenFault.NO_SUCH_FAMILY, False)
    assert str(error).startswith("[::1]:7443: ")
    async with await tcp_listener("127.0.0.1", 0, setting=SETTING):
        """The family that it has."""


@contextlib.contextmanager
def without_rights() -> Iterator[None]:
    """Root gives its rights away for as long."""
    account = os.geteuid()
    os.seteuid(account or 65534)
    try:
        yield
    finally:
        os.seteuid(account)


class NoInet6(trio.abc.SocketFactory):
    """As a kernel that was started with ipv6.disable=1."""

    def socket(self, family: int, kind: int, proto: int) -> trio.socket.SocketType:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        return trio.socket.from_stdlib_socket(socket.socket(family, kind, proto))


async def test_a_name_with_several_addresses_is_bound_at_one() -> None:
    async with await tcp_listener("localhost", 0, setting=SETTING) as listener:
        assert listener.socket.getsockname()[1] > 0


async def test_a_resolver_that_hangs_is_not_waited_for_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    class Hangs(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_: object) -> object:
            await trio.sleep_forever()

        async def getnameinfo(self, *_: object) -> object:
            await trio.sleep_forever()

    trio.socket.set_custom_hostname_resolver(Hangs())
    assert (await refused("slow.example", 1)).reason is ListenFault.NO_SUCH_HOST


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_on_the_loopback_only_names_of_this_machine_are_answered(host: str) -> None:
    """threats U12: a name that a web page's own DNS leads here is none"""
    hosts = hosts_of(host)
    assert hosts is not None
    assert hosts >= {"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host}
    assert "evil.example" not in hosts


@pytest.mark.parametrize("host", ["::", "192.0.2.1", "gw-1.example"])
def test_elsewhere_a_scraper_comes_by_whatever_name(host: str) -> None:
    assert hosts_of(host) is None

"""A TCP listener where the configuration says; or one sentence with the address, what hinders, and the setting's name.

A host name that has several addresses is bound at the first of them: a listener is one place, as its setting says.
"""

import errno
import ipaddress
import socket
from enum import StrEnum

import trio

from wire.backoff import BackOff
from wire.logs import log

RESOLVE_S = 10.0


class ListenFault(StrEnum):
    IN_USE = "in_use"
    NO_SUCH_ADDRESS = "no_such_address"
    NOT_PERMITTED = "not_permitted"
    NO_SUCH_FAMILY = "no_such_family"
    NO_SUCH_HOST = "no_such_host"
    FAILED = "failed"


_FAULTS = {
    errno.EADDRINUSE: ListenFault.IN_USE,
    errno.EADDRNOTAVAIL: ListenFault.NO_SUCH_ADDRESS,
    errno.EACCES: ListenFault.NOT_PERMITTED,
    errno.EPERM: ListenFault.NOT_PERMITTED,
    errno.EAFNOSUPPORT: ListenFault.NO_SUCH_FAMILY,
}
_WORDS = {
    ListenFault.IN_USE: "another program listens there (`ss -ltnp` names it): stop it, or choose another port with",
    ListenFault.NO_SUCH_ADDRESS: "this machine does not have that address: wait for its network, or choose one with",
    ListenFault.NOT_PERMITTED: "this account may not listen there: choose a port of 1024 or more with",
    ListenFault.NO_SUCH_FAMILY: "this machine has no such addresses (IPv6 switched off?): choose one that it has with",
    ListenFault.NO_SUCH_HOST: "the host name leads to no address: correct it, or write an address, with",
    ListenFault.FAILED: "it cannot be listened on: choose another address with",
}


class ListenError(Exception):
    """Nobody can be let in at an address that the configuration names; the text is for people."""

    def __init__(self, reason: ListenFault, text: str) -> None:
        super().__init__(text)
        self.reason = reason

    @property
    def may_pass(self) -> bool:
        """Whether it may be over without anybody's doing anything here."""
        return self.reason in (ListenFault.IN_USE, ListenFault.NO_SUCH_ADDRESS, ListenFault.FAILED)


def hosts_of(host: str) -> frozenset[str] | None:
    """The Host headers that a listener without TLS answers; None for any. On the loopback alone a name that another's
    DNS leads there is none of ours: a web page could read what only this machine may (threats U12). Elsewhere whoever
    reaches the port may read it, by whatever name a scraper has.
    """
    try:
        is_loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    if not is_loopback:
        return None
    return frozenset({"localhost", "127.0.0.1", "[::1]", f"[{host}]" if ":" in host else host})


async def patient_listener(
    listen: str, back_off: BackOff, floor_s: float, *, setting: str, what: str
) -> trio.SocketListener:
    """At `listen` (host:port), as soon as it can be had: a port that is taken costs `what` is served there and nothing
    else (rules A14). It is said once for each cause.
    """
    host, said = host_of(listen), ""
    while True:
        try:
            made = await tcp_listener(host, int(listen.rpartition(":")[2]), setting=setting)
        except ListenError as error:
            if str(error) != said:
                said = str(error)
                log.error(f"no {what}", remedy=said)  # noqa: TRY400 - no trace needed
            await trio.sleep(back_off.note_failure(floor_s))
        else:
            if said:
                log.info(f"{what} are served", listen=listen)
            return made


def host_of(listen: str) -> str:
    return listen.rpartition(":")[0].strip("[]")


async def tcp_listener(host: str, port: int, *, setting: str, backlog: int | None = None) -> trio.SocketListener:
    """`setting` is the one that names the address, as `[listen] probes`. ListenError."""
    try:
        with trio.fail_after(RESOLVE_S):
            made = await trio.open_tcp_listeners(port, host=host, backlog=backlog)
    except (OSError, trio.TooSlowError) as error:
        raise _error(error, host, port, setting) from error
    for further in made[1:]:
        further.socket.close()
    return made[0]


def _error(error: OSError | trio.TooSlowError, host: str, port: int, setting: str) -> ListenError:
    if isinstance(error, socket.gaierror | trio.TooSlowError):
        reason = ListenFault.NO_SUCH_HOST
    else:
        reason = _FAULTS.get(error.errno or 0, ListenFault.FAILED)
    why = f" ({error.strerror})" if reason is ListenFault.FAILED and isinstance(error, OSError) else ""
    return ListenError(reason, f"{_address(host, port)}{why}: {_WORDS[reason]} {setting}")


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""Room for strangers, and who makes place for the next one (threats M13, D-51).

Strangers cost nothing to be, so no number of connections keeps a listener open to those who are meant: whoever holds on
to connections would take it. Here one more than there is room for ends the oldest of the principal that then has the
most. A handshake that is meant is over after two round trips, a join after a few; strangers from fewer networks than
there is room for never end the only one of another.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address, ip_network

import trio


class ConnectionRoom:
    """For at most `places` at a time."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._of: dict[Hashable, list[trio.CancelScope]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def one(self, principal: Hashable) -> Iterator[trio.CancelScope]:
        """For as long as it is here; the scope is cancelled where it had to make place."""
        if self._count >= self._places:
            self._make_place(principal)
        with trio.CancelScope() as scope:
            self._of.setdefault(principal, []).append(scope)
            self._count += 1
            try:
                yield scope
            finally:
                self._forget(principal, scope)

    def _make_place(self, newcomer: Hashable) -> None:
        """Counted out at once: it ends only when its task runs."""
        most = max(self._of, key=lambda each: len(self._of[each]) + (each == newcomer))
        oldest = self._of[most][0]
        self._forget(most, oldest)
        oldest.cancel()

    def _forget(self, principal: Hashable, scope: trio.CancelScope) -> None:
        scopes = self._of.get(principal, [])
        if scope in scopes:
            scopes.remove(scope)
            self._count -= 1
        if not scopes:
            self._of.pop(principal, None)


def principal_of(address: str) -> str:
    """Whom a stranger's address stands for: whoever has one of IPv6 has the 2**64 of its network."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return str(ip_network((found, 64), strict=False))
    return str(getattr(found, "ipv4_mapped", None) or found)

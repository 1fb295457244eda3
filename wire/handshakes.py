"""Who is in a TLS handshake, and who makes room for the next one (threats M13, D-51).

Strangers cost nothing to be, so no number of connections keeps a listener open to those it knows: whoever holds on to
unfinished handshakes would take it. Here one more handshake than there is room for ends the oldest of the address that
then has the most. One that is meant is over after two round trips; strangers from fewer addresses than there is room
for never end the only one of another address.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

import trio


class Handshakes:
    """At most `room` at a time."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._of: dict[Hashable, list[trio.CancelScope]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @contextmanager
    def one(self, caller: Hashable) -> Iterator[trio.CancelScope]:
        """For the time of a handshake of this address; the scope is cancelled where it had to make room."""
        if self._count >= self._room:
            self._make_room(caller)
        with trio.CancelScope() as scope:
            self._of.setdefault(caller, []).append(scope)
            self._count += 1
            try:
                yield scope
            finally:
                self._forget(caller, scope)

    def _make_room(self, newcomer: Hashable) -> None:
        """Counted out at once: it ends only when its task runs."""
        most = max(self._of, key=lambda each: len(self._of[each]) + (each == newcomer))
        oldest = self._of[most][0]
        self._forget(most, oldest)
        oldest.cancel()

    def _forget(self, caller: Hashable, scope: trio.CancelScope) -> None:
        scopes = self._of.get(caller, [])
        if scope in scopes:
            scopes.remove(scope)
            self._count -= 1
        if not scopes:
            self._of.pop(caller, None)

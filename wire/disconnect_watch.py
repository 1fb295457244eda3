"""Notices that callers have gone while their requests wait, for the price of one task and one epoll for all of them.

A long poll reads nothing, so it would not see that its caller has left. The kernel does: a closed or half-closed
socket is EPOLLRDHUP, whatever is still unread in it, and an epoll can be waited for like any file.
"""

import select
from collections.abc import Callable

import trio

MOST_AT_ONCE = 32  # of a fleet that goes all at once; others have their turn in between


class DisconnectWatch:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def add(self, descriptor: int, gone: Callable[[], None]) -> None:
        """Calls `gone` once when the other end of the socket is closed, unless `discard` comes first."""
        if self._epoll.closed:
            return
        self._callbacks[descriptor] = gone
        self._epoll.register(descriptor, select.EPOLLRDHUP)

    def discard(self, descriptor: int) -> None:
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    async def run(self) -> None:
        """Until cancelled; then the watch is over for good."""
        try:
            while True:
                await trio.lowlevel.wait_readable(self._epoll.fileno())
                self._call()
        finally:
            self._epoll.close()
            self._callbacks.clear()

    def _call(self) -> None:
        for descriptor, _events in self._epoll.poll(0, MOST_AT_ONCE):
            gone = self._callbacks.get(descriptor)
            self.discard(descriptor)
            if gone is not None:
                gone()

"""Out of descriptors: it waits and tries again, and whoever comes then is let in."""

import errno
import os

import pytest
import trio
from trio.testing import MockClock

from wire.accept_loop import FIRST_S, MOST_S, accept_all


class Exhausted(trio.abc.Listener[trio.SocketStream]):
    """As a listener of a process that has no descriptor left for `times` tries; then one caller comes."""

    def __init__(self, times: int, number: int) -> None:
        self.times = times
        self.number = number
        self.tried_at: list[float] = []

    async def accept(self) -> trio.SocketStream:
        self.tried_at.append(trio.current_time())
        if len(self.tried_at) <= self.times:
            raise OSError(self.number, os.strerror(self.number))
        if len(self.tried_at) > self.times + 1:
            await trio.sleep_forever()
        one, other = trio.socket.socketpair()
        other.close()
        return trio.SocketStream(one)

    async def aclose(self) -> None:
        """There is nothing."""


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_without_descriptors_it_tries_less_and_less_often(autojump_clock: MockClock, number: int) -> None:
    """threats M13: no turning on the spot while strangers hold them all"""
    listener, came, told = Exhausted(8, number), trio.Event(), list[str]()

    async def connected(raw: trio.SocketStream) -> None:
        raw.socket.close()
        came.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept_all, listener, connected, nursery, told.append)
        await came.wait()
        nursery.cancel_scope.cancel()
    pauses = [after - before for before, after in zip(listener.tried_at, listener.tried_at[1:8], strict=False)]
    assert pauses[:4] == pytest.approx([FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S])
    assert pauses[-1] == pytest.approx(MOST_S)
    assert told == [os.strerror(number)] * 8


async def test_another_fault_of_the_listener_is_not_hidden() -> None:
    async def connected(raw: trio.SocketStream) -> None:
        raise AssertionError("nobody comes")

    async with trio.open_nursery() as nursery:
        with pytest.raises(OSError, match="Invalid argument"):
            await accept_all(Exhausted(1, errno.EINVAL), connected, nursery, lambda _: None)

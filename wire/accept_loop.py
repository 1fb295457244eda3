"""Callers are let in one after the other, also when the process or the machine has no descriptor left for them.

The next try would fail likewise, thousands of times a second: it waits a moment, each time twice as long.
"""

import errno
from collections.abc import Awaitable, Callable

import trio

FIRST_S = 0.1
MOST_S = 2.0
# accept(2): what is missing is not the caller's, and may be there again.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


async def accept_all(
    listener: trio.abc.Listener[trio.SocketStream],
    connected: Callable[[trio.SocketStream], Awaitable[None]],
    nursery: trio.Nursery,
    exhausted: Callable[[str], None],
) -> None:
    """Until cancelled; `connected` runs in `nursery`. `exhausted` is told why nobody can be let in at the moment."""
    pause_s = FIRST_S
    while True:
        try:
            stream = await listener.accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            exhausted(error.strerror or errno.errorcode[error.errno])
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_S)
        else:
            pause_s = FIRST_S
            nursery.start_soon(connected, stream)

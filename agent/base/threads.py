"""How trio code gets off the event loop: one thread at a time that writes, one that verifies, a few that read.

A call that has begun runs to its end, also when its caller is cancelled: a write is never abandoned (rules L26).
No transaction crosses an `await`, since each begins and ends inside one call.
"""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import trio

READERS = 4

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Threads:
    """`limiter` makes the limiters; a test's may tell the clock that work is going on."""

    def __init__(self, limiter: Callable[[int], trio.CapacityLimiter] = trio.CapacityLimiter) -> None:
        self._writing = limiter(1)
        self._verifying = limiter(1)
        self._reading = limiter(READERS)

    async def write(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """What changes the store, one after the other."""
        return await _run(self._writing, partial(operation, *arguments, **named))

    async def verify(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """What parses and hashes for long."""
        return await _run(self._verifying, partial(operation, *arguments, **named))

    async def read(
        self, operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        """What reads from the disk."""
        return await _run(self._reading, partial(operation, *arguments, **named))


async def _run(limiter: trio.CapacityLimiter, call: Callable[[], Result]) -> Result:
    return await trio.to_thread.run_sync(call, limiter=limiter)  # noqa: TID251 - this is the file that the rule names

"""The worker threads on which the database is spoken to, and how trio code gets there.

    in_database    changes and reports: one thread, one after the other
    in_library     what is only read and handed out, beside them
    in_planner     what is read and worked out of the whole fleet: of a large one that is seconds
    in_compiler    compiling, signing and verifying, which take long and write nothing
    in_thread_of   what waits for one disk, or one server, that may hang: whoever has it hangs alone
    in_waiting     what a process of its own works out; on a busy machine that is minutes, and holds up nobody else

One call is one transaction. A call that has begun runs to its end, also when its caller is cancelled: what was written
is then committed, and the answer is lost (rules P7, J12).
"""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import trio

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_changes = trio.CapacityLimiter(1)
_library = trio.CapacityLimiter(2)
_planner = trio.CapacityLimiter(2)
_compiler = trio.CapacityLimiter(1)
_waiting = trio.CapacityLimiter(1)


async def in_database(
    operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Run one operation that writes, after those that wait already."""
    return await _run(_changes, partial(operation, *arguments, **named))


async def in_library(
    operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Run one operation that only reads: a large document holds up no change and no report."""
    return await _run(_library, partial(operation, *arguments, **named))


async def in_planner(
    operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Run one operation that only reads, and for long: no node waits behind it for a document."""
    return await _run(_planner, partial(operation, *arguments, **named))


async def in_compiler(
    operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    return await _run(_compiler, partial(operation, *arguments, **named))


async def in_thread_of(
    thread: trio.CapacityLimiter,
    operation: Callable[Parameters, Result],
    *arguments: Parameters.args,
    **named: Parameters.kwargs,
) -> Result:
    return await _run(thread, partial(operation, *arguments, **named))


async def in_waiting(
    operation: Callable[Parameters, Result], *arguments: Parameters.args, **named: Parameters.kwargs
) -> Result:
    """Wait for one process, after those that are waited for already: no two of them take memory at a time."""
    return await _run(_waiting, partial(operation, *arguments, **named))


async def _run(limiter: trio.CapacityLimiter, call: Callable[[], Result]) -> Result:
    return await trio.to_thread.run_sync(call, limiter=limiter)  # noqa: TID251 - this is the file that the rule names

"""The one thread on which the database is spoken to, and how trio code gets there.

One call is one transaction. A call that has begun runs to its end, also when its caller is cancelled: what was written
is then committed, and the answer is lost (rules P7, J12).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import trio

Result = TypeVar("Result")

_one_at_a_time = trio.CapacityLimiter(1)


async def in_database(operation: Callable[..., Result], *arguments: Any, **named: Any) -> Result:  # noqa: ANN401 - handed on
    """Run one database operation on a worker thread, after those that wait already."""
    call: Callable[[], Result] = partial(operation, *arguments, **named)
    return await trio.to_thread.run_sync(call, limiter=_one_at_a_time)  # noqa: TID251 - this is the file that the rule names

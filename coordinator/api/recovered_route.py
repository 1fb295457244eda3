"""A call that is refused since this coordinator lacks what the others have: they are asked, and then it is done.

When a set was committed at another coordinator, this one notices it within seconds and fetches its key. What an
operator asked meanwhile was refused `recovery_mode`, and a script had to ask again. Nothing was changed by the refused
call: the refusal comes from within its transaction.

Where asking came to nothing, the next call is refused right away, with Retry-After, until the task that goes on asking
(runtime/recovering.py) has what is missing: so no caller sets the pace at which others are asked.

Rejected: looking for a new set more often, since any time between two looks is one in which a call is refused.
"""

from dataclasses import replace

from coordinator.base.refusal import Code
from coordinator.runtime.context import Coordinator
from wire.request import HttpError, Request, Response
from wire.routes import HttpRoute


def asking_others_first(coordinator: Coordinator, route: HttpRoute) -> HttpRoute:
    async def handler(request: Request) -> Response:
        try:
            return await route.handler(request)
        except HttpError as refused:
            if refused.code != Code.RECOVERY_MODE.value or not await _ask_others(coordinator):
                raise
        return await route.handler(request)

    return replace(route, handler=handler)


async def _ask_others(coordinator: Coordinator) -> bool:
    """Once, of all calls that come meanwhile; whether nothing is missing then."""
    ask = coordinator.peers.ask
    async with coordinator.peers.asking:
        return ask is not None and not coordinator.standstill.recovery and await ask()

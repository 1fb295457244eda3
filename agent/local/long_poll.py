"""`?wait=` on what is read: a caller that holds the content already is answered once it has changed.

    GET /v1/services/web?wait=55
    If-None-Match: "sha256:..."

As soon as the ETag is another one, or the thing has gone or has expired, the answer says so; 304 after the wait.
Without `If-None-Match`, or where the ETag is another one already, the answer comes at once: who waits has always said
what it has, so nothing is missed between two requests. That the wait should begin at whatever is active when the
question arrives was rejected for this reason.
"""

from collections.abc import Callable

import trio

from agent.local.watching import Watching
from agent.state.view import Views
from snapshot.frozen import frozen
from wire.request import Request, Response
from wire.routes import Handler

WAIT_MOST_S = 300
NOT_MODIFIED = 304


@frozen
class LongPoll:
    views: Views
    watching: Watching
    now: Callable[[], float]

    def of(self, handler: Handler) -> Handler:
        """The handler, asked again for each change while it says that nothing is new."""

        async def answer(request: Request) -> Response:
            until = trio.current_time() + request.query_integer("wait", 0, 0, WAIT_MOST_S)
            while True:
                seen = self.watching.seen.value
                answered = await handler(request)
                if answered.status != NOT_MODIFIED or trio.current_time() >= until:
                    return answered
                if not await self._news(request, seen, min(until, trio.current_time() + self._next_expiry_s())):
                    return answered

        return answer

    async def _news(self, request: Request, seen: int, until: float) -> bool:
        """Whether to ask again; not where the listener stops, and the caller is to have what there is."""
        with request.waiting(yields=True), trio.move_on_at(until) as resting:
            await self.watching.seen.wait_above(seen)
        return resting.cancelled_caught or self.watching.seen.value > seen

    def _next_expiry_s(self) -> float:
        """What expires is told of at its time, and by no activation."""
        view, now = self.views.at_hand(), self.now()
        until = None if view is None else view.next_expiry(now)
        return WAIT_MOST_S if until is None else max(0.0, until - now)

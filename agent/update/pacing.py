"""The floor under what others ask for as often as they like: after a failure the next turn begins LEAST_S later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from wire.backoff import LEAST_S


@dataclass
class Turn:
    succeeded: bool = False


@dataclass
class Pacing:
    """One turn at a time, in the order in which they were asked for."""

    _lock: trio.Lock = field(default_factory=trio.Lock)
    _not_before: float = float("-inf")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn]:
        """Who does not say that it has `succeeded` makes the next one wait."""
        turn = Turn()
        async with self._lock:
            await trio.sleep_until(max(self._not_before, trio.current_time()))
            try:
                yield turn
            finally:
                if not turn.succeeded:
                    self._not_before = trio.current_time() + LEAST_S

"""A number that only rises, and tasks that wait for it: how a new generation reaches those who follow it (rules P4).

Level-triggered: a waiter is told that there is something newer than what it has, and reads what is active then.
"""

import contextlib
from collections.abc import Iterator

import trio

from store.watch import GenerationChange, Watch

NOTHING_YET = -1


class Generation:
    """Starts below every generation of a store: 0 is an empty one's."""

    def __init__(self, value: int = NOTHING_YET) -> None:
        self.value = value
        self._risen = trio.Event()

    def tell(self, value: int) -> None:
        """A lower or equal one changes nothing."""
        if value > self.value:
            self.value = value
            self.wake()

    def wake(self) -> None:
        """Waiters look again, though nothing has risen: a deadline or a state has changed."""
        self._risen.set()
        self._risen = trio.Event()

    async def wait_above(self, value: int) -> int:
        """The generation, as soon as it is above `value`."""
        while self.value <= value:
            await self._risen.wait()
        return self.value

    async def wait_woken(self, value: int) -> None:
        """Until it is above `value`, or somebody calls `wake`."""
        if self.value <= value:
            await self._risen.wait()


@contextlib.contextmanager
def following(watch: Watch, generation: Generation) -> Iterator[None]:
    """`generation` follows the store's watch, whose listeners are called on the writer's thread."""
    token = trio.lowlevel.current_trio_token()

    def on_change(change: GenerationChange) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            token.run_sync_soon(generation.tell, change.generation)

    generation.tell(watch.generation)
    unsubscribe = watch.subscribe(on_change)
    generation.tell(watch.generation)
    try:
        yield
    finally:
        unsubscribe()

"""Readers learn of a new generation without polling (seed 004's `Watch`; rules P4).

Level-triggered: what a watcher is told is that a generation is there, never its content; it reads what is active
then. So a missed, doubled or late notification changes nothing.
"""

import threading
from collections.abc import Callable

from snapshot.frozen import frozen


@frozen
class GenerationChange:
    """The generation that is active now, and the scopes that changed with it."""

    generation: int
    scopes: tuple[str, ...]


Listener = Callable[[GenerationChange], None]


class Watch:
    """The latest generation. Listeners are called on the writer's thread, after the commit: they must be short."""

    def __init__(self, generation: int) -> None:
        self._latest = GenerationChange(generation, ())
        self._changed = threading.Condition()
        self._listeners: list[Listener] = []

    @property
    def generation(self) -> int:
        return self._latest.generation

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change from now on; the result ends it."""
        with self._changed:
            self._listeners.append(listener)

        def unsubscribe() -> None:
            with self._changed:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def wait(self, after: int, timeout_s: float | None = None) -> int | None:
        """Block this thread until the generation is above `after`; the generation, or None when time is up."""
        with self._changed:
            reached = self._changed.wait_for(lambda: self._latest.generation > after, timeout_s)
            return self._latest.generation if reached else None

    def tell(self, change: GenerationChange) -> None:
        """The store alone calls this, once the change is durable. A lower generation is never told."""
        with self._changed:
            if change.generation <= self._latest.generation:
                return
            self._latest = change
            listeners = tuple(self._listeners)
            self._changed.notify_all()
        for listener in listeners:
            listener(change)

"""The newest head of each node, kept in memory, and who waits for one (protocol 1; rules J42).

Level-triggered: whoever is woken looks again, so a wake-up too many or too early changes nothing. So also the end of a
wait is a wake-up, which comes within a second of it: a deadline of trio's for each of a fleet's polls, which nearly
none lives to see, was a tenth of what an answer costs.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass

import trio

from coordinator.replicas.generations import repeats

Pair = tuple[int, int]  # (authority_epoch, generation)
MOST_HEADS = 20_000
TICK_S = 1.0
MOST_AT_ONCE = 32  # of a fleet's waits that end with one tick; others have their turn in between


@dataclass(frozen=True, slots=True)
class News:
    """A head, ready to be sent, and the ids of what it lists and announces. `refresh_after` in Unix seconds. `first`:
    the head in the database, where this one is that one signed again (replicas/signed_again.py). `new`: what it names
    and the head of generation `follows` did not, where this process has published it.
    """

    pair: Pair
    container: bytes
    refresh_after: int = 0
    names: frozenset[str] = frozenset()
    first: "News | None" = None
    follows: int = 0
    new: tuple[str, ...] = ()

    @property
    def base(self) -> Pair:
        """Of the head in the database."""
        return (self.first or self).pair

    def is_behind(self, held: Pair) -> bool:
        """Whether somebody holds more than this head, and more than the same head signed again."""
        return held > self.pair and not repeats(self.base, held)


class Board:
    """Remembers at most `most` heads, those asked for last; what it does not remember stands in the database."""

    def __init__(self, most: int = MOST_HEADS) -> None:
        self._most = most
        self._news: OrderedDict[str, News] = OrderedDict()
        self._waiting: dict[str, _Waiting] = {}

    @property
    def waiting(self) -> int:
        """Requests that are held."""
        return sum(waiting.count for waiting in self._waiting.values())

    async def run(self) -> None:
        """Until cancelled: wakes those whose wait is over."""
        while True:
            await trio.sleep(TICK_S)
            now = trio.current_time()
            over = [waiting.event for waiting in self._waiting.values() if waiting.until <= now]
            for start in range(0, len(over), MOST_AT_ONCE):
                for event in over[start : start + MOST_AT_ONCE]:
                    event.set()
                await trio.lowlevel.checkpoint()

    def nodes(self) -> dict[str, Pair]:
        """What is remembered: node -> pair."""
        return {node_id: news.pair for node_id, news in self._news.items()}

    def items(self) -> list[tuple[str, News]]:
        """What is remembered, by node, as it is now."""
        return list(self._news.items())

    def latest(self, node_id: str) -> News | None:
        news = self._news.get(node_id)
        if news is not None:
            self._news.move_to_end(node_id)
        return news

    def announce(self, node_id: str, news: News) -> None:
        """A head that is in the database, or that one signed again; an older one than is known already changes nothing
        (rules P4).
        """
        known = self._news.get(node_id)
        if known is not None and known.pair >= news.pair:
            return
        self._news[node_id] = news
        self._news.move_to_end(node_id)
        if len(self._news) > self._most:
            self._news.popitem(last=False)
        self.wake(node_id)

    def forget(self, node_id: str) -> None:
        """Somebody else has published for it, or it is no member any more: look into the database."""
        self._news.pop(node_id, None)
        self.wake(node_id)

    def wake(self, node_id: str) -> None:
        waiting = self._waiting.get(node_id)
        if waiting is not None:
            waiting.event.set()

    def wake_all(self) -> None:
        """Something has changed that concerns everybody."""
        for node_id in list(self._waiting):
            self.wake(node_id)

    async def wait(self, node_id: str, until: float = math.inf) -> None:
        """Until something was announced for the node, or a little beyond this time of trio's clock, while `run` does.
        Look first; nothing may be awaited in between.
        """
        waiting = self._waiting.get(node_id)
        if waiting is None or waiting.event.is_set():  # woken, not yet run: they are of an earlier news
            waiting = self._waiting[node_id] = _Waiting(trio.Event(), until)
        elif until < waiting.until:
            waiting.until = until
        waiting.count += 1
        try:
            await waiting.event.wait()
        finally:
            waiting.count -= 1
            if not waiting.count and self._waiting.get(node_id) is waiting:
                del self._waiting[node_id]


@dataclass(eq=False, slots=True)
class _Waiting:
    """Who waits for the news of one node. `until`: the first of them."""

    event: trio.Event
    until: float
    count: int = 0

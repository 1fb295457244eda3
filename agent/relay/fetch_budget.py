"""How much a relay may fetch for its neighbours alone in an hour (`[peers] relay_fetch_bytes_per_hour`), over restarts
as well: an agent that ends while it fetches, and is started again, would have a whole budget each time, and spend a
link that is paid by the byte within minutes.

What was spent stands in a row of the store, ahead of what is fetched by a step: whatever ends the agent, it never
stands there that less was spent. So a start costs a step of the budget at most, and an hour of fetching a few dozen
writes. By the guarded clock; one that leaps ahead gives one hour's budget, as an hour would.

Rejected: a time for which nothing is fetched after a start. It would hold up each neighbour after each upgrade.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import trio

from agent.relay.byte_budget import TokenBucket
from agent.state.node import RunningNode
from store.base.tables import Name

ROW = "relay_fetching"
HOUR_S = 3_600.0
STEPS = 64  # of an hour's budget


@dataclass
class FetchBudget:
    """`most`: bytes in an hour. `load` once, before anything is fetched."""

    node: RunningNode
    most: int
    _bucket: TokenBucket = field(init=False)
    _noted: TokenBucket = field(init=False)  # as the row has it

    def __post_init__(self) -> None:
        self._begin(0)

    async def load(self) -> None:
        """What was spent before the start. StoreError."""
        row = await self.node.threads.read(self.node.store.table(Name.HEALTH).get, ROW)
        self._begin(_spent_by(row, self.node.now(), self.most))

    @property
    def spent(self) -> int:
        """In bytes, what is not free again."""
        return max(0, int(self.most - self._bucket.room(trio.current_time())))

    def is_spent(self) -> bool:
        return self._bucket.room(trio.current_time()) <= 0

    async def take(self, size: int) -> None:
        """So much came. StoreError where that cannot be noted: then no more of it is fetched."""
        now = trio.current_time()
        self._bucket.take(size, now)
        if self._bucket.room(now) < self._noted.room(now):
            ahead = self.most / STEPS
            row = {"spent": int(self.most - self._bucket.room(now) + ahead), "at": int(self.node.now())}
            await self.node.threads.write(self.node.store.table(Name.HEALTH).put, ROW, row)
            self._noted.take(self._noted.room(now) - self._bucket.room(now) + ahead, now)

    def _begin(self, spent: float) -> None:
        self._bucket, self._noted = (TokenBucket(self.most / HOUR_S, self.most) for _ in range(2))
        for bucket in (self._bucket, self._noted):
            bucket.take(spent, trio.current_time())


def _spent_by(row: object, now: float, most: int) -> float:
    """Of what a row says, what is not free again. What is out of form says nothing."""
    if not isinstance(row, Mapping):
        return 0
    spent, at = row.get("spent"), row.get("at")
    if not (isinstance(spent, int) and isinstance(at, int)):
        return 0
    return min(2 * most, max(0.0, spent - max(0.0, now - at) * most / HOUR_S))

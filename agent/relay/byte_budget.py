"""So many bytes in a time, and whose turn it is: what bounds a relay's bandwidth. Pure; `now` is of one clock.

    TokenBucket   at most `most` at once, and `per_s` a second on average
    FairBucket    the same for several askers, who are given the same share while they wait

Fair by start-time fair queueing: each piece has a tag, by how much its asker has had since it began to wait, and the
lowest tag is next. So an asker with a hundred requests has one share, one who comes new waits for nobody's backlog, and
one who was away has saved nothing up.

Rejected: a bucket for each asker, since the sum is what the site's network feels; and first come, first served, where
whoever asks most has most.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import count


@dataclass
class TokenBucket:
    """Full at the start. It may be overdrawn by what was taken, and then gives nothing until that is paid."""

    per_s: float
    most: float
    _left: float = field(init=False)
    _at: float | None = None

    def __post_init__(self) -> None:
        self._left = self.most

    def room(self, now: float) -> float:
        if self._at is not None and now > self._at:
            self._left = min(self.most, self._left + (now - self._at) * self.per_s)
        self._at = now if self._at is None else max(now, self._at)
        return self._left

    def take(self, size: float, now: float) -> None:
        self._left = self.room(now) - size

    def wait_s(self, size: float, now: float) -> float:
        """Until as much is there; what is more than the bucket holds is given out of a full one. Less than a byte that
        is lacking is nothing: shares of seconds do not add up exactly.
        """
        lacking = min(size, self.most) - self.room(now)
        return 0.0 if lacking < 1 else lacking / self.per_s


@dataclass(eq=False)
class Ticket:
    """A piece that somebody waits to send."""

    asker: Hashable
    size: int
    tag: float
    is_granted: bool = False
    is_gone: bool = False


@dataclass
class FairBucket:
    tokens: TokenBucket
    _line: list[tuple[float, int, Ticket]] = field(default_factory=list)
    _order: "count[int]" = field(default_factory=count)
    _ends: dict[Hashable, float] = field(default_factory=dict)  # where the next piece of an asker begins
    _now: float = 0.0  # the tag that was granted last

    def enter(self, asker: Hashable, size: int) -> Ticket:
        begin = max(self._now, self._ends.get(asker, 0.0))
        self._ends[asker] = begin + size
        ticket = Ticket(asker, size, begin)
        heapq.heappush(self._line, (begin, next(self._order), ticket))
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """Whoever waits no more; nothing of one that was granted."""
        ticket.is_gone = True
        self._forget()

    def grant(self, now: float) -> list[Ticket]:
        """Those whose turn it is and for whom there is enough, in their order."""
        granted: list[Ticket] = []
        while (ticket := self._first()) is not None and self.tokens.wait_s(ticket.size, now) <= 0:
            heapq.heappop(self._line)
            self.tokens.take(ticket.size, now)
            ticket.is_granted, self._now = True, ticket.tag
            granted.append(ticket)
        self._forget()
        return granted

    def wait_s(self, now: float) -> float:
        """Until the next one may be granted; infinite where nobody waits."""
        first = self._first()
        return float("inf") if first is None else self.tokens.wait_s(first.size, now)

    @property
    def waiting(self) -> int:
        return sum(not ticket.is_gone for _, _, ticket in self._line)

    def _first(self) -> Ticket | None:
        while self._line and self._line[0][2].is_gone:
            heapq.heappop(self._line)
        return self._line[0][2] if self._line else None

    def _forget(self) -> None:
        """With nobody in line everybody begins anew: who has had much an hour ago is behind nobody."""
        if self._first() is None:
            self._ends.clear()
            self._now = 0.0

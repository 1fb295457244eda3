"""Which documents are not asked for again at once: refused ones, and those that no source gives (rules X27).

What a validator kept out is not offered to it again until the head lists another, or an operator asks for it.
"""

import math
from dataclasses import dataclass, field

import trio

from agent.plan import Wanted

AGAIN_S = 300.0  # what the verifier refused is asked for again after this, head or not
NEVER_S = math.inf
LATER_S = 5.0  # what no source gave: soon at first, then less and less often


@dataclass(frozen=True)
class PutOff:
    """Until a moment on trio's clock. `times`: how often in a row no source gave it."""

    snapshot_id: str
    until: float
    times: int = 0


@dataclass
class PutOffs:
    """By scope; another document of the scope is another matter."""

    _by_scope: dict[str, PutOff] = field(default_factory=dict)

    def give_up(self, scope: str, snapshot_id: str, seconds: float = AGAIN_S) -> None:
        self._by_scope[scope] = PutOff(snapshot_id, trio.current_time() + seconds)

    def try_later(self, wanted: Wanted) -> None:
        before = self._of(wanted)
        times = before.times + 1 if before is not None else 0
        until = trio.current_time() + min(AGAIN_S, LATER_S * 2**times)
        self._by_scope[wanted.scope] = PutOff(wanted.listed.snapshot_id, until, times)

    def clear(self) -> None:
        self._by_scope.clear()

    def holds(self, wanted: Wanted) -> bool:
        return self.left_s(wanted) > 0

    def left_s(self, wanted: Wanted) -> float:
        """Seconds until it is asked for again; 0 where it may be now, infinite where not as long as it is listed."""
        found = self._of(wanted)
        return max(0.0, found.until - trio.current_time()) if found is not None else 0.0

    def rest_s(self) -> float:
        """Seconds until the next one is due, at most AGAIN_S."""
        now = trio.current_time()
        return min([AGAIN_S, *(one.until - now for one in self._by_scope.values() if one.until > now)])

    def _of(self, wanted: Wanted) -> PutOff | None:
        found = self._by_scope.get(wanted.scope)
        return found if found is not None and found.snapshot_id == wanted.listed.snapshot_id else None

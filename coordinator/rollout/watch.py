"""How long something has lasted, by one who has watched it: a wall clock that leaps is no time that has passed. Pure.

Stamps in the database are wall-clock times, of any coordinator. A bake of a minute must not be over because a clock was
set, nor begin anew for an hour because it was set back. So a stamp is turned into an age once, when it is first seen,
and grows from then on by the clock that only runs (CLOCK_BOOTTIME). Whoever has looked before knows more: where there
was no stamp at the last look, or another one, the one that is there now is no older than that look, whatever the wall
clock says.

Of what was not looked at before, the wall clock is believed once: a restart in the middle of a bake goes on
where it was. Who is unreachable is not known before one has looked for a while without a gap (`listening_s`): after a
start, or an outage of the database, everybody was last heard of long ago.

Rejected: shifting the stamps when a leap is noticed. Two coordinators share them, and the clock of one is no reason to
move those of the other.
"""

from collections.abc import Hashable
from typing import NamedTuple

GAP_S = 15.0  # without a look: whatever was heard meanwhile was not written down, or not read


class AgeWatch:
    """`begin` each look with both clocks, ask, and `end` it: what was not asked for is forgotten."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Seen] = {}
        self._asked: dict[Hashable, _Seen] = {}
        self._last: float | None = None  # the look before this one, by the clock that only runs
        self._listening_since = 0.0
        self._wall = self._elapsed = 0.0

    def begin(self, wall: float, elapsed: float) -> None:
        if self._last is None or elapsed - self._last > GAP_S:
            self._listening_since = elapsed
        self._wall, self._elapsed, self._asked = wall, elapsed, {}

    def end(self) -> None:
        self._known, self._last = self._asked, self._elapsed

    @property
    def listening_s(self) -> float:
        """Since when it would have been heard of whoever is there."""
        return self._elapsed - self._listening_since

    def age(self, key: Hashable, stamp: float | None) -> float | None:
        """Seconds since a time that stands in the database; None while none does."""
        known = self._known.get(key)
        by_wall = 0.0 if stamp is None else max(0.0, self._wall - stamp)
        at_most = by_wall if known is None or self._last is None else self._elapsed - self._last
        return self._lasting(key, known, stamp, min(by_wall, at_most))

    def lasts(self, key: Hashable, *, holds: bool) -> float | None:
        """Seconds since the first look at which it was so; None before."""
        known = self._known.get(key)
        was_so = known is not None and known.stamp is not None
        return self._lasting(key, known, 0.0 if holds or was_so else None, 0.0)

    def _lasting(self, key: Hashable, seen: "_Seen | None", stamp: float | None, first: float) -> float | None:
        if seen is None or seen.stamp != stamp:
            seen = _Seen(stamp, self._elapsed - first)
        self._asked[key] = seen
        return None if stamp is None else self._elapsed - seen.since


class _Seen(NamedTuple):
    """`since`: by the clock that only runs."""

    stamp: float | None
    since: float

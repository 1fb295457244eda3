"""Which connection ends where a listener is full and one more caller comes. Pure.

The limit for one caller does not help against a caller with many names: four accounts take all the places of the
local socket, and one account has thousands of subordinate ids. So a place is given back by whoever rests on it.

    1. Callers that come first have reserved places (limits.py). They make no room for others, and others do for them.
    2. An idle connection ends before a busy one: of whoever has most, the one that has rested longest.
    3. Who has as many as one caller may have ends the one of his own that has rested longest: each of an account's
       programs may keep one between its requests, and that must not keep the next program out.
    4. With none idle (each holds a long poll), the oldest of whoever has at least two more than the newcomer: a caller
       with few connections loses none of them to one with many.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from wire.limits import Tally


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection that is open. `since`: when its present rest began, or the connection where it does not rest."""

    caller: Hashable
    idle: bool
    since: float


def making_room(newcomer: Hashable, places: Sequence[OpenConnection], tally: Tally) -> OpenConnection | None:
    """None: there is no room for the newcomer."""
    if tally.has_its_share(newcomer):
        return _goes([place for place in places if place.caller == newcomer and place.idle], tally.of(newcomer), tally)
    others = [place for place in places if not tally.is_first(place.caller)]
    first = [place for place in places if tally.is_first(place.caller)]
    fair = tally.of(newcomer) + 1
    return _goes(others, fair, tally) or (_goes(first, fair, tally) if tally.is_first(newcomer) else None)


def _goes(places: Sequence[OpenConnection], fair: int, tally: Tally) -> OpenConnection | None:
    found = [place for place in places if place.idle] or [place for place in places if tally.of(place.caller) > fair]
    return max(found, key=lambda place: (tally.of(place.caller), -place.since), default=None)

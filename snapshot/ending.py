"""What ends, when, and from when on that is said. Pure: who has the things reads them, and `now` is an argument.

Whatever is made has an end, and an end that nobody sees coming is an outage. So a thing is `SOON` from a third of its
lifetime before its end: measured in its own life, since a day is short for a key and long for a token. A thing that
renews itself is soon only when it has missed its own renewal: halfway between that and its end. One whose end is meant
(a retiring key, a join token) is `PLANNED`, before its end and after it: it is listed, and asks nobody for anything.
"""

import enum
from collections.abc import Iterable

from snapshot.frozen import frozen
from snapshot.identifiers import format_time

SHARE = 3  # the last third of a lifetime
SHORT = 12  # hex digits of an id


class Urgency(enum.StrEnum):
    FINE = "fine"
    PLANNED = "planned"
    SOON = "soon"
    ENDED = "ended"


@frozen
class Thing:
    """`what` is its kind, `name` which one; `then`: what happens at the end; `remedy`: the command that renews it.

    Times are Unix seconds. `renews_from`: it renews itself from then on.
    """

    what: str
    name: str
    begins: float
    ends: float
    then: str
    remedy: str
    is_planned: bool = False
    renews_from: float | None = None

    @property
    def warns_from(self) -> float:
        """When its end begins to be said."""
        if self.renews_from is not None:
            return (self.renews_from + self.ends) / 2
        return self.ends - (self.ends - self.begins) / SHARE

    def urgency(self, now: float, within_s: float = 0.0) -> Urgency:
        """As of `now`. What ends `within_s` is soon as well, unless it renews itself."""
        if self.is_planned:
            return Urgency.PLANNED
        if now >= self.ends:
            return Urgency.ENDED
        is_near = self.renews_from is None and self.ends - now <= within_s
        return Urgency.SOON if is_near or now >= self.warns_from else Urgency.FINE

    def sentence(self, now: float) -> str:
        """For a log or a probe."""
        verb = "has ended" if now >= self.ends else "ends"
        return f"{self.what} {short(self.name)} {verb} at {format_time(self.ends)}: {self.then}; {self.remedy}"


def short(name: str) -> str:
    """Of a key or a certificate as files and commands name it; any other name as it is."""
    kind, colon, digest = name.partition(":")
    return digest[:SHORT] if (kind, colon) == ("sha256", ":") else name


def in_order(things: Iterable[Thing]) -> list[Thing]:
    """What ends first, first."""
    return sorted(things, key=lambda each: (each.ends, each.what, each.name))


def due(things: Iterable[Thing], now: float, within_s: float = 0.0) -> list[Thing]:
    """Those that somebody has to do something about, in order."""
    asks = (Urgency.SOON, Urgency.ENDED)
    return in_order(thing for thing in things if thing.urgency(now, within_s) in asks)


def worst(things: Iterable[Thing], now: float, within_s: float = 0.0) -> Urgency:
    """The greatest urgency among them."""
    ranks = [Urgency.FINE, Urgency.PLANNED, Urgency.SOON, Urgency.ENDED]
    return max((thing.urgency(now, within_s) for thing in things), key=ranks.index, default=Urgency.FINE)

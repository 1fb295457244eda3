"""A thing that ends, as both daemons tell it in their status."""

from snapshot.ending import Thing, Urgency
from snapshot.identifiers import format_time
from wire.forms import TIMESTAMP, member, message, one_of

URGENCY = one_of(*map(str, Urgency))


@message
class EndingThing:
    """A thing that ends (snapshot/ending.py)."""

    what: str
    name: str
    begins: str = member(TIMESTAMP)
    ends: str = member(TIMESTAMP)
    said_from: str = member(TIMESTAMP)
    urgency: str = member(URGENCY)
    then: str
    remedy: str

    @classmethod
    def of(cls, thing: Thing, now: float, within_s: float = 0.0) -> "EndingThing":
        return cls(
            what=thing.what,
            name=thing.name,
            begins=format_time(thing.begins),
            ends=format_time(thing.ends),
            said_from=format_time(thing.warns_from),
            urgency=str(thing.urgency(now, within_s)),
            then=thing.then,
            remedy=thing.remedy,
        )

    def words(self) -> dict[str, str]:
        """For a log: what asks somebody to do something, without since when it does."""
        told = {name: str(value) for name, value in vars(self).items()}
        return {name: value for name, value in told.items() if name not in ("begins", "said_from")}

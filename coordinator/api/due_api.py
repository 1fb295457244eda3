"""What an operator asks about what ends (docs/admin-api.md)."""

from coordinator.api.operator_route import for_operators
from coordinator.runtime.expiries import MEMBER
from coordinator.runtime.reminder import Reminder
from snapshot.ending import Thing, Urgency, in_order, worst
from snapshot.identifiers import format_time
from wire.endings import EndingThing
from wire.operators.operator_answers import Endings, MemberEndings
from wire.request import Request
from wire.routes import HttpRoute

LONGEST_S = 100 * 365 * 86_400


class DueApi:
    def __init__(self, reminder: Reminder) -> None:
        self._reminder = reminder

    def routes(self) -> tuple[HttpRoute, ...]:
        return (HttpRoute("GET", "/v1/due", for_operators(self.due)),)

    async def due(self, request: Request) -> Endings:
        """All that ends, what ends first first. Of members' certificates: how many, and those that ask for somebody;
        each of them with `all=1`.
        """
        within_s = request.query_integer("within_s", 0, 0, LONGEST_S)
        is_whole = request.query_integer("all", 0, 0, 1) == 1
        things, now = await self._reminder.look(), self._reminder.coordinator.now()
        members = in_order(thing for thing in things if thing.what == MEMBER)
        shown = [thing for thing in in_order(things) if is_whole or _is_shown(thing, now, within_s)]
        return Endings(
            now=format_time(now),
            urgency=str(worst(things, now, within_s)),
            things=tuple(EndingThing.of(thing, now, within_s) for thing in shown),
            members=MemberEndings(len(members), format_time(members[0].ends) if members else None),
        )


def _is_shown(thing: Thing, now: float, within_s: float) -> bool:
    return thing.what != MEMBER or thing.urgency(now, within_s) in (Urgency.SOON, Urgency.ENDED)

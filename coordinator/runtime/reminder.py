"""Says what ends: to the log once a day for each thing, to metrics, status and probes whenever they ask.

Read anew every ten minutes, and at each question of an operator. Ends lie days ahead, so nothing hangs on the minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import trio
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base.refusal import Refused
from coordinator.base.threads import in_library
from coordinator.database.database_fault import line_of
from coordinator.database.member_ends import MemberEnds
from coordinator.runtime import expiries
from coordinator.runtime.context import Coordinator
from coordinator.runtime.expiries import OwnCredentials
from snapshot.ending import Thing, Urgency, due
from wire.endings import EndingThing
from wire.logs import log

LOOK_S = 600.0
SAY_AGAIN_S = 86_400.0


@dataclass
class Reminder:
    """`things`: as they were read last."""

    coordinator: Coordinator
    things: Sequence[Thing] = ()
    _members: MemberEnds = field(default_factory=MemberEnds)
    _said: dict[tuple[str, str, Urgency], float] = field(default_factory=dict)  # when, Unix seconds

    async def poll(self) -> None:
        """Until cancelled."""
        while True:
            await trio.sleep(LOOK_S)
            await self.remind()

    async def remind(self) -> None:
        """Once; a database that does not answer is the keeper's to tell, and this is put off."""
        try:
            await self.look()
        except (SQLAlchemyError, Refused) as error:
            detail = line_of(error) if isinstance(error, SQLAlchemyError) else str(error)
            log.warning("what ends was not read", reason=detail)

    async def look(self) -> Sequence[Thing]:
        """Once: read, and said where it is time."""
        at = self.coordinator
        replica = OwnCredentials(
            at.coordinator_id,
            tuple(key.key_id for key in at.publisher.keys),
            at.shown.certificate,
            at.shown.authorities,
        )
        self.things = await in_library(_read, at, replica, self._members)
        self._say(at.now())
        return self.things

    def due(self) -> list[Thing]:
        """What somebody has to do something about."""
        return due(self.things, self.coordinator.now())

    def _say(self, now: float) -> None:
        asking = {(thing.what, thing.name, thing.urgency(now)): thing for thing in due(self.things, now)}
        self._said = {key: at for key, at in self._said.items() if key in asking and now - at < SAY_AGAIN_S}
        for key, thing in asking.items():
            if key not in self._said:
                self._said[key] = now
                tell = log.error if key[2] is Urgency.ENDED else log.warning
                tell("ends", **EndingThing.of(thing, now).words())


def _read(at: Coordinator, replica: OwnCredentials, members: MemberEnds) -> list[Thing]:
    return expiries.read(at.database, replica, members.read(at.database), at.settings, at.now())

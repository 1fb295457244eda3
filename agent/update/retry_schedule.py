"""Which documents are not asked for again yet, and until when (rules X27, P14).

A cause is a scope, its version and the hash of the state that it leads to: one and the same for the increment and the
whole, from whichever source, and for what waited in its slot until `valid_from`. Snapshot ids are no part of it: an
increment has one of its own, so that a refusal of it would not be found again under the id that the head lists. Equal
content under another version is another cause, since a coordinator lists it anew only after it has renewed something:
it is tried once, and then rests as well.

    SOURCES    no source gave it: soon at first, then less and less often
    STORE      the store did not take it
    VERIFIER   it was refused: seldom, but at once when trust, roles or organizations have changed (`reconsider`)
    TIMED_OUT  a validator came to no judgement (too slow, killed, not started): as seldom, since the next run may
    VALIDATOR  a validator has judged, and says no, or it is in quarantine: not again while the head lists it

Under all of them lies one floor (`LEAST_S`), also when an operator has everything asked for anew (`clear`): a file that
is watched, a client in a loop or a head that changes ten times a second costs one attempt a second at most. A validator
that was only unlucky is not believed for ever: without the slow retry a scope would stay behind until the next version
because of one busy minute. A "no" is: running it again gives the same answer, and costs the service's machine.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

import trio

from agent.state.plan import WantedScope, version_of
from snapshot.envelope import Envelope
from wire.backoff import LEAST_S, BackOff

AGAIN_S = 300.0  # a look at everything, whatever else happens
HOUR_S = 3600.0
NEVER = (math.inf, math.inf)
MOST_EACH = 16  # causes that are remembered of one scope


class Why(Enum):
    SOURCES = "sources"
    STORE = "store"
    VERIFIER = "verifier"
    TIMED_OUT = "timed_out"
    VALIDATOR = "validator"


PACE: Mapping[Why, tuple[float, float]] = {  # seconds at first, and at most; each time twice as long
    Why.SOURCES: (5.0, AGAIN_S),
    Why.STORE: (30.0, AGAIN_S),
    Why.VERIFIER: (AGAIN_S, HOUR_S),
    Why.TIMED_OUT: (AGAIN_S, HOUR_S),
}


@dataclass(frozen=True)
class RetryKey:
    scope: str
    version: tuple[int, int]
    content_hash: str

    @classmethod
    def of(cls, wanted: WantedScope) -> Self:
        return cls(wanted.scope, version_of(wanted.listed), wanted.listed.content_hash)

    @classmethod
    def of_document(cls, envelope: Envelope) -> Self:
        """Of a snapshot, or of an increment."""
        return cls(envelope.scope, envelope.version, envelope.state_hash)


@dataclass
class Rest:
    """`at`, `until` on the clock of `PutOffs`. `why` None: nothing failed, it waits for its time."""

    why: Why | None
    at: float
    until: float
    back_off: BackOff


def highest(_: float, high: float) -> float:
    return high


@dataclass
class PutOffs:
    """`uniform` spreads nodes that were refused together; `now` is trio's clock."""

    uniform: Callable[[float, float], float] = highest
    now: Callable[[], float] = trio.current_time
    _rests: dict[RetryKey, Rest] = field(default_factory=dict)

    def put_off(self, cause: RetryKey, why: Why) -> None:
        """It was tried just now, in vain."""
        before, now = self._rests.pop(cause, None), self.now()
        same = before is not None and before.why is why
        back_off = before.back_off if before is not None and same else BackOff(self.uniform, *PACE.get(why, NEVER))
        rest_s = back_off.note_failure() if why in PACE else math.inf
        self._rests[cause] = Rest(why, now, now + rest_s, back_off)
        self._forget_oldest(cause.scope)

    def wait(self, cause: RetryKey, seconds: float) -> None:
        """It is here, and its time has not come: nobody need be asked for it."""
        before, until = self._rests.get(cause), self.now() + seconds
        if before is None:
            self._rests[cause] = Rest(None, -math.inf, until, BackOff(self.uniform))
        elif before.until < until:
            before.until = until

    def clear(self) -> None:
        """Somebody asks for everything: whatever rests is due, but for the floor."""
        for rest in self._rests.values():
            rest.back_off.note_success()
            rest.until = min(rest.until, rest.at + LEAST_S)

    def reconsider(self) -> None:
        """What documents are judged by has changed: what the verifier refused is due, but for the floor."""
        for rest in self._rests.values():
            if rest.why is Why.VERIFIER:
                rest.until = min(rest.until, rest.at + LEAST_S)

    def holds(self, cause: RetryKey) -> bool:
        return self.left_s(cause) > 0

    def has_failed(self, cause: RetryKey) -> bool:
        """Whether it rests because it was tried in vain, and not because its time has not come."""
        return self.holds(cause) and self._rests[cause].why is not None

    def left_s(self, cause: RetryKey) -> float:
        """Seconds until it is asked for again; 0 where it may be now, infinite where not as long as it is listed."""
        found = self._rests.get(cause)
        return max(0.0, found.until - self.now()) if found is not None else 0.0

    def rest_s(self) -> float:
        """Seconds until the next one is due, at most AGAIN_S."""
        now = self.now()
        return min([AGAIN_S, *(rest.until - now for rest in self._rests.values() if rest.until > now)])

    def _forget_oldest(self, scope: str) -> None:
        """The last ones of a scope are remembered, so that a head that goes to and fro tries none of them anew."""
        floor = self.now() - LEAST_S
        mine = [cause for cause, rest in self._rests.items() if cause.scope == scope and rest.at <= floor]
        for cause in mine[: max(0, sum(waiting.scope == scope for waiting in self._rests) - MOST_EACH)]:
            del self._rests[cause]

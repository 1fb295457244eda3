"""The guarded clock, pure: what time it is for a node whose wall clock may be wrong (format.md 7; rules A16..A19).

`now` is the wall clock, never behind the floor: the highest authenticated `issued_at`, plus the time since on the boot
clock. A wall clock that jumps forward is believed for as long as it is wrong, and nothing of it is kept.
"""

from snapshot.frozen import frozen, mutable
from store.base.timefloor import Boot, TimeFloor

SKEW_S = 300.0  # rules, Numbers: clock skew; fixed by format.md 7


@frozen
class ClockReading:
    """All clocks at one moment. `wall` is Unix seconds; `synchronised` is None where it cannot be known."""

    wall: float
    boot: Boot
    synchronised: bool | None = True


@frozen
class GuardedTime:
    """One reading, guarded. `behind_s`: how far the wall clock is behind the floor, negative when it is ahead."""

    now: float
    boot: Boot
    behind_s: float
    synchronised: bool | None

    @property
    def may_be_synchronised(self) -> bool:
        """A state that cannot be known counts as synchronised (threats D-23)."""
        return self.synchronised is not False


def guard(reading: ClockReading, floor: TimeFloor | None) -> GuardedTime:
    """The reading, not behind the floor; without a floor as it is."""
    least = floor.at(reading.boot) if floor is not None else reading.wall
    return GuardedTime(max(reading.wall, least), reading.boot, least - reading.wall, reading.synchronised)


@mutable
class Regression:
    """Whether the wall clock went back (rules A18): it is more than the skew behind the floor.

    A successful check-in shows that the floor is right and puts up with the present gap, until the clock goes back
    by the skew once more. A clock that is right again needs no such leave.
    """

    allowed_s: float = 0.0

    def is_met(self, moment: GuardedTime) -> bool:
        if moment.behind_s <= SKEW_S:
            self.allowed_s = 0.0
        return moment.behind_s > self.allowed_s + SKEW_S

    def confirm(self, moment: GuardedTime) -> None:
        self.allowed_s = max(0.0, moment.behind_s)


@frozen
class Stopwatch:
    """Since when something lasts, on the boot clock, so that no wall clock stretches or shortens it (rules J38).

    `about` names what is timed (the head that expired); `began` may lie before this boot's first second.
    """

    about: str
    boot_id: str
    began: float
    since: float  # Unix seconds, by the guarded clock, when it was started: for another boot, and for people

    @classmethod
    def begin(cls, about: str, ago_s: float, moment: GuardedTime) -> "Stopwatch":
        """Of what began `ago_s` seconds before this moment."""
        return cls(about, moment.boot.boot_id, moment.boot.elapsed - ago_s, moment.now - ago_s)

    def elapsed_s(self, moment: GuardedTime) -> float:
        """In the same boot by the boot clock alone; in another one by the guarded clock, for want of a better."""
        if moment.boot.boot_id == self.boot_id:
            return moment.boot.elapsed - self.began
        return max(0.0, moment.now - self.since)


@mutable
class OutageClock:
    """How long the node has been without a fresh head, on the boot clock (rules J38, S57).

    While the head is fresh, the boot clock's reading at which it will expire is known; a wall clock that jumps then
    moves the expiry, but never makes the outage look older than it is. `running` is kept across restarts.
    """

    running: Stopwatch | None = None
    _due: tuple[str, str, float] | None = None  # head, boot, the boot clock's reading at its expiry

    def outage_s(self, head: str, expires_at: float | None, moment: GuardedTime) -> float:
        """Seconds since the head called `head` expired, 0 while it has not; called at each use.

        `expires_at` is None where the head was lost: then since that was seen first, or since it had expired before.
        """
        boot = moment.boot
        if expires_at is None:
            self.running = self.running or Stopwatch.begin(head, 0.0, moment)
            return max(0.0, self.running.elapsed_s(moment))
        if moment.now < expires_at:
            self.running, self._due = None, (head, boot.boot_id, boot.elapsed + expires_at - moment.now)
            return 0.0
        if self.running is None or self.running.about != head:
            self.running = Stopwatch.begin(head, self._ago_s(head, expires_at, moment), moment)
        return max(0.0, self.running.elapsed_s(moment))

    def _ago_s(self, head: str, expires_at: float, moment: GuardedTime) -> float:
        if self._due is not None and self._due[:2] == (head, moment.boot.boot_id):
            return max(0.0, moment.boot.elapsed - self._due[2])
        return moment.now - expires_at

"""Clocks that a test moves, driven by a mock clock of trio, and limiters that hold it while threads work."""

import math
from dataclasses import dataclass, field

import trio
from trio.testing import MockClock

from agent.base.guarded_clock import ClockReading
from agent.base.threads import Threads
from store.base.timefloor import Boot
from tests.fakes.cluster import NOW

# Loopback delivers within send(), so that when all tasks wait nothing is under way.
THRESHOLD_S = 0.0


@dataclass
class FakeClock:
    """Wall and boot clock go with trio's. `wall_offset_s` is how wrong the wall clock is."""

    mock: MockClock
    base: float = NOW
    boot_id: str = "boot-1"
    boot_base: float = 5000.0
    wall_offset_s: float = 0.0
    synchronised: bool | None = True
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.mock.current_time()

    @property
    def true(self) -> float:
        """What the time really is, Unix seconds."""
        return self.base + self.mock.current_time() - self._start

    def read(self) -> ClockReading:
        elapsed = self.boot_base + self.mock.current_time() - self._start
        return ClockReading(self.true + self.wall_offset_s, Boot(self.boot_id, elapsed), self.synchronised)

    def reboot(self) -> None:
        self.boot_id = f"{self.boot_id}+"
        self.boot_base -= self.read().boot.elapsed - 10


class HoldingLimiter:
    """A limiter during whose calls the mock clock does not jump: what a thread does takes no time."""

    working = 0

    def __init__(self, total: int, clock: MockClock) -> None:
        self._inner = trio.CapacityLimiter(total)
        self._clock = clock

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        await self._inner.acquire_on_behalf_of(borrower)
        HoldingLimiter.working += 1
        self._clock.autojump_threshold = math.inf

    def release_on_behalf_of(self, borrower: object) -> None:
        self._inner.release_on_behalf_of(borrower)
        HoldingLimiter.working -= 1
        if not HoldingLimiter.working:
            self._clock.autojump_threshold = THRESHOLD_S


class Inline(Threads):
    """Without threads, for tests under a clock that jumps whenever nothing happens on the loop."""

    async def read(self, operation, *arguments, **named):
        await trio.lowlevel.checkpoint()
        return operation(*arguments, **named)

    write = verify = read


def threads(clock: MockClock, *, inline: bool = False) -> Threads:
    """Such that a clock which stands still jumps; one that runs (`rate`) is left alone. `inline`: there are none."""
    if clock.rate > 0:
        return Threads()
    clock.autojump_threshold = THRESHOLD_S
    HoldingLimiter.working = 0
    if inline:
        return Inline()
    return Threads(lambda total: HoldingLimiter(total, clock))  # type: ignore[arg-type,return-value]

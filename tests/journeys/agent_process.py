"""The agent as a process: python -m tests.journeys.agent_process CONFIG AHEAD_S [MAP_BYTES].

Its wall clock is so many seconds ahead; a store may be smaller than a configuration lets it be.
"""

import sys
from dataclasses import replace
from pathlib import Path

import trio

from agent import run
from agent.base.clock import SystemClock
from agent.base.guarded_clock import ClockReading
from agent.config import configuration


class ShiftedClock:
    """The machine's, the wall clock so many seconds ahead."""

    def __init__(self, offset_s: float) -> None:
        self._clock, self._offset_s = SystemClock(), offset_s

    def read(self) -> ClockReading:
        reading = self._clock.read()
        return ClockReading(reading.wall + self._offset_s, reading.boot, True)


async def main() -> None:
    settings = configuration.load(Path(sys.argv[1]))
    if len(sys.argv) > 3:
        settings = replace(settings, limits=replace(settings.limits, map_bytes=int(sys.argv[3])))
    await run.serve(settings, clock=ShiftedClock(float(sys.argv[2])))


if __name__ == "__main__":
    trio.run(main, strict_exception_groups=True)

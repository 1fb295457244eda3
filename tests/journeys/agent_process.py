"""The agent as a process (`start`): python -m tests.journeys.agent_process CONFIG AHEAD_S [MAP_BYTES].

Its wall clock is so many seconds ahead; a store may be smaller than a configuration lets it be. In the place of AHEAD_S
may be a file that a test writes anew: `{"ahead_s": S, "boot_id": ID, "booted_at": S}`, on the clock CLOCK_BOOTTIME.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import trio

from agent import run
from agent.base.clock import SystemClock
from agent.base.guarded_clock import ClockReading
from agent.config import configuration
from store.base.timefloor import Boot
from tests.journeys.interpreter import AGENT_PYTHON
from tests.world import programs
from tests.world.fork_server import ANOTHER_CLOCK


class ShiftedClock:
    """The machine's, the wall clock so many seconds ahead."""

    def __init__(self, offset_s: float) -> None:
        self._clock, self._offset_s = SystemClock(), offset_s

    def read(self) -> ClockReading:
        reading = self._clock.read()
        return ClockReading(reading.wall + self._offset_s, reading.boot, True)


class WrittenClock:
    """The machine's, as a file says at each reading: how far ahead it is, which boot this is, and when that began."""

    def __init__(self, file: Path) -> None:
        self._clock, self._file = SystemClock(), file

    def read(self) -> ClockReading:
        reading, said = self._clock.read(), json.loads(self._file.read_text())
        boot = Boot(said["boot_id"], reading.boot.elapsed - said["booted_at"])
        return ClockReading(reading.wall + said["ahead_s"], boot, False)


def start(folder: Path, *words: object, plainly: bool = False) -> programs.Process | subprocess.Popen[bytes]:
    """On the disk `folder`, whose `agent.toml` and `log` are taken; `words` follow CONFIG."""
    arguments = (folder / "agent.toml", *words)
    return programs.start_by(
        AGENT_PYTHON, ANOTHER_CLOCK, *arguments, folder=folder, log=folder / "log", plainly=plainly
    )


def clock_of(said: str) -> ShiftedClock | WrittenClock:
    return WrittenClock(Path(said)) if Path(said).is_absolute() else ShiftedClock(float(said))


async def serve() -> None:
    settings = configuration.load(Path(sys.argv[1]))
    if len(sys.argv) > 3:
        settings = replace(settings, limits=replace(settings.limits, map_bytes=int(sys.argv[3])))
    await run.serve(settings, clock=clock_of(sys.argv[2]))


def main() -> None:
    trio.run(serve, strict_exception_groups=True)


if __name__ == "__main__":
    main()

"""24 simulated hours of updates at one node: what its memory and its disk come to.

    python -m benchmarks.agent_day [--hours 24]

The agent is a process with a real coordinator over TLS. It holds 102 sections of 10 KiB; every five minutes one is
changed, as an increment, and once an hour all of them. Between two updates the clocks of both, trio's too, leap from
one poll to the next: polls, heartbeats, hourly garbage and rounds of hashing come as in a real day, with polls of 25 s.
A curve that is flat has an exponent near 0.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from trio.lowlevel import FdStream
from trio.testing import MockClock

from agent import run
from agent.base.clock import SystemClock
from agent.base.guarded_clock import ClockReading
from agent.config import configuration
from benchmarks.agent import OFFSET, Process, coordinator
from benchmarks.agent_update import Kind, files_show, section
from benchmarks.figures import note
from store.base.timefloor import Boot
from tests.citations import ROOT
from tests.fakes.cluster import ORGANIZATIONS
from tests.fakes.coordinator_server import CoordinatorServer
from tests.journeys.lab import ROUTES

EACH_S, HOUR_S = 300.0, 3600.0
POLL_S, LEAP_S = 25, 30.0
INTERVALS = f"\n[intervals]\npoll_wait_s = {POLL_S}\n"
HOURS_BETWEEN_LOOKS = 2
MOST_S = 60.0
POLL = "GET /v1/head"


# ---- the node, in a process of its own


class LeapingClock:
    """The machine's, `ahead_s` later."""

    def __init__(self, ahead_s: float) -> None:
        self._clock, self.ahead_s, self.leapt_s = SystemClock(), ahead_s, 0.0

    def read(self) -> ClockReading:
        reading = self._clock.read()
        boot = Boot(reading.boot.boot_id, reading.boot.elapsed + self.leapt_s)
        return ClockReading(reading.wall + self.ahead_s + self.leapt_s, boot, True)


async def leap(clock: LeapingClock, ours: MockClock) -> None:
    """So many seconds a line of standard input."""
    async for data in FdStream(os.dup(0)):
        for line in data.split():
            clock.leapt_s += float(line)
            ours.jump(float(line))


async def serve(path: Path, ahead_s: float, ours: MockClock) -> None:
    clock = LeapingClock(ahead_s)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(leap, clock, ours)
        await run.serve(configuration.load(path), clock=clock)


# ---- the day


@dataclass
class Day:
    """`leapt_s`: how far the agent and the coordinator are ahead of the machine by now."""

    server: CoordinatorServer
    process: Process
    files: Path
    ours: MockClock
    leapt_s: float = 0.0

    def __post_init__(self) -> None:
        self.server.now = lambda: time.time() + OFFSET + self.leapt_s

    async def leap(self) -> None:
        """First the coordinator, which answers the poll that it holds; then the agent, once it has asked again."""
        self.leapt_s += LEAP_S
        asked = self._polls()
        self.ours.jump(LEAP_S)
        with trio.fail_after(MOST_S):
            while self._polls() == asked:  # noqa: ASYNC110 - another process
                await trio.sleep(0.002)
        assert self.process.popen.stdin is not None
        self.process.popen.stdin.write(f"{LEAP_S}\n".encode())
        self.process.popen.stdin.flush()

    def _polls(self) -> int:
        return sum(request == POLL for request in self.server.requests)

    async def update(self, kind: Kind, mark: int) -> None:
        kind.publish(mark)
        self.server.announce()
        with trio.fail_after(MOST_S):
            await files_show(self.files, self.server.cluster.versions[ROUTES])

    def say(self, folder: Path, hour: int) -> None:
        anonymous = self.process.kib("RssAnon") / 1024
        files = [path for path in (folder / "state").rglob("*") if path.is_file()]
        held = sum(path.stat().st_blocks * 512 for path in files) / (1 << 20)
        note("day/anonymous memory", "MiB", [anonymous], size=hour)
        note("day/state directory", "MiB", [held], size=hour)
        print(f"after {hour} hours: {anonymous:.1f} MiB anonymous, {held:.1f} MiB of state", flush=True)


class Updates(Kind):
    """One changed section, and once an hour all of them."""

    def publish(self, mark: int) -> None:
        if mark * EACH_S % HOUR_S == 0:
            self.publish_whole(mark)
            return
        name = mark % self.count
        changed = {f"routes.{name:05x}": section(f"r{name:05}", self.size, mark)}
        self.server.publish_increment(ROUTES, sets=changed, organization_ids=list(ORGANIZATIONS))


async def measure(folder: Path, hours: int, ours: MockClock) -> None:
    async with coordinator(folder) as server:
        kind = Updates(server, "small")
        kind.begin()
        server.announce()
        with node(folder) as process:
            while process.answer() is None:  # noqa: ASYNC110 - another process
                await trio.sleep(0.05)
            day = Day(server, process, folder / "run", ours)
            await files_show(day.files, server.cluster.versions[ROUTES])
            for mark in range(1, int(hours * HOUR_S / EACH_S) + 1):
                for _ in range(int(EACH_S / LEAP_S)):
                    await day.leap()
                await day.update(kind, mark)
                if mark * EACH_S % (HOURS_BETWEEN_LOOKS * HOUR_S) == 0:
                    day.say(folder, int(mark * EACH_S / HOUR_S))


@contextmanager
def node(folder: Path) -> Iterator[Process]:
    toml = folder / "agent.toml"
    toml.write_text(toml.read_text() + INTERVALS)
    command = [sys.executable, "-m", "benchmarks.agent_day", "--node", str(toml), "--ahead", str(OFFSET)]
    environment = {**os.environ, "NOTIFY_SOCKET": ""}
    with (folder / "agent.log").open("ab") as log:
        popen = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        yield Process(popen, folder / "run" / "agent.sock")
    except BaseException:
        print((folder / "agent.log").read_text()[-3000:], file=sys.stderr)
        raise
    finally:
        popen.terminate()
        popen.wait(30)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hours", type=int, default=24)
    options.add_argument("--node", type=Path, help=argparse.SUPPRESS)
    options.add_argument("--ahead", type=float, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    ours = MockClock(rate=1.0)
    if chosen.node:
        trio.run(serve, chosen.node, chosen.ahead, ours, clock=ours)
        return
    with tempfile.TemporaryDirectory() as name:
        trio.run(measure, Path(name), chosen.hours, ours, clock=ours)


if __name__ == "__main__":
    main()

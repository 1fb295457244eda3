"""The interpreter, set so that nobody waits long for a thread that works something out.

A caller is answered on the event loop while threads plan, compile and sign. Each time the loop comes back from the
kernel it has to get the interpreter's lock, several times for one answer, and a thread keeps that for the switch
interval: with Python's own 5 ms a report waited 20 ms beside a plan.

The collector of cycles visits all that lives. At its usual pace that is a third of the work of waking thousands of held
connections; and a visit of everything stops all threads, with 3,000 nodes for a tenth of a second and with 10,000 for
half of one. So did one of what a change of 1,000 nodes had made, in the middle of it: what is published is kept. What
is in cycles here is little, and nearly all of it is gone at the first visit, of what is new: a hundred changes leave
some thirty objects behind (benchmarks/coordinator_memory.py). So what has outlived one visit is visited where memory
has grown by a quarter, which it does where something leaks, and while it is flat never. Where it was what lives that
has grown, that is the new measure; where much was found that nobody reaches, the measure stays, and what leaks is
visited each hour.

What is large and no longer held would be freed in one go, while all threads stand: that is done in slices, in a thread
of its own (releasing.py).

Rejected: never to visit the old, since what leaks then leaks for as long as the program runs; to visit it once an hour
for nothing; to measure from the last visit in any case, since what it takes by then rises with what leaks, a quarter at
a time; and to freeze a model once it is loaded, which takes whatever lives beside it out of every later visit.
"""

import gc
import os
import sys
from pathlib import Path

import trio

from coordinator.base import releasing
from coordinator.base.threads import in_thread_of
from wire.logs import log

SWITCH_S = 0.0005
COLLECT_AFTER = 10_000  # new objects
NEVER = 1 << 30
LOOK_S = 3_600.0
GROWN, GROWN_BYTES = 1.25, 32 << 20  # by both
LEAKED = 20_000  # objects; where what lives has grown it is mostly none
RELEASE_S = 1.0
_releasing = trio.CapacityLimiter(1)


def set_up() -> None:
    """For a program that serves. What the start has made stays for good."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, NEVER, NEVER)


async def tidy() -> None:
    """Until cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_where_memory_grows)
        nursery.start_soon(release_in_slices)


async def collect_where_memory_grows() -> None:
    """Until cancelled. The first look is the measure: what serves a fleet for an hour has loaded it."""
    await trio.sleep(LOOK_S)
    before = resident_bytes()
    while True:
        await trio.sleep(LOOK_S)
        now = resident_bytes()
        if has_grown(before, now):
            found = gc.collect()
            log.info("memory has grown: unreachable objects freed", found=found, mib_before=before >> 20, mib=now >> 20)
            if found < LEAKED:
                before = resident_bytes()


def has_grown(before: int, now: int) -> bool:
    """So much that a visit of all that lives may be worth what it costs. In bytes."""
    return now >= before * GROWN and now >= before + GROWN_BYTES


def resident_bytes() -> int:
    """What this process takes of the machine's memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def release_in_slices() -> None:
    """Until cancelled."""
    with releasing.releasing():
        while True:
            await trio.sleep(RELEASE_S)
            if releasing.are_waiting():
                await in_thread_of(_releasing, releasing.release)

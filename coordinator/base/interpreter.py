"""The interpreter, set so that nobody waits long for a thread that works something out.

A caller is answered on the event loop while threads plan, compile and sign. Each time the loop comes back from the
kernel it has to get the interpreter's lock, several times for one answer, and a thread keeps that for the switch
interval: with Python's own 5 ms a report waited 20 ms beside a plan.

The collector of cycles visits all that lives. At its usual pace that is a third of the work of waking thousands of held
connections; and a visit of everything stops all threads, with a plan of 1,000 nodes for a third of a second and of
10,000 for several. What is in cycles here is little and mostly young, so the old is visited once an hour.

What is large and no longer held would be freed in one go, while all threads stand: that is done in slices, in a thread
of its own (releasing.py).

Rejected: never to visit the old, since what leaks then leaks for as long as the program runs; and to freeze a model
once it is loaded, which takes whatever lives beside it out of every later visit.
"""

import gc
import sys

import trio

from coordinator.base import releasing
from coordinator.base.threads import in_thread_of

SWITCH_S = 0.0005
COLLECT_AFTER, COLLECT_MIDDLE = 10_000, 10  # new objects; of those visits, every so many the middle-aged
NEVER = 1 << 30
COLLECT_ALL_S = 3_600.0
RELEASE_S = 1.0
_releasing = trio.CapacityLimiter(1)


def set_up() -> None:
    """For a program that serves. What the start has made stays for good."""
    sys.setswitchinterval(SWITCH_S)
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, COLLECT_MIDDLE, NEVER)


async def tidy() -> None:
    """Until cancelled."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect_all)
        nursery.start_soon(release_in_slices)


async def collect_all() -> None:
    """Until cancelled."""
    while True:
        await trio.sleep(COLLECT_ALL_S)
        gc.collect()


async def release_in_slices() -> None:
    """Until cancelled."""
    with releasing.releasing():
        while True:
            await trio.sleep(RELEASE_S)
            if releasing.are_waiting():
                await in_thread_of(_releasing, releasing.release)

"""The interpreter, set so that the event loop does not wait long for a thread (20 ms, as everything here).

A caller is answered on the loop while a thread parses a section. Each time the loop comes back from the kernel it has
to get the interpreter's lock, several times for one answer, and a thread keeps that for the switch interval. And a
full collection looks at every object that was ever loaded, which stops all threads for 50 ms.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_LIBC = ctypes.CDLL(None)
SWITCH_S = 0.0005  # Python's own is 5 ms; a thread that has the lock to itself is not slowed down


@contextmanager
def responsive() -> Iterator[None]:
    """Inside of the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        gc.unfreeze()
        sys.setswitchinterval(before)


def keep_what_is_loaded() -> None:
    """Modules and what they hold stay: from now on collections look at what comes after, which is little."""
    gc.freeze()


def give_back_memory() -> None:
    """What an update took and left goes back to the system: the C library keeps it otherwise, with a scope of 20,000
    sections a tenth of all that the agent has. On a thread.
    """
    if hasattr(_LIBC, "malloc_trim"):  # glibc's
        _LIBC.malloc_trim(0)

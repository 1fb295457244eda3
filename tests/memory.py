"""Where tests have their folders: in memory where there is room, since what they store is gone with them.

Each commit of SQLite and each swap of a node's store waits for the disk, thousands of times in a run. That bytes
outlive a power cut is tests/faults' claim, on file systems of its own.
"""

import os

_MEMORY = "/dev/shm"
_ROOM_BYTES = 2 << 30


def memory_folder() -> str | None:
    """None where that file system is missing, small, or runs no programs, as in a container."""
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return None
    is_small = found.f_bavail * found.f_frsize < _ROOM_BYTES
    return None if is_small or found.f_flag & os.ST_NOEXEC or not os.access(_MEMORY, os.W_OK) else _MEMORY

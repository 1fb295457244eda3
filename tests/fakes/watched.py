"""Waiting for what another process does, on the kernel's word rather than by looking again and again.

await until_there(path)              a file is there, and whoever wrote it has closed it
await until_changed(path, look)      `look` holds after a change to the file or in the folder
await until_ended(pid)               that process is no more
"""

import ctypes
import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path

import trio

WITHIN_S = 60.0
CLOSE_WRITE, MOVED_TO, CREATE, DELETE, MODIFY = 0x8, 0x80, 0x100, 0x200, 0x2
EVENTS = CLOSE_WRITE | MOVED_TO | CREATE | DELETE | MODIFY


async def until_there(path: Path) -> None:
    await until_changed(path.parent, lambda: path.exists() and path.stat().st_size > 0)


async def until_changed(path: Path, look: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """`path` exists; a folder stands for what lies in it."""
    descriptor = _watching(path)
    try:
        with trio.fail_after(within_s):
            while not look():
                await trio.lowlevel.wait_readable(descriptor)
                os.read(descriptor, 64 * struct.calcsize("iIII256s"))
    finally:
        os.close(descriptor)


async def until_ended(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with trio.fail_after(WITHIN_S):
            await trio.lowlevel.wait_readable(descriptor)
    finally:
        os.close(descriptor)


def _watching(path: Path) -> int:
    """inotify(7): changes from now on are readable there."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0 or libc.inotify_add_watch(descriptor, bytes(path), EVENTS) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{errno.errorcode[number]} for {path}")
    return descriptor

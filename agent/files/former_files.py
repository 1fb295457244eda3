"""A large file of a former generation that is over, patched for the next one, where nobody has it open.

`routes.json` of 10,000 parts is 10 MiB. To copy what has not changed of it takes the kernel 5 ms, and another one to
let go of the former: six times as long as all else about one part. So where the folder of a former generation is taken
(former_folders.py) its file is taken too, and what has changed is written into it.

Who has opened a file keeps what it has, for as long as it likes. So a file is taken only if it is the one that was
made, lies in that generation alone (unchanged ones have several names), and nobody has it open or mapped, which the
kernel says by whether it gives a write lease. It is asked once the file lies in a folder that no reader gets to. Where
the kernel does not know leases, the file is copied.

A bind mount of the file leads to it all the same, and so does a descriptor that only says where it is (O_PATH); neither
counts as open. So the lease is held until all is written: who comes by such a way waits, and finds it whole. What
sendfile(2) has left in a socket of a file that is closed by now is not seen: it would have to lie there for a minute.
"""

import contextlib
import fcntl
import os
import signal
import stat
from collections.abc import Iterator, Sequence

from agent.files.entry_pieces import PlacedPiece
from agent.files.generations import Permissions
from snapshot.frozen import frozen


@frozen
class FormerFile:
    """What it was when it was made: `shape` of routes_file.py, and as the disk has it."""

    shape: int
    inode: int
    size: int
    written_at: int

    @classmethod
    def at(cls, path: str, folder: int, shape: int) -> "FormerFile":
        found = os.stat(path, dir_fd=folder, follow_symlinks=False)
        return cls(shape, found.st_ino, found.st_size, found.st_mtime_ns)

    def is_still(self, found: os.stat_result) -> bool:
        is_the_same = (found.st_ino, found.st_size, found.st_mtime_ns) == (self.inode, self.size, self.written_at)
        return is_the_same and stat.S_ISREG(found.st_mode) and found.st_nlink == 1


@contextlib.contextmanager
def take_file(
    path: str, former: int, folder: int, was: FormerFile, permissions: Permissions, mode: int
) -> Iterator[int | None]:
    """Moved from below `former` to the same path below `folder`, as a descriptor; None where it is not there as it was,
    or somebody has it open. Nobody gets to open it meanwhile. Both folders are descriptors.
    """
    try:
        os.rename(path, path, src_dir_fd=former, dst_dir_fd=folder)
    except FileNotFoundError:
        yield None
        return
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, dir_fd=folder)
    except OSError:  # a link or a folder in its place
        yield None
        return
    try:
        with _hold_alone(descriptor) as is_alone:
            is_ours = was.is_still(os.fstat(descriptor)) and permissions.are_of(descriptor, mode)
            yield descriptor if is_ours and is_alone else None
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _hold_alone(descriptor: int) -> Iterator[bool]:
    """Whether nobody else reads it or has it mapped. Who opens it meanwhile waits, of which the kernel tells us by a
    signal: not by SIGIO, which ends a process, but by one that does nothing.
    """
    is_held = _take_lease(descriptor)
    try:
        yield is_held
    finally:
        if is_held:
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _take_lease(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:
        return False
    return True


def write_pieces(descriptor: int, pieces: Sequence[PlacedPiece]) -> None:
    for offset, data in pieces:
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, memoryview(data)[done:], offset + done)

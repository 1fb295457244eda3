"""Files that are put in their places together: each whole from its first moment, all of them or none.

By their folders' descriptors, so that nobody who swaps a folder or lays a link meanwhile is followed; what stands at a
place is replaced by a rename and never written into.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

OTHERS_WRITE = 0o022


class CannotPlaceError(Exception):
    """A file that cannot be put there; nothing was changed. The text names it and the remedy."""


@dataclass(frozen=True)
class Placed:
    """`owner`: uid and gid, where root gives it away."""

    path: Path
    data: bytes
    mode: int
    owner: tuple[int, int] | None = None


@dataclass
class _Prepared:
    file: Placed
    folder: int
    was_there: bool = field(init=False)

    def __post_init__(self) -> None:
        self.was_there = _is_at(self.file.path.name, self.folder)

    @property
    def temporary(self) -> str:
        return f".{self.file.path.name}.{os.getpid()}.new"

    def write(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.temporary, flags, 0o600, dir_fd=self.folder)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(self.file.data)
            if self.file.owner is not None and os.geteuid() == 0:
                os.fchown(descriptor, *self.file.owner)
            os.fchmod(descriptor, self.file.mode)
            opened.flush()
            os.fsync(descriptor)

    def swap_in(self) -> None:
        os.rename(self.temporary, self.file.path.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        os.fsync(self.folder)

    def undo(self) -> None:
        """What was there before is there still, unless its swap went well: then it is the new one, and whole."""
        names = [self.temporary] if self.was_there else [self.temporary, self.file.path.name]
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.folder)


def place(files: Sequence[Placed]) -> None:
    """In their order; the last one is what makes the others count. CannotPlaceError."""
    with _folders(files) as prepared:
        try:
            for placement in prepared:
                placement.write()
            for placement in prepared:
                placement.swap_in()
        except OSError as error:
            for placement in prepared:
                placement.undo()
            named = ", ".join(str(file.path) for file in files)
            raise CannotPlaceError(f"{named}: {error.strerror}; nothing was changed: run it as root") from None


@contextmanager
def _folders(files: Sequence[Placed]) -> Iterator[list[_Prepared]]:
    descriptors: list[int] = []
    try:
        for file in files:
            descriptors.append(_folder(file))
        yield [_Prepared(file, folder) for file, folder in zip(files, descriptors, strict=True)]
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _folder(file: Placed) -> int:
    """Ours or root's; or of the account whose the file will be, which can spoil what is its own alone."""
    folder = file.path.parent
    try:
        descriptor = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise CannotPlaceError(f"{folder}: {error.strerror}; nothing was changed: make this folder") from None
    found = os.fstat(descriptor)
    trusted = {0, os.geteuid(), *(file.owner or ())[:1]}
    if found.st_uid not in trusted or found.st_mode & OTHERS_WRITE:
        os.close(descriptor)
        remedy = f"chmod go-w {folder}, and let it be root's"
        raise CannotPlaceError(f"{folder} may be written by others; nothing was changed: {remedy}")
    return descriptor


def _is_at(name: str, folder: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode):
        raise CannotPlaceError(f"{name} is no plain file; nothing was changed: move it away")
    return True

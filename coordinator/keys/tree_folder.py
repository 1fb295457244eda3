"""One folder of a tree of files that others read meanwhile, and where others may keep files too.

A file comes by a rename, whole and durable; only names of ours ever go. So a run that was interrupted anywhere is
repeated, and what it left half written is taken away by name.
"""

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from coordinator.keys import keystore

_TEMPORARY = re.compile(r"\.holdfast-[a-z0-9_]+\.tmp", re.ASCII)


@dataclass(frozen=True)
class Folder:
    """`ours`: the names that files of ours have here. Every error is an OSError that names the file."""

    path: Path
    ours: re.Pattern[str]

    def make(self) -> None:
        self.path.mkdir(mode=0o755, parents=True, exist_ok=True)

    def put(self, name: str, data: bytes) -> bool:
        """Whether it was written: it was not there, or held other bytes. A reader sees the old ones or the new."""
        if _holds(self.path / name, data):
            return False
        self.put_pieces(name, (data,))
        return True

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """In place of whatever is there, whole."""
        path = self.path / name
        descriptor, made = tempfile.mkstemp(prefix=".holdfast-", suffix=".tmp", dir=self.path)
        temporary = Path(made)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(pieces)
                file.flush()
                with contextlib.suppress(PermissionError):  # a stick formatted as FAT has no modes
                    os.fchmod(descriptor, 0o644)
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException as error:
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, str(path)) from error
            raise

    def take_away(self, wanted: Container[str]) -> int:
        """How many files of ours went that nobody wants any more, half-written ones among them."""
        stale = [file for file in self.files() if file not in wanted]
        for name in stale:
            (self.path / name).unlink(missing_ok=True)
        return len(stale)

    def sync(self) -> None:
        """What came and went is durable."""
        keystore.sync_directory(self.path)

    def files(self) -> Iterator[str]:
        """Plain files with names of ours, half-written ones among them: we make no others."""
        with os.scandir(self.path) as entries:
            for entry in entries:
                is_ours = self.ours.fullmatch(entry.name) or _TEMPORARY.fullmatch(entry.name)
                if is_ours and entry.is_file(follow_symlinks=False):
                    yield entry.name


def _holds(path: Path, data: bytes) -> bool:
    """Whether this is a plain file with exactly these bytes; only one of the same size is read."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == len(data) and path.read_bytes() == data

"""The one seam that every durable write passes, so that tests can die or fail at the n-th (rules J47)."""

import contextlib
import os
import shutil
from pathlib import Path

import lmdb

from store.base.errors import StoreError, StoreFault

FULL = "ENOSPC", "EDQUOT", "No space left"


class Disk:
    """Writes files, directories and transactions. `about_to` is called before each step; a test overrides it."""

    def about_to(self, step: str) -> None:
        """Called before the step named: write, fsync, rename, fsync_directory, mkdir, remove, put, commit."""

    def replace_file(self, target: Path, data: bytes, temporary: Path) -> None:
        """`target` holds `data`, whole and durable, or what it held before: temporary, fsync, rename, fsync."""
        self.write_file(temporary, data)
        self.rename(temporary, target)

    def write_file(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """A file of our own with `data`, synced; its name is durable only once the directory is."""
        self.about_to("write")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
            self.about_to("fsync")
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)

    def rename(self, source: Path, target: Path) -> None:
        self.about_to("rename")
        source.rename(target)
        self.sync_directory(target.parent)

    def make_directory(self, path: Path) -> None:
        """A directory of mode 0700, durable in its parent (rules L10)."""
        self.about_to("mkdir")
        path.mkdir(mode=0o700)
        path.chmod(0o700)
        self.sync_directory(path.parent)

    def sync_directory(self, path: Path) -> None:
        self.about_to("fsync_directory")
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """A file or a whole directory goes; what is gone already is no fault."""
        self.about_to("remove")
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def commit(self, transaction: lmdb.Transaction) -> None:
        self.about_to("commit")
        transaction.commit()


def refusal(error: OSError | lmdb.Error) -> StoreError:
    """What an error of the disk or of LMDB means to a caller."""
    if isinstance(error, lmdb.MapFullError) or any(word in str(error) for word in FULL) or _is_full(error):
        return StoreError(StoreFault.STORE_FULL, str(error))
    if isinstance(error, (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError)):
        return StoreError(StoreFault.STORE_CORRUPT, str(error))
    return StoreError(StoreFault.STORE_IO, str(error))


def _is_full(error: OSError | lmdb.Error) -> bool:
    number = error.errno if isinstance(error, OSError) else getattr(error, "code", 0)
    return number in (28, 122)  # ENOSPC, EDQUOT

"""A directory of this machine as a store: a web server's root, or what another program takes elsewhere.

Each has a thread of its own: a disk that hangs (a network's, say) holds up nobody else. A file is compared by its bytes
where it is not known yet, and by size, time and inode from then on.
"""

import errno
import fcntl
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import trio

from coordinator.base.threads import in_thread_of
from coordinator.keys.tree_folder import Folder
from coordinator.storage.payload import Payload
from coordinator.storage.published_tree import FOLDERS
from coordinator.storage.static_tree import names_in
from coordinator.storage.storage_error import StorageError, StorageFault

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_FULL = (errno.ENOSPC, errno.EDQUOT)


class DirectoryStore:
    """`thread`: of this directory alone."""

    workers = 1

    def __init__(self, directory: Path, thread: trio.CapacityLimiter) -> None:
        self._directory = directory
        self._thread = thread
        self._folders = {name: Folder(directory / name, names_in(name)) for name in FOLDERS}

    @asynccontextmanager
    async def open(self) -> AsyncIterator["DirectoryStore"]:
        """While no other run writes there: each would take away what the other has half written."""
        lock = await self._do(self._lock)
        try:
            yield self
        finally:
            os.close(lock)

    async def listing(self) -> dict[str, str]:
        return await self._do(self._list)

    async def put(self, path: str, payload: Payload, present: str | None) -> str:
        del present  # the bytes themselves are at hand
        return await self._do(self._put, path, payload)

    async def replace(self, path: str, payload: Payload, mark: str) -> str | None:
        return await self._do(self._replace, path, payload, mark)

    async def remove(self, path: str) -> None:
        await self._do(lambda: (self._directory / path).unlink(missing_ok=True))

    async def settle(self) -> None:
        await self._do(self._sync)

    async def _do(
        self, operation: Callable[Parameters, Result], *given: Parameters.args, **named: Parameters.kwargs
    ) -> Result:
        try:
            return await in_thread_of(self._thread, operation, *given, **named)
        except OSError as error:
            fault = StorageFault.FULL if error.errno in _FULL else StorageFault.UNUSABLE
            detail = f"{error.filename or self._directory}: {error.strerror or error}"
            raise StorageError(fault, detail) from error

    def _lock(self) -> int:
        for folder in self._folders.values():
            folder.make()
        descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StorageError(StorageFault.BUSY, f"{self._directory}: another publish writes there") from None
        return descriptor

    def _list(self) -> dict[str, str]:
        return {
            f"{name}/{file}": _mark((folder.path / file).lstat())
            for name, folder in self._folders.items()
            for file in folder.files()
        }

    def _put(self, path: str, payload: Payload) -> str:
        folder, _, name = path.partition("/")
        place = self._directory / path
        if not _holds(place, payload):
            self._folders[folder].put_pieces(name, payload.read())
        return _mark(place.lstat())

    def _replace(self, path: str, payload: Payload, mark: str) -> str | None:
        """Nobody else writes there meanwhile (`open`)."""
        place = self._directory / path
        return self._put(path, payload) if place.exists() and _mark(place.lstat()) == mark else None

    def _sync(self) -> None:
        for folder in self._folders.values():
            folder.sync()


def _mark(found: os.stat_result) -> str:
    return f"{found.st_size}:{found.st_mtime_ns}:{found.st_ino}"


def _holds(path: Path, payload: Payload) -> bool:
    """Whether this is a plain file with exactly these bytes; only one of the same size is read."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size != payload.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == payload.sha256
    except FileNotFoundError:
        return False

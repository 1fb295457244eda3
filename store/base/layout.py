"""The directories, their owners and modes, and the lock: who may touch the root, and that it is one agent.

Root.open       the agent's: makes what is missing, refuses what is open to others, holds the exclusive lock
Root.look       a reader's: no lock, nothing made
root.cluster    the paths of one cluster (rules L4..L11, L23..L25; threats D-61)
"""

import contextlib
import fcntl
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from snapshot.frozen import frozen
from snapshot.identifiers import is_id
from store.base.disk import Disk, refusal
from store.base.errors import StoreError, StoreFault
from store.base.migration import FORMAT

OTHERS = 0o077


@frozen
class ClusterPaths:
    """What one cluster owns below the root; code that has this can reach no other cluster (rules L9)."""

    cluster_id: str
    home: Path

    @property
    def identity(self) -> Path:
        return self.home / "identity"

    @property
    def identity_file(self) -> Path:
        """The node's certificate, and its key unless that is a credential (rules L40)."""
        return self.identity / "node.pem"

    @property
    def store(self) -> Path:
        return self.home / "store"

    @property
    def floors(self) -> Path:
        return self.home / "floors"

    @property
    def quarantine(self) -> Path:
        return self.home / "quarantine"

    @property
    def published_files(self) -> Path:
        """What a storage node keeps of all that is published (store/published_files.py)."""
        return self.home / "published"

    @property
    def relay(self) -> Path:
        """What is kept for neighbours (store/relay.py)."""
        return self.home / "relay"

    @property
    def temporary(self) -> Path:
        return self.home / "tmp"

    @property
    def directories(self) -> tuple[Path, ...]:
        return self.home, self.identity, self.store, self.floors, self.quarantine, self.temporary


class Root:
    """The state directory, held by one process at a time."""

    def __init__(self, path: Path, disk: Disk, lock: int | None) -> None:
        self.path = path
        self.disk = disk
        self._lock = lock
        self._opened: set[str] = set()

    @classmethod
    def open(cls, path: Path, disk: Disk | None = None) -> Self:
        """The root, locked. StoreError: bad_permissions, store_locked, store_io."""
        disk = disk or Disk()
        try:
            _make(path, disk)
            lock = _take_lock(path)
        except OSError as error:
            raise refusal(error) from error
        try:
            root = cls(path, disk, lock)
            root.require_known_format()
            _make(path / "agent", disk)
            _make(path / "clusters", disk)
            if not root._read_mark("install-id"):  # an empty one is what a lost write leaves
                root._mark("install-id", str(uuid.uuid4()))
            if root._read_mark("format") != str(FORMAT):  # before a store is taken there: never behind one
                root._mark("format", str(FORMAT))
            for entry in walk(path / "agent"):
                require_ours(entry)
        except OSError as error:
            os.close(lock)
            raise refusal(error) from error
        except BaseException:
            os.close(lock)
            raise
        return root

    @classmethod
    def look(cls, path: Path) -> Self:
        """The root as a reader sees it: nothing is made, locked or changed."""
        require_ours(path, directory=True)
        return cls(path, Disk(), None)

    @property
    def install_id(self) -> str:
        """Random, made once; names the installation in logs and is never an identity (rules L11)."""
        return self._read_mark("install-id")

    @property
    def clusters(self) -> tuple[str, ...]:
        folder = self.path / "clusters"
        if not folder.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in folder.iterdir() if is_id(entry.name)))

    def paths(self, cluster_id: str) -> ClusterPaths:
        """Where a cluster's things are; the id is checked before it becomes a path (rules L24)."""
        if not is_id(cluster_id):
            raise StoreError(StoreFault.BAD_IDENTIFIER, f"cluster id {cluster_id!r}"[:200])
        return ClusterPaths(cluster_id, self.path / "clusters" / cluster_id)

    def make_cluster(self, cluster_id: str) -> ClusterPaths:
        """The cluster's directories, all but `store/`, made where missing; owners and modes checked."""
        paths = self.paths(cluster_id)
        for directory in paths.directories:
            if directory != paths.store:
                _make(directory, self.disk)
        for path in walk(paths.home):
            require_ours(path)
        return paths

    def enter(self, cluster_id: str) -> None:
        """One environment for each cluster and process (rules L25; Debian's LMDB does not object itself)."""
        if self._lock is None or cluster_id in self._opened:
            raise StoreError(StoreFault.STORE_LOCKED, f"cluster {cluster_id} is already open in this process")
        self._opened.add(cluster_id)

    def leave(self, cluster_id: str) -> None:
        self._opened.discard(cluster_id)

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_known_format(self) -> None:
        """StoreError when a newer version of ours has been here (rules L11, L37)."""
        found = self._read_mark("format")
        if found.isdigit() and int(found) > FORMAT:
            raise StoreError(StoreFault.STORE_FORMAT_NEWER, f"{self.path} has format {found}, we know {FORMAT}")

    def _read_mark(self, name: str) -> str:
        try:
            return (self.path / "agent" / name).read_text("ascii", "replace").strip()
        except FileNotFoundError:
            return ""

    def _mark(self, name: str, text: str) -> None:
        """Write a small file of the root."""
        target = self.path / "agent" / name
        self.disk.replace_file(target, f"{text}\n".encode(), target.with_suffix(".new"))


def require_ours(path: Path, *, directory: bool | None = None) -> None:
    """StoreError unless `path` is a directory or regular file of ours that nobody else can enter or read."""
    trouble = permission_trouble(path, directory=directory)
    if trouble:
        raise StoreError(StoreFault.BAD_PERMISSIONS, trouble)


def permission_trouble(path: Path, *, directory: bool | None = None) -> str:
    """What is wrong with owner, kind or mode of `path`, in words; empty when nothing is."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return f"{path} does not exist"
    if stat.S_ISLNK(status.st_mode):
        return f"{path} is a symbolic link"
    if not (stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and not directory)):
        return f"{path} is neither a directory nor a regular file"
    if status.st_uid != os.geteuid():
        return f"{path} belongs to uid {status.st_uid}, the agent runs as uid {os.geteuid()}"
    mode = stat.S_IMODE(status.st_mode)
    if mode & OTHERS:
        return f"{path} has mode {mode:04o}: others can reach it"
    return ""


def walk(top: Path) -> Iterator[Path]:
    """`top` and everything below it, links not followed; quarantined stores are passed over."""
    yield top
    if top.is_symlink() or not top.is_dir() or top.name == "quarantine":
        return
    for entry in sorted(top.iterdir()):
        yield from walk(entry)


def _make(path: Path, disk: Disk) -> None:
    if not path.is_symlink() and not path.exists():
        if not path.parent.is_dir():
            raise StoreError(StoreFault.BAD_PERMISSIONS, f"{path.parent} does not exist, so {path} cannot be made")
        disk.make_directory(path)
    require_ours(path, directory=True)


def _take_lock(root: Path) -> int:
    path = root / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        require_ours(path)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its holder's name is missing
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise StoreError(StoreFault.STORE_LOCKED, f"{root} is held by {_process(holder)}") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _process(pid: str) -> str:
    """The holder of a lock in words, with its command line where /proc shows it."""
    if not pid.isdigit():
        return "another process"
    try:
        command = Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return f"process {pid}"
    return f"process {pid} ({command.strip()[:120]})"

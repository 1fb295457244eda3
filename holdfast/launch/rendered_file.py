"""A file with secrets in it, on a private tmpfs: nothing of it reaches a disk.

It lies in the service's $RUNTIME_DIRECTORY (RuntimeDirectory= of its unit: a folder below /run of that account, which
systemd takes away when the unit stops), else in $XDG_RUNTIME_DIR of a user's session. A memfd was rejected: a program
that gives up its rights or closes what it does not know could not open it again; so was /tmp, which is a disk on most
machines and everybody's.
"""

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class NotPrivateError(ValueError):
    """There is no place for it; the text names the remedy."""


def write_private(name: str, data: bytes, environment: Mapping[str, str]) -> Path:
    """0600, swapped in as a whole; where it lies. NotPrivateError, OSError."""
    place = _place(environment)
    folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check(place, os.fstat(folder))
        _swap_in(folder, name, data)
    finally:
        os.close(folder)
    return place / name


def _place(environment: Mapping[str, str]) -> Path:
    named = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0] or environment.get("XDG_RUNTIME_DIR", "")
    if not named.startswith("/"):
        raise NotPrivateError("there is no private folder for the file: set RuntimeDirectory=NAME in the unit")
    return Path(named)


def _check(place: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
        raise NotPrivateError(f"{place} is not this account's alone: set RuntimeDirectory=NAME in the unit")
    if _filesystem(status.st_dev) not in IN_MEMORY:
        raise NotPrivateError(
            f"{place} is no tmpfs, so secrets would reach a disk: set RuntimeDirectory=NAME in the unit"
        )


def _filesystem(device: int) -> str:
    """By proc_pid_mountinfo(5): `... major:minor root point options [fields] - type source ...`."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            return after.split()[0]
    return ""


def _swap_in(folder: int, name: str, data: bytes) -> None:
    whole = f".{name}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):  # of a start that was killed: in a container all have one process id
        os.unlink(whole, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(whole, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.rename(whole, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(whole, dir_fd=folder)
        raise

"""Unix sockets: made so that they are never open to the wrong people, and their callers known by the kernel."""

import array
import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
import tempfile
from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path

import trio

from wire.connection import Connection
from wire.peer import OVERFLOW_UID, UnixPeer
from wire.self_healing_listener import CannotBeMadeError, SelfHealingListener
from wire.server import OpenedConnection, TurnedAwayError

MAX_PATH_BYTES = 107
SO_PEERGROUPS = 59  # asm-generic/socket.h; Python has no name for it
MAX_GROUPS = 65536  # NGROUPS_MAX
NO_UID = 2**32 - 1
HOSTS = frozenset({"localhost", "holdfast"})

_TOO_MANY_BODY = b'{"code":"overloaded","message":"too many connections of this user"}'
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_TOO_MANY_BODY)
) + _TOO_MANY_BODY


class SocketFault(StrEnum):
    PATH_TOO_LONG = "path_too_long"
    UNSAFE_DIRECTORY = "unsafe_directory"
    IN_USE = "in_use"
    NOT_A_SOCKET = "not_a_socket"
    NOT_OURS = "not_ours"
    NOT_PERMITTED = "not_permitted"
    NOT_LISTENING = "not_listening"
    GONE = "gone"


class SocketError(CannotBeMadeError):
    """The socket cannot be made as configured; the text names the path and the remedy."""

    def __init__(self, reason: SocketFault, text: str) -> None:
        super().__init__(text)
        self.reason = reason


@contextmanager
def unix_listener(
    path: Path, *, mode: int = 0o660, group: int | None = None, backlog: int = 64, setting: str = ""
) -> Iterator[SelfHealingListener]:
    """A listening socket at `path`, of `mode` and `group` (a gid) from its first moment; removed at the end.

    The directory must exist, be ours or root's, and not writable by others. What stands at `path` is replaced only
    under our lock (`<path>.lock`), and only when it is a socket, ours, and nobody answers there (threats D-51). Taken
    away meanwhile, it is made anew with the same care. `setting` names the path, for whoever has to mend it.
    """
    lock = _Lock(path)

    def make() -> socket.socket:
        with _naming(setting):
            _check_length(path)
            _check_directory(path.parent)
            lock.hold()
            _check_old(path)
            return _bind(path, mode, group, backlog)

    try:
        with SelfHealingListener(path, make(), make) as listener:
            yield listener
    finally:
        lock.release()


def passed_listener(passed: socket.socket) -> SelfHealingListener:
    """The listener of a socket that systemd made: it is neither bound nor unlinked by us."""
    is_stream = passed.family == socket.AF_UNIX and passed.type == socket.SOCK_STREAM
    path = Path(os.fsdecode(passed.getsockname())) if is_stream else Path()
    if not is_stream or not path.is_absolute() or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise SocketError(
            SocketFault.NOT_LISTENING, "the socket unit must pass a listening stream socket of a path (ListenStream=)"
        )
    passed.setblocking(False)

    def make() -> socket.socket:
        raise SocketError(
            SocketFault.GONE, f"{path} is not the socket that systemd passed any more: restart socket unit and service"
        )

    return SelfHealingListener(path, passed, make)


def peer_of(connected: socket.socket) -> UnixPeer:
    """Uid, groups and pid at the time of connect()."""
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("iII", credentials)
    return UnixPeer(uid, frozenset({gid, *_supplementary_groups(connected)}), pid)


class UnixTransport:
    """Lets in everyone whom the socket's mode lets in, but nobody whom the kernel cannot name (threats U06)."""

    def caller(self, raw: trio.SocketStream) -> Hashable:
        return _uid_of(raw)

    async def open(self, raw: trio.SocketStream) -> OpenedConnection:
        if _uid_of(raw) in (OVERFLOW_UID, NO_UID):
            raise TurnedAwayError("a user that this namespace cannot name")
        return OpenedConnection(raw, peer_of(_plain(raw)))

    def following(self, opened: OpenedConnection, connection: Connection) -> AbstractContextManager[None]:
        return nullcontext()

    async def refuse(self, raw: trio.SocketStream) -> None:
        with trio.move_on_after(1):
            await raw.send_all(_TOO_MANY)
            await raw.send_eof()
            await raw.receive_some(4096)

    async def follow(self) -> None:
        """There is nothing to follow."""


@contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except SocketError as error:
        raise SocketError(error.reason, f"{error} (the path is {setting})" if setting else str(error)) from None


def _check_length(path: Path) -> None:
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise SocketError(
            SocketFault.PATH_TOO_LONG,
            f"the socket path {path} has more than {MAX_PATH_BYTES} bytes: configure a shorter one",
        )


def _check_directory(directory: Path) -> None:
    try:
        found = directory.lstat()
    except FileNotFoundError:
        raise SocketError(
            SocketFault.UNSAFE_DIRECTORY, f"the socket's directory {directory} does not exist: make it first"
        ) from None
    owned = found.st_uid in (0, os.geteuid())
    if not stat.S_ISDIR(found.st_mode) or not owned or found.st_mode & 0o022:
        raise SocketError(
            SocketFault.UNSAFE_DIRECTORY,
            f"{directory} must be a directory of ours or of root, writable by its owner alone",
        )


class _Lock:
    """`<path>.lock`, ours while it is the one that stands there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = Path(f"{path}.lock")
        self._descriptor: int | None = None

    def hold(self) -> None:
        if self._descriptor is not None and self._stands(self._descriptor):
            return
        self.release()
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._file, flags, 0o600)
        except OSError as error:
            raise SocketError(
                SocketFault.NOT_PERMITTED,
                f"{self._file} cannot be made ({error.strerror}): give the directory to this service",
            ) from None
        try:
            _flock(self._descriptor, self._path)
        except SocketError:
            self.release()
            raise

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _stands(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._file.lstat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False


def _flock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SocketError(SocketFault.IN_USE, f"another process serves {path}: stop it first") from None


def _check_old(path: Path) -> None:
    try:
        old = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(old.st_mode):
        raise SocketError(SocketFault.NOT_A_SOCKET, f"{path} is no socket: move it away first")
    if old.st_uid != os.geteuid():
        raise SocketError(SocketFault.NOT_OURS, f"the socket {path} is of another user: remove it first")
    if _answers(path):
        raise SocketError(SocketFault.IN_USE, f"another process answers at {path}: stop it first")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        # A full backlog (EAGAIN) is somebody, too.
        return probe.connect_ex(os.fsencode(path)) not in (errno.ECONNREFUSED, errno.ENOENT)


def _bind(path: Path, mode: int, group: int | None, backlog: int) -> socket.socket:
    """Bound where nobody else can look, opened to its users there, and renamed: never open to others (U02)."""
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as private:
        temporary = Path(private) / "socket"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            _bind_short(listening, Path(private), temporary.name)
            _set_owner(temporary, mode, group)
            listening.listen(backlog)
            listening.setblocking(False)
            temporary.rename(path)
        except BaseException:
            listening.close()
            raise
    return listening


def _bind_short(listening: socket.socket, directory: Path, name: str) -> None:
    """By the directory's descriptor: the temporary path may be too long where the final one is not."""
    descriptor = os.open(directory, os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listening.bind(f"/proc/self/fd/{descriptor}/{name}")
    finally:
        os.close(descriptor)


def _set_owner(temporary: Path, mode: int, group: int | None) -> None:
    try:
        if group is not None:
            os.chown(temporary, -1, group, follow_symlinks=False)
    except PermissionError:
        raise SocketError(
            SocketFault.NOT_PERMITTED,
            f"the socket may not be given to group {group}: make it a group of this service, or use a socket unit",
        ) from None
    temporary.chmod(mode)


def _plain(raw: trio.SocketStream) -> socket.socket:
    """trio's socket, for the options that both kinds have."""
    connected: socket.socket = raw.socket  # type: ignore[assignment]
    return connected


def _uid_of(raw: trio.SocketStream) -> int:
    credentials = raw.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    uid: int = struct.unpack("iII", credentials)[1]
    return uid


def _supplementary_groups(connected: socket.socket) -> "array.array[int]":
    groups = array.array("I")
    try:
        groups.frombytes(connected.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, 1024))
    except OSError as error:
        if error.errno != errno.ERANGE:
            return groups
        # Python asks for 1 KiB at most, which is 256 groups; this caller has more (threats U05).
        groups.frombytes(_long_option(connected.fileno(), SO_PEERGROUPS, MAX_GROUPS * groups.itemsize))
    return groups


def _long_option(descriptor: int, option: int, most: int) -> bytes:
    buffer = ctypes.create_string_buffer(most)
    length = ctypes.c_uint32(most)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.getsockopt(descriptor, socket.SOL_SOCKET, option, buffer, ctypes.byref(length)) != 0:
        return b""
    return buffer.raw[: length.value]

"""A listener that outlives its path: a cleaner of /run takes a socket away, and nobody could connect any more.

It looks every few seconds whether its socket is still what stands there. If not, it is made anew; what systemd passed
cannot be, and then it is said. Connections that are open go on.
"""

import os
import socket as sockets
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import trio

from wire.logs import log

LOOK_EVERY_S = 5.0


class CannotBeMadeError(Exception):
    """The socket cannot be made now; the text names the path and the remedy."""


class SelfHealingListener(trio.abc.Listener[trio.SocketStream]):
    """`trouble`: why nobody can connect at `path`, and the remedy; empty while they can.

    `make` binds another socket to `path`; CannotBeMadeError with what hinders it.
    """

    def __init__(self, path: Path, listening: sockets.socket, make: Callable[[], sockets.socket]) -> None:
        self.trouble = ""
        self._path = path
        self._make = make
        self._take(listening)

    @property
    def socket(self) -> trio.socket.SocketType:
        return self._listener.socket

    async def accept(self) -> trio.SocketStream:
        while True:
            with trio.move_on_after(LOOK_EVERY_S):
                return await self._listener.accept()
            self.look()

    async def aclose(self) -> None:
        await self._listener.aclose()

    def __enter__(self) -> "SelfHealingListener":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """The path goes with it, if it is ours."""
        ours = self._stands()
        self._listening.close()
        if ours:
            self._path.unlink(missing_ok=True)

    def look(self) -> None:
        """Once; what hinders is said once."""
        if self._stands():
            self.trouble = ""
            return
        try:
            made = self._make()
        except (CannotBeMadeError, OSError) as error:
            if self.trouble != str(error):
                self.trouble = str(error)
                log.error("socket is gone", path=str(self._path), remedy=self.trouble)  # noqa: TRY400 - no trace needed
            return
        self._listening.close()
        self._take(made)
        self.trouble = ""
        log.warning("socket was gone, made anew", path=str(self._path))

    def _take(self, listening: sockets.socket) -> None:
        self._made = _stat(self._path)
        self._listening = listening
        self._listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))

    def _stands(self) -> bool:
        found = _stat(self._path)
        return found is not None and self._made is not None and os.path.samestat(found, self._made)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None

"""The way between nodes and their coordinator, which a wrong configuration of a node can cut: a port that leads on.

Cut, it is as a network without routes is: nothing is refused, nothing ends, and nothing arrives. What was on its way
arrives once it is whole again.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

LOOK_S = 0.1
PIECE = 65_536


@dataclass
class Backbone:
    """`is_cut` is asked again and again, by several threads."""

    is_cut: Callable[[], bool]
    _ended: threading.Event = field(default_factory=threading.Event)
    _sockets: list[socket.socket] = field(default_factory=list)

    def lead_to(self, port: int) -> int:
        """The port that leads to this one."""
        listener = self._kept(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=self._accept, args=(listener, port), daemon=True).start()
        return int(listener.getsockname()[1])

    def end(self) -> None:
        self._ended.set()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener: socket.socket, port: int) -> None:
        with suppress(OSError):  # it was ended
            while True:
                here = self._kept(listener.accept()[0])
                try:
                    there = self._kept(socket.create_connection(("127.0.0.1", port)))
                except OSError:  # who listens there is away for a moment
                    here.close()
                    continue
                for pair in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                self._wait_until_whole()
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)

    def _wait_until_whole(self) -> None:
        while self.is_cut() and not self._ended.is_set():
            self._ended.wait(LOOK_S)

    def _kept(self, made: socket.socket) -> socket.socket:
        self._sockets.append(made)
        return made

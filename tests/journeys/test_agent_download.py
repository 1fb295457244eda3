"""The coordinator's process is killed in the middle of a download: what is active stays, and the next one arrives."""

import contextlib
import socket
import threading
from collections.abc import Callable

import pytest

from tests.holdfast.operator_lab import Lab
from tests.journeys.gateway import FABRIC, WITHIN_S, Gateway, declare

ROUTES = "route_policy"
COUNT = 1500
ENOUGH = 30_000
"""Bytes after which the coordinator dies: more than heads and small scopes come to, less than the large one."""

ROUTE = """\
---
kind: Route
id: extra-{number:04}
spec: {{organization: acme, service: web, match: {{hosts: [extra-{number:04}.example]}}}}
"""


class Line:
    """A line to the coordinator, of bytes that it does not understand; it counts those that come down.

    After enough of them it is cut: what the kernel still holds of a dead coordinator's would come down, too.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listening.getsockname()[1]
        self.came_down = 0
        self.enough: Callable[[], None] | None = None
        self._carried: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def close(self) -> None:
        """Nothing of it is left."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        _end(*self._carried)
        for thread in self._threads:
            thread.join(10)
        for each in self._carried:
            each.close()

    def cut_after_enough(self, then: Callable[[], None]) -> None:
        self.came_down, self.enough = 0, then

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        self._threads.append(threading.Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                near.close()
                continue
            self._carried += [near, far]
            self._begin(self._carry, near, far, lambda size: None)
            self._begin(self._carry, far, near, self._count)

    def _count(self, size: int) -> None:
        self.came_down += size
        if self.enough is not None and self.came_down >= ENOUGH:
            then, self.enough = self.enough, None
            then()
            _end(*self._carried)

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
        try:
            while data := source.recv(4096):
                count(len(data))
                target.sendall(data)
        except OSError:
            return
        finally:
            _end(source, target)


def _end(*connections: socket.socket) -> None:
    for each in connections:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(lab: Lab, gateway: Gateway):
    made = Line(lab.ports["fleet"])
    file = gateway.folder / "agent.toml"
    urls = f'\nurls = ["https://localhost:{lab.ports["fleet"]}"]'
    assert urls in file.read_text()
    file.write_text(file.read_text().replace(urls, f'\nurls = ["https://localhost:{made.port}"]'))
    yield made
    made.close()


def declare_much(lab: Lab, port: int) -> None:
    more = "".join(ROUTE.format(number=number) for number in range(COUNT))
    (lab.folder / "fabric.yaml").write_text(FABRIC.format(port=port) + more)
    lab.good("apply", "-f", lab.folder / "fabric.yaml", "--yes")


def active(gateway: Gateway) -> dict:
    return gateway.status["scopes"][ROUTES]["active"]


def test_a_coordinator_that_is_killed_in_the_middle_of_a_download(lab, gateway, line):
    """rules P7, S53, L39, J12, S8: nothing of the half document is kept, nothing that is active is touched"""
    declare(lab, 8081)
    gateway.start()
    lab.good("allow", "add", "gateway")
    lab.good("tokens", "create", "--node", "gateway", "--out", gateway.folder / "join.token")
    gateway.until(lambda: gateway.status["state"] == "active" and gateway.port() == 8081)
    before, process = active(gateway), lab.process
    declared, died = threading.Event(), threading.Event()

    def die() -> None:
        declared.wait(WITHIN_S)  # its operator has the answer; the download stands still meanwhile
        process.kill()
        died.set()

    line.cut_after_enough(die)
    declare_much(lab, 8082)
    declared.set()
    assert died.wait(WITHIN_S), line.came_down
    process.wait(60)
    gateway.until(lambda: any(source["failures"] for source in gateway.status["sources"]))
    assert active(gateway) == before
    assert gateway.status["state"] == "active"
    assert gateway.status["scopes"][ROUTES]["last_rejected"] is None
    assert gateway.port() == 8081
    lab.start()
    gateway.until(lambda: active(gateway) != before)
    gateway.until(lambda: gateway.port() == 8082)
    assert active(gateway)["config_version"] > before["config_version"]
    assert gateway.status["scopes"][ROUTES]["previous"]["config_version"] == before["config_version"]

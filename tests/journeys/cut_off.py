"""The lines that coordinators have to each other and to their database, which can be cut for one of them.

    lines = Lines()
    lines.database, lines.coordinators     addresses of this machine's own loopback network, asked for nothing else
    with lines.cut(lines.coordinators):    what is sent there goes nowhere

A route leads the address nowhere: open connections hear nothing more, and new ones come to nothing. Nodes and operators
reach everybody as before: it is coordinators that are parted.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.holdfast.operator_lab import Lab

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="NOT RUN: a line is cut by a route, which only root can set"
)


class Lines:
    """Of the third coordinator."""

    def __init__(self) -> None:
        own = f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}"  # no other run has it
        self.database, self.coordinators = f"{own}.1", f"{own}.2"

    @contextmanager
    def cut(self, *addresses: str) -> Iterator[None]:
        for address in addresses:
            _route("add", address)
        try:
            yield
        finally:
            for address in addresses:
                _route("del", address)

    def introduce(self, first: Lab, second: Lab, third: Lab) -> None:
        """Each asks all the others, the third one by its line."""
        places = {}
        for lab in (first, second, third):
            places[lab.folder] = lab.among_coordinators.rpartition(":")[2]
            text = lab.configuration.read_text()
            lab.configuration.write_text(re.sub(r'(?m)^coordinators = ".*"', _everywhere(places[lab.folder]), text))
        for lab in (first, second, third):
            asked = [
                f"{self.coordinators if third in (lab, other) else '127.0.0.1'}:{places[other.folder]}"
                for other in (first, second, third)
                if other is not lab
            ]
            with lab.configuration.open("a") as configuration:
                configuration.write(f'\n[peers]\nask = "{", ".join(asked)}"\n')


def _everywhere(port: str) -> str:
    return f'coordinators = "0.0.0.0:{port}"'


def _route(verb: str, address: str) -> None:
    words = ("ip", "route", verb, "blackhole", f"{address}/32", "table", "local")
    subprocess.run(words, check=True, capture_output=True)

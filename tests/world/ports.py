"""Ports for programs that are told theirs: of each worker of a run others, since a program listens some time after its
port was looked for, and by then another worker would have found it free, too. And so would this one: what it has found
lately it does not find again.
"""

import os
from collections import deque

from examples.demo import processes

_found: deque[int] = deque(maxlen=100)  # more than a test names


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    found = processes.free_ports(count, host, int(worker.removeprefix("gw")), int(workers), _found)
    _found.extend(found)
    return found

"""Disks that die or fail at the n-th step, and a child process to do it in."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from store.base.disk import Disk


@dataclass
class DyingDisk(Disk):
    """SIGKILL before the n-th step."""

    at: int = 0
    seen: int = 0

    def about_to(self, step):
        self.seen += 1
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class FailingDisk(Disk):
    """Raises before the n-th step, and at every one from then on while `broken`."""

    error: Exception | None = None
    at: int = 0
    seen: list[str] = field(default_factory=list)
    broken: bool = False

    def about_to(self, step):
        self.seen.append(step)
        if self.broken and len(self.seen) >= self.at:
            raise self.error

    def fail(self, at: int, error: Exception) -> None:
        self.seen.clear()
        self.at, self.error, self.broken = at, error, True


def in_a_child(work: Callable[[], None]) -> int:
    """Run `work` in a forked process; how it ended: 0, or minus the signal, or 1 for an exception."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)

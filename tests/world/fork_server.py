"""What starts the product's programs for tests: python -W error -m tests.world.fork_server SOCKET.

Each process is one of its own, forked here where all modules are imported already: a command's imports take ten times
as long as its work. That they succeed, and which ones a command waits for, is claimed by tests that start it plainly.
Who asks connects, sends one job with three descriptors, and is sent the process id, then how it ended. It is killed
once who asked is gone. The imports are begun once somebody connects (loaded.py has them).

A fork costs what its parent has in memory, and most are of commands that ask a coordinator, and need nothing of one. So
there are two processes: who is asked is small, and hands what needs a coordinator's libraries on to another one, which
it has forked before, and which has those, too.
"""

import atexit
import ctypes
import gc
import importlib
import marshal
import os
import random
import select
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

PROGRAMS = {
    "holdfastctl": "holdfast.ctl.operator",
    "holdfast": "holdfast.node.command",
    "holdfast-coordinator": "coordinator.command",
    "holdfast-agent": "agent.command",
}
ANOTHER_CLOCK = "agent-by-another-clock"
MODULES = PROGRAMS | {ANOTHER_CLOCK: "tests.journeys.agent_process"}
DAEMONS = ("holdfast-coordinator", "holdfast-agent", ANOTHER_CLOCK)
MOST_BYTES = 1 << 20
LISTENING = b"listening\n"
CLONE_NEWNET = 0x40000000
REPORTS_AFTER_S = 0.2
"""What a node gathers before it reports something new, where the product gathers for a second: a change goes by the
reports of each ring, and most of what a test of one takes would be these seconds.
"""


@dataclass(frozen=True)
class Asked:
    """A job as it was sent, and who waits for it. No job: somebody wants this server to be ready."""

    by: socket.socket
    data: bytes
    descriptors: Sequence[int]

    @classmethod
    def accepted(cls, listener: socket.socket) -> "Asked":
        by, _ = listener.accept()
        data, descriptors, _, _ = socket.recv_fds(by, MOST_BYTES, 3)
        return cls(by, data, descriptors)

    @classmethod
    def handed_on(cls, handed: socket.socket) -> "Asked":
        data, descriptors, _, _ = socket.recv_fds(handed, MOST_BYTES, 4)
        if not descriptors:
            raise EOFError("who hands on what is asked has ended")
        by, *descriptors = descriptors
        return cls(socket.socket(fileno=by), data, descriptors)

    def hand_on(self, to: socket.socket) -> None:
        socket.send_fds(to, [self.data], [self.by.fileno(), *self.descriptors])
        self.by.close()
        self.close_descriptors()

    def close_descriptors(self) -> None:
        for each in self.descriptors:
            os.close(each)

    @property
    def job(self) -> dict:
        return marshal.loads(self.data)  # noqa: S302 - ours


@dataclass(frozen=True)
class Running:
    """A process that was asked for. `ended` can be read from once it has, `asked` once who asked is gone."""

    pid: int
    ended: int
    asked: socket.socket

    @classmethod
    def begun(cls, pid: int, asked: socket.socket) -> "Running":
        with suppress(OSError):
            asked.send(str(pid).encode())
        return cls(pid, os.pidfd_open(pid), asked)

    @property
    def readable(self) -> frozenset[object]:
        return frozenset({self.ended, self.asked})

    def see_off(self, *, has_ended: bool) -> None:
        if not has_ended:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):  # who asked is gone
            self.asked.send(str(os.waitstatus_to_exitcode(status)).encode())
        self.close()

    def close(self) -> None:
        os.close(self.ended)
        self.asked.close()


def next_job(
    listener: socket.socket,
    receive: Callable[[socket.socket], Asked] = Asked.accepted,
    is_handed_on: Callable[[Asked], bool] = lambda _: False,
) -> tuple[dict, Sequence[int]] | None:
    """Returns in each process that was forked for one, and None when the tests are over. Where something goes wrong
    here, nothing is left of what runs.
    """
    running: set[Running] = set()
    here = os.getpid()
    try:
        return _next_job(running, listener, receive, is_handed_on)
    except BaseException:
        for one in running if os.getpid() == here else ():
            one.see_off(has_ended=False)
        raise


def _next_job(
    running: set[Running],
    listener: socket.socket,
    receive: Callable[[socket.socket], Asked],
    is_handed_on: Callable[[Asked], bool],
) -> tuple[dict, Sequence[int]] | None:
    while True:
        ready, _, _ = select.select([listener, sys.stdin, *(each for one in running for each in one.readable)], [], [])
        is_over = sys.stdin in ready
        for one in {one for one in running if is_over or not one.readable.isdisjoint(ready)}:
            one.see_off(has_ended=one.ended in ready)
            running.remove(one)
        if is_over:
            return None
        if listener in ready:
            asked = receive(listener)
            if not asked.data:
                asked.by.close()
                continue
            if is_handed_on(asked):
                continue
            pid = os.fork()
            if pid == 0:
                for one in running:
                    one.close()
                asked.by.close()
                listener.close()
                return asked.job, asked.descriptors
            asked.close_descriptors()
            running.add(Running.begun(pid, asked.by))


@contextmanager
def listening(path: str, told: int = 1) -> Iterator[socket.socket]:
    """From now on who asks waits, and is not turned away."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(told, LISTENING)
        yield listener


def take_over(descriptors: Sequence[int]) -> None:
    """As its input, its output, and where it says what is wrong."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def enter_network(name: str) -> None:
    """As `ip netns exec`, for what starts from here on (os.setns is of Python 3.12)."""
    with open(f"/run/netns/{name}", "rb") as namespace:  # noqa: PTH123
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"network namespace {name} is not entered")


def become(job: dict, descriptors: list[int]) -> None:
    """The process that was asked for, as exec would leave it. `script`: the one that stands in for it, if one does; a
    warning is an error to those that a test has started by itself.
    """
    if job.get("network"):
        enter_network(job["network"])
    os.chdir(job["folder"])
    os.umask(job["umask"])
    os.environ.clear()
    os.environ.update(job["environment"])
    take_over(descriptors)
    sys.argv = [job["program"], *job["arguments"]]
    # An agent that takes up what its join brought starts itself anew, as it was started.
    plainly = f"import sys; sys.argv[0] = {job['program']!r}; from {MODULES[job['program']]} import main; main()"
    begin = ["-ISE", job["script"]] if job["script"] else ["-c", plainly]
    sys.orig_argv = [sys.executable, *begin, *job["arguments"]]
    sys.modules["__main__"].__package__ = None  # its name is argv's
    random.seed()
    if job["program"] in DAEMONS or job["script"]:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")


def status_of(program: Callable[[], object]) -> int:
    """How an interpreter would end that runs this."""
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - the outermost
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def end(status: int) -> NoReturn:
    """As an interpreter ends, but that nothing is taken apart: of all that is imported here that takes long."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        status = 120
    finally:
        os._exit(status)


def main() -> None:
    _, path, readers_path = sys.argv
    with listening(path) as listener:
        asked, _, _ = select.select([listener, sys.stdin], [], [])
        if listener not in asked:
            return  # the tests are over, and what nobody asked for was not worth the imports
        from tests.world import loaded, readers  # which forks by what is here

        loaded.load_for_commands()
        readers.use(readers_path)
        importlib.import_module("agent.report.heartbeat").SOON_S = REPORTS_AFTER_S
        found = job_of_two(listener, loaded)
    if found is not None:
        become(*found)
        end(status_of(importlib.import_module(MODULES[found[0]["program"]]).main))


def job_of_two(listener: socket.socket, loaded: ModuleType) -> tuple[dict, Sequence[int]] | None:
    """`next_job` of this process, or of the other one, which is over when this one is."""
    ours, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        listener.close()
        loaded.load_for_coordinators()
        gc.freeze()
        with others:
            return next_job(others, Asked.handed_on)
    others.close()

    def is_handed_on(asked: Asked) -> bool:
        if loaded.is_of_commands(asked.job["program"], asked.job["arguments"]):
            return False
        asked.hand_on(ours)
        return True

    loaded.warm_commands()
    gc.freeze()
    found = next_job(listener, is_handed_on=is_handed_on)
    ours.close()
    if found is None:
        os.waitpid(pid, 0)
    return found


if __name__ == "__main__":
    main()

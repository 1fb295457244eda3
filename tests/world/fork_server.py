"""What starts the product's programs for tests: python -W error -m tests.world.fork_server SOCKET.

Each process is one of its own, forked here where all modules are imported already: a command's imports take ten times
as long as its work. That they succeed, and which ones a command waits for, is claimed by tests that start it plainly.
Who asks connects, sends one `Job` with three descriptors, and is sent the process id, then how it ended.
"""

import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import sys
import warnings

PROGRAMS = {
    "holdfastctl": "holdfast.ctl.operator",
    "holdfast": "holdfast.node.command",
    "holdfast-coordinator": "coordinator.run",
    "holdfast-agent": "agent.run",
}
DAEMONS = ("holdfast-coordinator", "holdfast-agent")
MOST_BYTES = 1 << 20


PACKAGES = ("holdfast", "coordinator", "agent")


def import_all() -> None:
    """What can be: beside Debian 12's libraries there are none of the coordinator's."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            try:
                importlib.import_module(found.name)
            except ModuleNotFoundError as missing:
                if (missing.name or "").partition(".")[0] in PACKAGES:
                    raise


def next_job(listener: socket.socket) -> tuple[dict, list[int]] | None:
    """Returns in each process that was forked for one, and None when the tests are over."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        asking, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            data, descriptors, _, _ = socket.recv_fds(asking, MOST_BYTES, 3)
            pid = os.fork()
            if pid == 0:
                asking.close()
                return json.loads(data), descriptors
            for each in descriptors:
                os.close(each)
            tell_its_end(asking, pid)
        asking.close()


def tell_its_end(asking: socket.socket, pid: int) -> None:
    try:
        asking.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        asking.send(str(os.waitstatus_to_exitcode(status)).encode())
    except BrokenPipeError:  # who asked is gone
        pass
    finally:
        os._exit(0)


def become(job: dict, descriptors: list[int]) -> None:
    """The process that was asked for, as exec would leave it."""
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.argv = [job["program"], *job["arguments"]]
    # An agent that takes up what its join brought starts itself anew, as it was started.
    plainly = f"import sys; sys.argv[0] = {job['program']!r}; from {PROGRAMS[job['program']]} import main; main()"
    sys.orig_argv = [sys.executable, "-c", plainly, *job["arguments"]]
    sys.modules["__main__"].__package__ = None  # its name is argv's
    random.seed()
    if job["program"] in DAEMONS:
        warnings.resetwarnings()
        warnings.simplefilter("ignore")


def main() -> None:
    import_all()
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("listening", flush=True)
        found = next_job(listener)
    if found is not None:
        become(*found)
        importlib.import_module(PROGRAMS[found[0]["program"]]).main()


if __name__ == "__main__":
    main()

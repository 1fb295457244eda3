"""Workers of a test run, forked from one process that has collected the tests.

pytest-xdist has each of its workers import and collect everything: five seconds of the processor's time for each of six
workers, before any of them runs a test. Here one does it, and each goes on from there (worker.py), also who takes the
place of one that died. To xdist, which starts, feeds and ends them, they are workers as any other: what it starts is a
launcher, which hands its descriptors on (stand_in.py). Where coverage is measured each starts by itself, since lines
that are run before a fork would be nobody's.
"""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
from _pytest.config import _prepareconfig
from execnet.gateway_base import get_execmodel, init_popen_io, serve

from tests.coordinator import postgresql
from tests.world import fork_server, programs, stand_in

_DATABASE = "database_url"  # the fixture of all that may ask for a server
_OF_PROGRAMS = ("tests/journeys/", "tests/holdfast/")

# Who interrupts the run reaches each worker by itself.
_LAUNCH = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
main({!r}, "worker", ())
"""


# Where the run is led.


def may_be_forked(config: pytest.Config, specs: Sequence[object]) -> bool:
    return not config.getoption("cov_source", None) and all(spec.popen and not spec.chdir for spec in specs)


def fork_from_one(config: pytest.Config, specs: Sequence[object]) -> None:
    """Whoever makes a worker by one of these has it from one that has collected; until the run is over."""
    folder = tempfile.mkdtemp(prefix="hf-workers-")
    server = f"{folder}/socket"
    begin = f"import sys; sys.path[:] = {sys.path!r}; from tests.world.workers import main; main()"
    command = [sys.executable, "-c", begin, server, *map(str, config.invocation_params.args)]
    collector = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert collector.stdin is not None and collector.stdout is not None

    def end() -> None:
        collector.stdin.close()
        collector.wait()
        collector.stdout.close()
        shutil.rmtree(folder)

    config.add_cleanup(end)
    if collector.stdout.readline() != fork_server.LISTENING:
        raise pytest.UsageError("the tests were not collected")
    launcher = Path(folder) / "launcher"
    launcher.write_text(f"{Path(stand_in.__file__).read_text()}\n\n{_LAUNCH.format(server)}")
    config.pluginmanager.register(_Ours())
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-ISE", str(launcher)])


class _Ours:
    """What each worker is told to run."""

    @pytest.hookimpl
    def pytest_xdist_getremotemodule(self) -> ModuleType:
        from tests.world import worker

        return worker


# Where the tests are collected, and in what is forked from there.


class Collected:
    """Has the tests collected, and becomes each worker that is asked for. What takes long and was found to be needed is
    begun meanwhile: one process collects, and another processor has nothing to do.
    """

    def __init__(self, path: str, listening: int) -> None:
        self._path, self._listening = path, listening
        self.failed: list[pytest.CollectReport] = []
        self.session: pytest.Session | None = None
        self.broken = ""  # what went wrong before it became a worker, with pytest, a hook or what is made for all
        self.maxfail = 0
        self._with_programs = False
        self._initdb: threading.Thread | None = None

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.failed.append(report)
            return
        if not self._with_programs and report.nodeid.startswith(_OF_PROGRAMS):
            self._with_programs = True
            programs.begin(at_once=True)
        if self._initdb is None and any(_DATABASE in getattr(each, "fixturenames", ()) for each in report.result):
            self._initdb = threading.Thread(target=postgresql.begin)
            self._initdb.start()

    @pytest.hookimpl
    def pytest_internalerror(self, excrepr: object) -> None:
        self.broken = str(excrepr)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
        programs.begin()
        if self._initdb is not None:
            from tests.coordinator import warmed  # beside Debian 12's libraries there are none of a database

            warmed.warm()
            self._initdb.join()
        # Who interrupts the run reaches each worker by itself.
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
        with fork_server.listening(self._path, self._listening) as listener:
            found = fork_server.next_job(listener)
        signal.signal(signal.SIGINT, interrupted)
        if found is not None:
            os.close(self._listening)
            become_a_worker(found[1])
        return True


def become_a_worker(descriptors: Sequence[int]) -> NoReturn:
    """Of xdist, which speaks to it over the first two of these."""
    fork_server.take_over(descriptors)
    sys.stdin.readline()  # execnet sends its own source, which is here already
    io = init_popen_io(get_execmodel("main_thread_only"))
    io.write(b"1")
    serve(io, id="forked")
    fork_server.end(0)


collected: Collected | None = None


def main() -> None:
    global collected  # noqa: PLW0603 - what xdist sends is run as a module of its own
    _, path, *arguments = sys.argv
    listening = os.dup(1)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    collected = Collected(path, listening)
    config = _prepareconfig(arguments, [collected])
    from xdist.remote import setup_config  # not before pytest has looked for its plugins

    setup_config(config, None)
    config.workerinput, config.workeroutput = {}, {}
    # All is collected whatever fails of it: who leads the run is told by the workers, and stops them (worker.py).
    collected.maxfail, config.option.maxfail = config.option.maxfail, 0
    try:
        status = config.hook.pytest_cmdline_main(config=config)
    except pytest.UsageError as error:
        sys.exit(f"ERROR: {error}")
    sys.exit(collected.broken or status)

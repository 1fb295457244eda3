"""A worker of a test run, in a process that was forked where the tests are collected (workers.py): sent to it by xdist,
which runs it as a program of its own, with a channel.

It says only what somebody hears: of a test that passes xdist's own worker sends six messages, of which four are for who
follows each test, or measures all that is around it. They took as much as half of all small tests.
"""

import os
from collections.abc import Sequence

import pytest
from xdist import remote


class Worker(remote.WorkerInteractor):
    """xdist's own, which says less. `failed`: what could not be collected."""

    def __init__(self, session: pytest.Session, channel: object, failed: Sequence[pytest.CollectReport]) -> None:
        super().__init__(session.config, channel)
        self.session = session
        self._failed = failed
        option = session.config.option
        asks = (option.durations, *(getattr(option, name, None) for name in ("xmlpath", "hypothesis_show_statistics")))
        self._says_all = option.verbose > 0 or any(asks)

    def sendevent(self, name: str, **kwargs: object) -> None:
        if self._says_all or name not in {"logstart", "logfinish"}:
            super().sendevent(name, **kwargs)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._says_all or report.when == "call" or not report.passed or report.sections:
            super().pytest_runtest_logreport(report)

    def run(self) -> None:
        self.pytest_sessionstart(self.session)
        for report in self._failed:
            self.pytest_collectreport(report)
        self.pytest_collection_finish(self.session)
        try:
            self.pytest_runtestloop(self.session)
            status = pytest.ExitCode.TESTS_FAILED if self.session.testsfailed else pytest.ExitCode.OK
        except (KeyboardInterrupt, pytest.exit.Exception):
            status = pytest.ExitCode.INTERRUPTED
        except BaseException:  # noqa: BLE001 - the outermost, as in pytest's own
            status = pytest.ExitCode.INTERNAL_ERROR
            self.config.notify_exception(pytest.ExceptionInfo.from_current(), self.config.option)
        self.session.exitstatus = status
        self.config.hook.pytest_sessionfinish(session=self.session, exitstatus=status)
        self.config._ensure_unconfigure()


def work(channel: object) -> None:
    """To the end of the run, as the worker whose channel this is."""
    from tests.world.workers import collected

    assert collected is not None and collected.session is not None
    session, config = collected.session, collected.session.config
    given, _, options, _ = channel.receive()
    os.environ["PYTEST_XDIST_TESTRUNUID"] = given["testrunuid"]
    os.environ["PYTEST_XDIST_WORKER"] = given["workerid"]
    os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(given["workercount"])
    config.workerinput.update(given)
    config.option.basetemp = options.get("basetemp")
    config.option.maxfail = collected.maxfail
    config._tmp_path_factory = type(config._tmp_path_factory).from_config(config, _ispytest=True)
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.start_global_capturing()
    capture.suspend_global_capture()
    remote.interactor = Worker(session, channel, collected.failed)
    remote.interactor.run()


if __name__ == "__channelexec__":
    work(channel)  # noqa: F821 - xdist gives it

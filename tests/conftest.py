"""What tests of several packages share."""

import gc
import os
import tempfile
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from agent.base import gc_tuning
from tests import order
from tests.bytecode import compiled_once
from tests.examples import examples
from tests.memory import memory_folder

YOUNG, SELDOM = 20_000, 1_000
"""So many new objects before a look through them, for what lies in circles, and so many looks before one through all
that a worker has made: both free next to nothing that is not found at the next one, and with Python's own 700 and 10
were four in a hundred of its time. Circles of what a test leaves behind are found while they are young.
"""

# For properties that name no number of their own.
settings.register_profile("holdfast", examples(100))
settings.load_profile("holdfast")


if folder := memory_folder():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session):
    """What is collected is kept to the end: nearly a million objects, and no look through them frees one, neither
    meanwhile nor later. An agent that runs in a test would thaw it: it finds it done.
    """
    gc.disable()
    with compiled_once(run) if (run := workers_run(session.config)) else nullcontext():
        yield
    gc.freeze()
    gc.set_threshold(YOUNG, gc.get_threshold()[1], SELDOM)
    gc_tuning.gc = SimpleNamespace(freeze=lambda: None, unfreeze=lambda: None)
    gc.enable()


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    report, worker = outcome.get_result(), os.environ.get("PYTEST_XDIST_WORKER")
    if worker and isinstance(collector, pytest.Directory) and report.passed:
        number, workers = int(worker.removeprefix("gw")), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        report.result = order.begun_elsewhere(report.result, number, workers)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(nextitem):
    """What an old circle holds open is said of the last test of a process: of what is found after that a worker says
    nothing.
    """
    if nextitem is None:
        gc.collect()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """At its very end pytest looks five times through all that there is for what is left over: once is enough of what
    was there before.
    """
    gc.collect()
    gc.freeze()


def workers_run(config) -> str:
    """Of which run this is a worker, if of any."""
    return getattr(config, "workerinput", {}).get("testrunuid", "")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items[:] = [items[place] for place in order.sequence([item.nodeid for item in items])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    from tests.world import workers

    if workers.may_be_forked(config, specs):
        workers.fork_from_one(config, specs)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class InOrder(LoadFileScheduling):
        """What is over is forgotten, and a test's place looked up: xdist's own goes through all tests for each."""

        def schedule(self):
            self._places = {name: place for place, name in enumerate(next(iter(self.registered_collections.values())))}
            super().schedule()

        def _split_scope(self, nodeid):
            return order.unit(nodeid)

        def _assign_work_unit(self, node):
            name = order.next_unit(self.workqueue, int(node.gateway.id.removeprefix("gw")))
            unit = self.assigned_work[node][name] = self.workqueue.pop(name)
            node.send_runtest_some([self._places[each] for each, is_over in unit.items() if not is_over])

        def mark_test_complete(self, node, item_index, duration=0):
            super().mark_test_complete(node, item_index, duration)
            name = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][name].values()):
                del self.assigned_work[node][name]

    config.option.loadscopereorder = False
    return InOrder(config, log)


@pytest.fixture
async def one(tmp_path, mock_clock):
    """A coordinator that runs, and one node's disk (tests/journeys/lab.py). Time is the mock clock's, so a test that
    takes this names `mock_clock` too: pytest-trio then runs the loop under it.
    """
    from tests.journeys.lab import lab

    async with lab(tmp_path, mock_clock) as made:
        yield made


@pytest.fixture
async def for_hours(tmp_path, mock_clock):
    """The same where hours go by: it asks, reports and looks seldom, and works without threads."""
    from tests.journeys.lab import SELDOM, lab

    async with lab(tmp_path, mock_clock, text=SELDOM, for_hours=True) as made:
        yield made


@pytest.fixture
def public_folder():
    """Which other accounts reach. Not below pytest's own: the next run of pytest that starts closes that to them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        for each in (Path(name), *Path(name).parents):
            if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
                each.chmod(each.stat().st_mode | 0o011)
        yield Path(name)


@pytest.fixture
def shown(record_property):
    """What a test says to who looks, at the end of the run: `shown(line)`. Output of its own is lost where tests run in
    several processes.
    """
    return partial(record_property, "shown")


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.getreports("passed")
    for report in passed:
        for _, line in filter(lambda named: named[0] == "shown", report.user_properties):
            terminalreporter.write_line(f"  {line}")
    counts = Counter("/".join(report.nodeid.split("::")[0].split("/")[:-1]) for report in passed)
    terminalreporter.write_line("passed: " + ", ".join(f"{folder} {counts[folder]}" for folder in sorted(counts)))


def pytest_unconfigure(config):
    """What was not run for want of something on this machine is said last of all, where nobody misses it."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", ()) if reporter else ()
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    lacking = {reason: count for reason, count in reasons.items() if reason.startswith(("NO ", "NOT RUN"))}
    for reason, count in lacking.items():
        reporter.write_line(f"NOT RUN, tests: {count}: {reason.removeprefix('NOT RUN: ')}", red=True, bold=True)
    if lacking:
        reporter.write_line("How to have what is missing: tools/system-packages test")

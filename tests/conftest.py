"""What tests of several packages share."""

import os
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes, or is looked for, says how busy the machine is.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")


@pytest.fixture
async def one(tmp_path, mock_clock):
    """A coordinator that runs, and one node's disk (tests/journeys/lab.py). Time is the mock clock's, so a test that
    takes this names `mock_clock` too: pytest-trio then runs the loop under it.
    """
    from tests.journeys.lab import lab

    async with lab(tmp_path, mock_clock) as made:
        yield made


@pytest.fixture
def public_folder():
    """Which other accounts reach. Not below pytest's own: the next run of pytest that starts closes that to them."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        for each in (Path(name), *Path(name).parents):
            if each.stat().st_uid == os.geteuid() and not each.stat().st_mode & 0o001:
                each.chmod(each.stat().st_mode | 0o011)
        yield Path(name)


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

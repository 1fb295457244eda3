"""What tests of several packages share."""

from collections import Counter

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

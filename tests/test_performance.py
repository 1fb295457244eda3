"""docs/performance.md is what was measured last, and each goal is of something that is measured."""

import subprocess
import sys

from benchmarks.harness import goals, page, runs
from benchmarks.harness.measures import judge
from tests.citations import ROOT


def test_the_page_is_what_was_measured():
    assert page.stale(measured(), goals.load()) == [], "run `python -m benchmarks.harness page`"


def test_each_goal_is_of_a_figure_that_is_measured():
    assert [
        verdict.goal.figure for verdict in judge(goals.load().goals, measured().found) if verdict.value is None
    ] == []


def test_what_falls_short_is_said_by_its_program():
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.harness", "check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    missed = [verdict for verdict in judge(goals.load().goals, measured().found) if not verdict.is_met]
    *short, said = ended.stdout.splitlines()
    assert len(short) == len(missed) and ended.returncode == bool(missed) and ended.stderr == ""
    assert "goals are met, as measured on 20" in said


def test_each_program_has_run():
    run = measured()
    assert sorted(run.measured) == sorted(program.name for program in goals.load().programs)
    assert run.failed == {}


def measured():
    found = runs.load()
    assert found is not None, "make bench"
    return found

"""docs/performance.md is what was measured last, and each goal is of something that is measured."""

from benchmarks.harness import goals, page, runs
from benchmarks.harness.measures import judge


def test_the_page_is_what_was_measured():
    assert page.stale(measured(), goals.load()) == [], "run `python -m benchmarks.harness page`"


def test_each_goal_is_of_a_figure_that_is_measured():
    assert [
        verdict.goal.figure for verdict in judge(goals.load().goals, measured().found) if verdict.value is None
    ] == []


def test_each_program_has_run():
    run = measured()
    assert sorted(run.measured) == sorted(program.name for program in goals.load().programs)
    assert run.failed == {}


def measured():
    found = runs.load()
    assert found is not None, "make bench"
    return found

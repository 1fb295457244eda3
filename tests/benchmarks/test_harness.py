"""benchmarks/harness: what becomes of a figure, and of a program that ends badly."""

import pytest

from benchmarks.figures import Figure
from benchmarks.harness import page, plots, runs
from benchmarks.harness.goals import Goals, Program
from benchmarks.harness.measures import Goal, exponent, judge, median, p99, ratio, worst
from benchmarks.harness.runs import Measured, Run


def curve(power: float) -> list[Figure]:
    return [Figure("p/curve", "ms", (2.0 * size**power,), size=size) for size in (10, 100, 1000, 10000)]


def test_measures_of_one_figure():
    samples = [Figure("p/one", "ms", tuple(map(float, range(1, 201))), floor=(0.5,) * 200)]
    assert median(samples) == 100.5
    assert p99(samples) == 198
    assert worst(samples) == 200
    assert ratio(samples) == 201


def test_a_ratio_is_of_each_round():
    """What disturbs a round disturbs its floor too."""
    assert ratio([Figure("p/one", "ms", (2.0, 20.0, 2.0), floor=(1.0, 10.0, 1.0))]) == 2


@pytest.mark.parametrize("power", [0.0, 1.0, 1.7])
def test_an_exponent_is_found_again(power):
    assert exponent(curve(power)) == pytest.approx(power)


def test_an_exponent_is_of_the_larger_sizes():
    """What is paid at any size hides at small ones how it grows."""
    assert exponent([Figure("p/c", "ms", (1000.0 + size**2,), size=size) for size in (1, 10, 1000, 10000)]) > 1.9


def test_a_goal_is_met_missed_or_not_measured():
    found = [Figure("p/one", "ms", (5.0,)), Figure("p/bare", "ms", (5.0,))]
    goals = [
        Goal("p/one", "median", "met", most=5),
        Goal("p/one", "median", "missed", most=4.9),
        Goal("p/one", "median", "enough", least=5),
        Goal("p/none", "median", "nobody measured it", most=5),
        Goal("p/one", "exponent", "no curve", most=5),
        Goal("p/bare", "ratio", "no floor", most=5),
        Goal("p/one", "median", "not of that size", most=5, size=10),
    ]
    verdicts = judge(goals, found)
    assert [verdict.is_met for verdict in verdicts] == [True, False, True, False, False, False, False]
    assert [verdict.value for verdict in verdicts] == [5, 5, 5, None, None, None, None]


def test_a_goal_of_one_size():
    (verdict,) = judge([Goal("p/curve", "median", "at 100", most=200, size=100)], curve(1.0))
    assert verdict.value == 200 and verdict.is_met


@pytest.mark.parametrize("limits", [{}, {"most": 1, "least": 1}])
def test_a_goal_has_one_limit(limits):
    with pytest.raises(ValueError, match="p/one: a goal has"):
        Goal("p/one", "median", "x", **limits)


def test_a_goal_has_a_measure():
    with pytest.raises(ValueError, match="median, p99"):
        Goal("p/one", "mode", "x", most=1)


def test_a_figure_has_a_floor_for_each_round():
    with pytest.raises(ValueError, match="a floor for each"):
        Figure("p/one", "ms", (1.0, 2.0), floor=(1.0,))


def tiny(how: str) -> Program:
    return Program(how, ("tests.benchmarks.tiny", how), "a program")


def test_what_programs_find_is_kept_and_what_fails_is_named():
    *_, ran = runs.carry_out([tiny(how) for how in ("badly", "as_another", "silently", "well")])
    assert ran.found == (Figure("well/one", "ms", (1.0, 3.0, 2.0), floor=(1.0, 1.0, 1.0)),)
    assert ran.failed["badly"] == "it ended with 3"
    assert "other/one" in ran.failed["as_another"] and "silently/..." in ran.failed["silently"]
    *_, again = runs.carry_out([tiny("badly")], ran)
    assert again.found == ran.found, "what did not run this time stays"
    assert again.measured == ran.measured


def test_what_one_program_found_is_known_before_the_next_one_starts():
    """A run that is killed is not lost: it goes on by the names of those that had not run."""
    first, second = runs.carry_out([tiny("well"), tiny("badly")])
    assert list(first.measured) == ["well"] and first.failed == {}
    assert second.found == first.found and list(second.failed) == ["badly"]


def test_a_program_that_runs_again_replaces_what_it_had_found():
    old = Run(
        {"well": Measured("2026-01-01", "1 core", 0.5, 1.0), "p": Measured("2026-01-01", "1 core", 0.5, 1.0)},
        {},
        (Figure("p/one", "ms", (1.0,)), Figure("well/gone", "ms", (1.0,))),
    )
    *_, ran = runs.carry_out([tiny("well")], old)
    assert [figure.name for figure in ran.found] == ["p/one", "well/one"]
    assert ran.measured["p"].at == "2026-01-01" < ran.measured["well"].at


def test_nothing_stays_of_a_program_that_is_no_more():
    *_, ran = runs.carry_out([tiny("well"), tiny("badly")])
    assert ran.only({"badly"}) == Run({}, ran.failed, ()) and ran.only({"well", "badly"}) == ran


def test_a_run_is_read_as_it_was_saved(tmp_path, monkeypatch):
    *_, ran = runs.carry_out([tiny("well"), tiny("badly")])
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "figures.json")
    assert runs.load() is None
    runs.save(ran)
    assert runs.load() == ran


def test_the_page_names_what_was_measured_what_failed_and_what_was_not():
    program = Program("p", ("benchmarks.p",), "the <parts> of it", across="nodes", about="Plainly.")
    broken = Program("q", ("benchmarks.q",), "another")
    found = (Figure("p/bare", "ms", (1.0, 3.0), floor=(1.0, 2.0)), *curve(1.0))
    run = Run({"p": Measured("2026-01-01", "1 core", 0.5, 31.4)}, {"q": "it ended with 3"}, found)
    goals = Goals(
        (program, broken), (Goal("p/bare", "ratio", "the one", most=1), Goal("q/x", "median", "none", most=1))
    )
    made = page.pages(run, goals)
    text = made[page.PAGE]
    assert "| the one | 1.25 x | <= 1 | missed |" in text and "| none | not measured | <= 1 | missed |" in text
    assert "`python -m benchmarks.p`, on 2026-01-01, 31 s long, load 0.5 before it" in text
    assert "Plainly." in text and "Did not run: it ended with 3." in text
    assert "| bare | 2.00 ms | 1.00, 3.00 | 1.50 | 1.25 |" in text
    assert "10: 20.0, 100: 200, 1,000: 2,000, 10,000: 20,000 | 1.00 |" in text
    assert "![the <parts> of it](performance/p.svg)" in text
    drawn = made[page.FOLDER / "p.svg"]
    assert "the &lt;parts&gt; of it" in drawn and drawn.count("<circle") == 4


def test_a_line_rises_where_the_values_do():
    drawn = plots.svg("t", "x", "y", {"one": [(1, 1), (10, 10), (100, 100)]})
    path = next(line for line in drawn.splitlines() if 'stroke-width="1.5"' in line and "M" in line)
    points = [tuple(map(float, each[1:].split())) for each in path.split('"')[1].replace(" L", "|L").split("|")]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)

"""docs/performance.md and its plots: made from what was measured last and from goals.toml, and from nothing else."""

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.harness import plots
from benchmarks.harness.goals import Goals, Program
from benchmarks.harness.measures import Curve, Verdict, curve_of, exponent, judge
from benchmarks.harness.runs import Run
from tests.citations import ROOT

PAGE = ROOT / "docs/performance.md"
FOLDER = ROOT / "docs/performance"

HEAD = """\
# Performance

Made by `make bench` from what it measured; `make bench-check` says what falls short of `benchmarks/goals.toml`.
No test asserts a time: figures are of one machine, and a run of yours on yours says more.

Measured on {machines};
each program says below on which day, and beside which load. Times are of the processor unless a row says that somebody
waits: other work on the machine counts little then. A *floor* is the least that does the same in the same run: the
row's bytes hashed, written and synced; the same rows written by a bare prototype; an empty answer of the same
libraries. Ratios are medians of the rounds' own.
"""


def pages(run: Run, goals: Goals) -> dict[Path, str]:
    """Every file of the page, with what it says."""
    made = {FOLDER / f"{name}.svg": text for name, text in _plots(run, goals.programs)}
    return {PAGE: "\n".join(_page(run, goals, made)), **made}


def stale(run: Run, goals: Goals) -> list[Path]:
    return [path for path, text in pages(run, goals).items() if not path.exists() or path.read_text() != text]


def _page(run: Run, goals: Goals, drawn: dict[Path, str]) -> Iterator[str]:
    machines = dict.fromkeys(measured.machine for measured in run.measured.values())
    yield HEAD.format(machines=" and ".join(machines))
    yield "## Goals\n"
    yield "| what | measured | goal | |"
    yield "|---|---|---|---|"
    yield from (_goal(verdict) for verdict in judge(goals.goals, run.found))
    for program in goals.programs:
        yield from _program(program, run, drawn)


def _goal(verdict: Verdict) -> str:
    value = "not measured" if verdict.value is None else f"{shown(verdict.value)} {verdict.unit}".strip()
    return f"| {verdict.goal.what} | {value} | {verdict.goal.limit} | {'met' if verdict.is_met else 'missed'} |"


def _program(program: Program, run: Run, drawn: dict[Path, str]) -> Iterator[str]:
    yield f"\n## {program.what[0].upper()}{program.what[1:]}\n"
    yield f"`python -m {' '.join(program.command)}`{_when(program, run)}\n"
    if program.about:
        yield f"{program.about.strip()}\n"
    if program.name in run.failed:
        yield f"Did not run: {run.failed[program.name]}.\n"
    found = [figure for figure in run.found if figure.name.startswith(f"{program.name}/")]
    if any(not figure.size for figure in found):
        yield "| | median | from, to | floor | times the floor |"
        yield "|---|---|---|---|---|"
        yield from (_row(figure) for figure in found if not figure.size)
    yield from _curves(program, found, drawn)


def _when(program: Program, run: Run) -> str:
    if program.name not in run.measured:
        return ""
    measured = run.measured[program.name]
    return f", on {measured.at}, {measured.seconds:,.0f} s long, load {measured.load} before it"


def _row(figure: Figure) -> str:
    middle, least, most = statistics.median(figure.samples), min(figure.samples), max(figure.samples)
    floor, times = "", ""
    if figure.floor:
        floor = shown(statistics.median(figure.floor))
        ratios = [ours / bare for ours, bare in zip(figure.samples, figure.floor, strict=True)]
        times = shown(statistics.median(ratios))
    spread = f"{shown(least)}, {shown(most)}" if len(figure.samples) > 1 else ""
    return f"| {_words(figure.name)} | {shown(middle)} {figure.unit} | {spread} | {floor} | {times} |"


def _curves(program: Program, found: Sequence[Figure], drawn: dict[Path, str]) -> Iterator[str]:
    curves = _by_name(found)
    if not curves:
        return
    for path in drawn:
        if path.stem == program.name or path.stem.startswith(f"{program.name}-"):
            yield f"\n![{program.what}]({FOLDER.name}/{path.name})"
    yield "\n| | at its sizes | grows with the power of |"
    yield "|---|---|---|"
    for name, curve in curves.items():
        values = ", ".join(f"{figure.size:,}: {shown(statistics.median(figure.samples))}" for figure in curve)
        fitted = shown(exponent(curve)) if len(curve) > 1 else ""
        yield f"| {_words(name)}, {curve[0].unit} | {values} | {fitted} |"


def _plots(run: Run, programs: Sequence[Program]) -> Iterator[tuple[str, str]]:
    """One a program and unit: what is counted otherwise does not share an axis."""
    for program in programs:
        found = [figure for figure in run.found if figure.name.startswith(f"{program.name}/") and figure.size]
        for unit in dict.fromkeys(figure.unit for figure in found):
            curves = _by_name([figure for figure in found if figure.unit == unit])
            series = {
                _words(name): [(figure.size, statistics.median(figure.samples)) for figure in curve]
                for name, curve in curves.items() if len(curve) > 1
            }  # fmt: skip
            if series:
                name = program.name if unit == found[0].unit else f"{program.name}-{unit}"
                yield name, plots.svg(program.what, program.across, unit, series)


def _by_name(found: Sequence[Figure]) -> dict[str, Curve]:
    sized = [figure for figure in found if figure.size]
    return {name: curve_of(name, sized) for name in dict.fromkeys(figure.name for figure in sized)}


def _words(name: str) -> str:
    return name.partition("/")[2]


def shown(value: float) -> str:
    """Three digits that say something."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"

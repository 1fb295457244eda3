"""`python -m benchmarks.harness run|check|page`."""

import argparse
import sys

from benchmarks.harness import goals as goals_file
from benchmarks.harness import page, runs
from benchmarks.harness.goals import Goals
from benchmarks.harness.measures import judge
from benchmarks.harness.runs import Run

SHORT = 1


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.harness")
    options.add_argument("what", choices=["run", "check", "page"])
    options.add_argument("names", nargs="*", help="of programs in goals.toml; all of them if none is named")
    chosen = options.parse_args()
    goals = goals_file.load()
    if chosen.what == "run":
        return _run(goals, chosen.names)
    last = runs.load()
    if last is None:
        sys.exit("nothing was measured yet: make bench")
    return _check(goals, last) if chosen.what == "check" else _write(goals, last)


def _run(goals: Goals, names: list[str]) -> int:
    known = {program.name for program in goals.programs}
    if unknown := sorted(set(names) - known):
        sys.exit(f"no program is called {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    programs = [program for program in goals.programs if not names or program.name in names]
    run = (runs.load() or runs.NOTHING).only(known)
    for after in runs.carry_out(programs, run):
        run = after
        runs.save(run)
        _write(goals, run)
    _check(goals, run)
    return 1 if any(program.name in run.failed for program in programs) else 0


def _check(goals: Goals, run: Run) -> int:
    verdicts = judge(goals.goals, run.found)
    missed = [verdict for verdict in verdicts if not verdict.is_met]
    for verdict in missed:
        value = "not measured" if verdict.value is None else f"{page.shown(verdict.value)} {verdict.unit}".strip()
        print(f"short: {verdict.goal.what}: {value}, goal {verdict.goal.limit}")
    days = sorted({measured.at for measured in run.measured.values()})
    print(f"{len(verdicts) - len(missed)} of {len(verdicts)} goals are met, as measured on {', '.join(days)}")
    return SHORT if missed else 0


def _write(goals: Goals, run: Run) -> int:
    for path, text in page.pages(run, goals).items():
        path.write_text(text)
    return 0


sys.exit(main())

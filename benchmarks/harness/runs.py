"""The programs of goals.toml one after the other, what they found, and what they ran on.

Each is a process of its own and has the machine to itself. What fails is named, and the others go on; and what has
ended is there to be saved before the next one starts: a run of many minutes is not lost to one of them.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from benchmarks import figures
from benchmarks.figures import Figure
from benchmarks.harness.goals import Program
from tests.citations import ROOT

RESULTS = ROOT / "docs/performance/figures.json"
MOST_S = 600.0  # of one program


@dataclass(frozen=True)
class Measured:
    """How one program has run. `at`: the day. `load`: of the minute before it began."""

    at: str
    machine: str
    load: float
    seconds: float


@dataclass(frozen=True)
class Run:
    """`measured`: of each program that has run, by its name. `failed`: how, by the names of others."""

    measured: Mapping[str, Measured]
    failed: Mapping[str, str]
    found: tuple[Figure, ...]

    def only(self, programs: Container[str]) -> Self:
        """Without what is of programs that are no more."""
        return replace(
            self,
            measured={name: measured for name, measured in self.measured.items() if name in programs},
            failed={name: fault for name, fault in self.failed.items() if name in programs},
            found=tuple(figure for figure in self.found if _program_of(figure) in programs),
        )


NOTHING = Run({}, {}, ())


def carry_out(programs: Sequence[Program], before: Run = NOTHING) -> Iterator[Run]:
    """All that is known after each of them. `before`: what programs that do not run this time found last time stays."""
    run = before
    for program in programs:
        print(f"== {program.name}: {program.what}", flush=True)
        load, began = round(os.getloadavg()[0], 1), time.monotonic()
        found, fault = _ran(program)
        if fault:
            print(f"== {program.name}: FAILED: {fault}", flush=True)
            run = replace(run, failed={**run.failed, program.name: fault})
        else:
            day = time.strftime("%Y-%m-%d", time.gmtime())
            measured = Measured(day, _machine(), load, round(time.monotonic() - began, 1))
            run = _with(run, program.name, measured, found)
        yield run


def _with(run: Run, name: str, measured: Measured, found: Sequence[Figure]) -> Run:
    """Its figures in place of those that it had."""
    others = [figure for figure in run.found if _program_of(figure) != name]
    failed = {program: fault for program, fault in run.failed.items() if program != name}
    every = sorted((*others, *found), key=_program_of)
    return Run({**run.measured, name: measured}, failed, tuple(every))


def _program_of(figure: Figure) -> str:
    return figure.name.partition("/")[0]


def _ran(program: Program) -> tuple[list[Figure], str]:
    """Its figures, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "figures"
        place.touch()
        try:
            ended = subprocess.run(
                [sys.executable, "-m", *program.command],
                cwd=ROOT, env={**os.environ, figures.PLACE: str(place)}, timeout=MOST_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [], f"it took more than {MOST_S:.0f} s"
        found = figures.read(place)
    if ended.returncode:
        return [], f"it ended with {ended.returncode}"
    foreign = [figure.name for figure in found if not figure.name.startswith(f"{program.name}/")]
    if foreign or not found:
        return [], f"its figures are not named {program.name}/...: {foreign}"
    return found, ""


def _machine() -> str:
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30)
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{len(os.sched_getaffinity(0))} cores, {memory_gib:.0f} GiB, {platform.machine()}, Python {python}"


def save(run: Run) -> None:
    """A figure a line: what has changed is seen."""
    RESULTS.parent.mkdir(exist_ok=True)
    head = json.dumps({name: value for name, value in asdict(run).items() if name != "found"}, indent=1)
    found = ",\n".join(json.dumps(asdict(figure)) for figure in run.found)
    RESULTS.write_text(f'{head.removesuffix("}").rstrip()},\n "found": [\n{found}\n]}}\n')


def load() -> Run | None:
    """What was measured last."""
    if not RESULTS.exists():
        return None
    value = json.loads(RESULTS.read_text())
    measured = {name: Measured(**each) for name, each in value["measured"].items()}
    return Run(measured, value["failed"], tuple(figures.of(each) for each in value["found"]))

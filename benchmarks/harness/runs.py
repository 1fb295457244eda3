"""The programs of goals.toml one after the other, what they found, and what they ran on.

Each is a process of its own and has the machine to itself. What fails is named, and the others go on: a run of many
minutes is not lost to one of them.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import figures
from benchmarks.figures import Figure
from benchmarks.harness.goals import Program
from tests.citations import ROOT

RESULTS = ROOT / "docs/performance/figures.json"
MOST_S = 600.0  # of one program


@dataclass(frozen=True)
class Run:
    """`seconds`: of each program that has run, by its name. `failed`: how, by the names of others."""

    at: str
    machine: str
    load: float
    seconds: dict[str, float]
    failed: dict[str, str]
    found: tuple[Figure, ...]


def carry_out(programs: Sequence[Program], before: Run | None) -> Run:
    """`before`: what programs that do not run this time found last time stays."""
    seconds, failed = (dict(before.seconds), dict(before.failed)) if before else ({}, {})
    kept = {figure.name.partition("/")[0]: [] for figure in before.found} if before else {}
    for figure in before.found if before else ():
        kept[figure.name.partition("/")[0]].append(figure)
    load = os.getloadavg()[0]
    for program in programs:
        print(f"== {program.name}: {program.what}", flush=True)
        began = time.monotonic()
        found, fault = _ran(program)
        failed.pop(program.name, None)
        if fault:
            failed[program.name] = fault
            print(f"== {program.name}: FAILED: {fault}", flush=True)
            continue
        kept[program.name] = found
        seconds[program.name] = round(time.monotonic() - began, 1)
    every = tuple(figure for name in sorted(kept) for figure in kept[name])
    return Run(time.strftime("%Y-%m-%d", time.gmtime()), _machine(), round(load, 1), seconds, failed, every)


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
    return Run(**{**value, "found": tuple(figures.of(each) for each in value["found"])})

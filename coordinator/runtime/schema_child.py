"""JSON Schemas of operators judge in a child process: one whose pattern never comes to an end, ends with its process.

A regular expression holds the interpreter's lock, so no thread and no signal of ours would end it. The child has so
many seconds of the processor and so much memory for all schemas of an apply; it is given them on standard input, reads
nothing else, and answers line by line, so that the one at which it ended is known.

It is the processor's time that is a schema's own: it begins once the libraries are there, and a machine that is busy
with other things takes nothing of it away. How long all of it may last is bounded, too, and much wider; who runs into
that bound is told to come again (`timed_out`), and no schema is blamed.

The unit's sandbox takes setrlimit away from everything in it. There MemoryMax= is the bound, and the child offers
itself as the one that is ended: OOMPolicy=continue leaves the coordinator as it is. An interval timer it leaves to it.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.base.refusal import Code, Refused
from coordinator.configs.config_files import SchemaCheck
from coordinator.declared.fields import FieldFault
from coordinator.declared.fields import Path as FieldPath
from coordinator.declared.resources import DeclaredProblem, InvalidResources

if TYPE_CHECKING:
    from coordinator.configs.json_schema import Fault  # its library is the child's alone

PROCESSOR_S = 10.0
WALL_S = 100.0  # below what an apply may take (admin_api.py)
MEMORY_BYTES = 1 << 30
MOST_TOLD = 20  # of one file
_ENDS = f"the schemas of this apply do not come to an end within {PROCESSOR_S:.0f} s, or within a GiB: they stood here"
_REMEDY = "simplify their patterns, or leave the schema out"
_PROGRAM = """
import json, resource, signal, sys
sys.path[:] = sys.argv[3:]
try:
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (OSError, ValueError):  # the second where it may not be asked for
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
from coordinator.configs.json_schema import faults_of_all
given = json.load(sys.stdin)
signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[2]))
for faults in faults_of_all(*given):
    print(json.JSONEncoder().encode(faults), flush=True)
"""


def check(checks: Sequence[SchemaCheck]) -> None:
    """InvalidResources with everything that does not fit; `timed_out` where the machine had no turn for it."""
    if not checks:
        return
    found = _ask(checks)
    problems = list(_problems(checks, found))
    if len(found) < len(checks):
        stood = checks[len(found)]
        problems.append(stood.declared.problem(FieldFault(stood.at, _ENDS, _REMEDY)))
    if problems:
        raise InvalidResources(problems)


def _problems(checks: Sequence[SchemaCheck], found: "Sequence[Sequence[Fault]]") -> Iterator[DeclaredProblem]:
    """What is wrong with a template is said once, with one of its nodes and how many others there are."""
    same: dict[tuple[int, FieldPath, tuple[str | int, ...], str], list[SchemaCheck]] = {}
    for check, faults in zip(checks, found, strict=False):
        for place, message in faults:
            same.setdefault((id(check.declared), check.at, tuple(place), message), []).append(check)
    told = Counter[tuple[int, FieldPath]]()
    for (declared, at, inside, message), wrong in same.items():
        told[declared, at] += 1
        if told[declared, at] <= MOST_TOLD:
            fault = FieldFault((*at, *inside), message + _whose(wrong), f"correct it, or {wrong[0].name}")
            yield wrong[0].declared.problem(fault)


def _whose(wrong: Sequence[SchemaCheck]) -> str:
    count = sum(len(check.node_ids) for check in wrong)
    if not count:
        return ""
    example = wrong[0].node_ids[0]
    return f", as {example} is given it" if count == 1 else f", as {example} and {count - 1} more are given it"


def _ask(checks: Sequence[SchemaCheck]) -> "list[list[Fault]]":
    """The faults of each; fewer where it took too long, or too much."""
    ours = str(Path(__file__).parents[2])
    path = [folder for folder in dict.fromkeys([*sys.path, ours]) if folder]
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(MEMORY_BYTES), str(PROCESSOR_S), *path]
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command, input=_question(checks), capture_output=True, timeout=WALL_S, check=False, env={}
        )
    except subprocess.TimeoutExpired:
        message = f"too busy a machine: the schemas were not asked within {WALL_S:.0f} s; nothing was changed"
        raise Refused(Code.TIMED_OUT, message, remedy="apply once more; look at its load if it stays") from None
    whole, _, _ = ended.stdout.rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]


def _question(checks: Sequence[SchemaCheck]) -> bytes:
    """Each schema once, and the values by the places of theirs."""
    schemas = {schema: number for number, schema in enumerate(dict.fromkeys(check.schema for check in checks))}
    pairs = [(schemas[check.schema], check.value.decode()) for check in checks]
    return json.JSONEncoder().encode([[schema.decode("utf-8", "replace") for schema in schemas], pairs]).encode()

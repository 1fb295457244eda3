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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.base.refusal import Code, Refused
from coordinator.configs.config_files import SchemaCheck
from coordinator.declared.fields import FieldFault
from coordinator.declared.resources import InvalidResources

if TYPE_CHECKING:
    from coordinator.configs.json_schema import Fault  # its library is the child's alone

PROCESSOR_S = 10.0
WALL_S = 100.0  # below what an apply may take (admin_api.py)
MEMORY_BYTES = 1 << 30
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
pairs = json.load(sys.stdin)
signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
signal.setitimer(signal.ITIMER_PROF, float(sys.argv[2]))
for faults in faults_of_all(pairs):
    print(json.JSONEncoder().encode(faults), flush=True)
"""


def check(checks: Sequence[SchemaCheck]) -> None:
    """InvalidResources with everything that does not fit; `timed_out` where the machine had no turn for it."""
    if not checks:
        return
    found = _ask([(check.schema.decode("utf-8", "replace"), check.value.decode()) for check in checks])
    problems = [
        check.declared.problem(FieldFault((*check.at, *place), message, f"correct it, or {check.name}"))
        for check, faults in zip(checks, found, strict=False)
        for place, message in faults
    ]
    if len(found) < len(checks):
        stood = checks[len(found)]
        problems.append(stood.declared.problem(FieldFault(stood.at, _ENDS, _REMEDY)))
    if problems:
        raise InvalidResources(problems)


def _ask(pairs: Sequence[tuple[str, str]]) -> "list[list[Fault]]":
    """The faults of each; fewer where it took too long, or too much."""
    ours = str(Path(__file__).parents[2])
    path = [folder for folder in dict.fromkeys([*sys.path, ours]) if folder]
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(MEMORY_BYTES), str(PROCESSOR_S), *path]
    given = json.JSONEncoder().encode(pairs).encode()
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command, input=given, capture_output=True, timeout=WALL_S, check=False, env={}
        )
    except subprocess.TimeoutExpired:
        message = f"too busy a machine: the schemas were not asked within {WALL_S:.0f} s; nothing was changed"
        raise Refused(Code.TIMED_OUT, message, remedy="apply once more; look at its load if it stays") from None
    whole, _, _ = ended.stdout.rpartition(b"\n")
    return [json.loads(line) for line in whole.splitlines()]

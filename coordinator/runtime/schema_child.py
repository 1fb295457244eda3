"""JSON Schemas of operators judge in a child process: one whose pattern never comes to an end, ends with its process.

A regular expression holds the interpreter's lock, so no thread and no signal of ours would end it. The child has so
many seconds and so much memory for all schemas of an apply; it is given them on standard input and reads nothing else.

The unit's sandbox takes setrlimit away from everything in it. There MemoryMax= is the bound, and the child offers
itself as the one that is ended: OOMPolicy=continue leaves the coordinator as it is.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from coordinator.configs.config_files import SchemaCheck
from coordinator.declared.fields import FieldFault
from coordinator.declared.resources import InvalidResources

DEADLINE_S = 10.0
MEMORY_BYTES = 1 << 30
_ENDS = f"the schemas of these files do not come to an end within {DEADLINE_S:.0f} s, or within a GiB"
_REMEDY = "simplify their patterns, or leave the schema out"
_PROGRAM = """
import json, resource, sys
sys.path[:] = sys.argv[2:]
try:
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]),) * 2)
except (OSError, ValueError):  # the second where it may not be asked for
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
from coordinator.configs.json_schema import faults_of_all
sys.stdout.write(json.JSONEncoder().encode(faults_of_all(json.load(sys.stdin))))
"""


def check(checks: Sequence[SchemaCheck]) -> None:
    """InvalidResources with everything that does not fit."""
    if not checks:
        return
    found = _ask([(check.schema.decode("utf-8", "replace"), check.value.decode()) for check in checks])
    if found is None:
        raise InvalidResources([check.declared.problem(FieldFault(check.at, _ENDS, _REMEDY)) for check in checks])
    problems = [
        check.declared.problem(FieldFault((*check.at, *place), message, f"correct it, or {check.name}"))
        for check, faults in zip(checks, found, strict=True)
        for place, message in faults
    ]
    if problems:
        raise InvalidResources(problems)


def _ask(pairs: Sequence[tuple[str, str]]) -> list[list[tuple[list[str | int], str]]] | None:
    """None where there is no answer: it took too long, or too much."""
    ours = str(Path(__file__).parents[2])
    path = [folder for folder in dict.fromkeys([*sys.path, ours]) if folder]
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, str(MEMORY_BYTES), *path]
    given = json.JSONEncoder().encode(pairs).encode()
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command, input=given, capture_output=True, timeout=DEADLINE_S, check=False, env={}
        )
        answer: list[list[tuple[list[str | int], str]]] = json.loads(ended.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    return answer

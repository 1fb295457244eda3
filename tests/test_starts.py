"""What each program loads before it does what it was asked for: a library that it does not need makes everybody wait.

Which modules are loaded says it without a clock. Daemons are started by tests of their own (tests/agent/test_run.py,
tests/coordinator/test_run.py).
"""

import json
import subprocess
import sys

import pytest

from holdfast.ctl import operator
from holdfast.node import command
from tests.citations import ROOT

PROGRAMS = {
    "holdfast": "holdfast.node.command",
    "holdfastctl": "holdfast.ctl.operator",
    "holdfast-agent": "agent.command",
    "holdfast-coordinator": "coordinator.command",
}
LIBRARIES = {
    *("alembic", "asyncio", "cryptography", "h11", "http", "httpx", "jsonschema", "jwt", "lmdb", "msgpack"),
    *("prometheus_client", "psycopg", "rich", "sqlalchemy", "trio", "yaml"),
}
RUN = """
import json, sys
from {module} import main
sys.argv = {words!r}
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded_by(program: str, *arguments: str) -> set[str]:
    code = RUN.format(module=PROGRAMS[program], words=[program, *arguments])
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_a_program_says_of_itself_needs_no_library(program: str, option: str) -> None:
    loaded = loaded_by(program, option)
    assert PROGRAMS[program] in loaded
    assert loaded.isdisjoint(LIBRARIES)


@pytest.mark.parametrize("known", [command.COMMANDS, operator.COMMANDS], ids=["holdfast", "holdfastctl"])
def test_each_subcommand_is_said_on_one_line_of_a_terminal(known: dict[str, tuple[str, str, str]]) -> None:
    column = max(map(len, known)) + 4
    assert [words for *_, words in known.values() if not words.endswith(".") or column + len(words) > 78] == []


def test_a_coordinator_loads_what_few_of_them_need_where_it_is_needed() -> None:
    """Migrations, stores in buckets, schemas of Configs."""
    code = "import json, sys, coordinator.run; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert "sqlalchemy" in loaded
    assert loaded.isdisjoint({"alembic", "click", "httpx", "jsonschema", "psycopg", "rich"})

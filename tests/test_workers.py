"""Workers that are forked from one process tell of tests what each by itself would (tests/world/workers.py)."""

import ast
import os
import subprocess
import sys
import tempfile
from textwrap import dedent

from tests.citations import ROOT

SOME = """
    import pytest

    @pytest.fixture
    def missing():
        raise RuntimeError("before")

    @pytest.fixture
    def left():
        yield
        raise RuntimeError("afterwards")

    def test_passes(tmp_path, worker_id, pytestconfig):
        assert tmp_path.parent.name == f"popen-{worker_id}"
        assert worker_id == pytestconfig.workerinput["workerid"]

    def test_fails():
        print("said")
        assert 1 == 2

    def test_lacks(missing):
        pass

    def test_leaves(left):
        pass

    @pytest.mark.skip(reason="NO machine")
    def test_is_not_run():
        pass

    @pytest.mark.xfail(strict=True)
    def test_is_wrong():
        pass
"""
OTHERS = """
    import os

    def test_dies(worker_id):
        if worker_id in ("gw0", "gw1"):
            os._exit(3)
"""
WRONG = "import nothing_of_this_name"
LEAKS = """
    import gc, socket

    class Knot:
        def __init__(self):
            self.me, self.socket = self, socket.socket()

    kept = []

    def test_leaves_an_old_circle():
        kept.append(Knot())
        gc.collect(1)
        gc.collect(1)  # as if it had lived through a long test
        kept.clear()

    def test_passes():
        pass
"""
PROPERTY = "from hypothesis import given, strategies as st\n@given(st.integers())\ndef test_holds(number): pass"


def run(folder, *arguments, **environment):
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", ROOT / "pyproject.toml", "-n", "2"]
    more = ["--rootdir", folder, "--dist=loadfile", "-p", "no:cacheprovider", *arguments, folder]
    given = {**os.environ, **environment}
    return subprocess.run(
        [*command, *more], check=False, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300
    )


def test_each_outcome_of_a_test_is_told_and_who_dies_is_replaced(tmp_path):
    for name, text in {"test_some.py": SOME, "test_others.py": OTHERS, "test_wrong.py": WRONG}.items():
        (tmp_path / name).write_text(dedent(text))
    ran = run(tmp_path)
    assert ran.returncode == 1, ran.stderr
    ended = [line.split(" - ")[0].split("/")[-1] for line in ran.stdout.splitlines() if line.startswith(("FAI", "ERR"))]
    assert sorted(set(ended)) == [
        "test_others.py::test_dies",
        "test_some.py::test_fails",
        "test_some.py::test_is_wrong",
        "test_some.py::test_lacks",
        "test_some.py::test_leaves",
        "test_wrong.py",
    ]
    assert "4 passed" not in ran.stdout
    for said in ("3 passed", "1 skipped", "3 errors", "Captured stdout call", "said", "NOT RUN, tests: 1: NO machine"):
        assert said in ran.stdout


def test_what_is_left_open_in_an_old_circle_is_said_at_the_end(tmp_path):
    """All that lives is looked through seldom (tests/conftest.py), and who left it may be over for long."""
    (tmp_path / "test_some.py").write_text(dedent(LEAKS))
    ran = run(tmp_path)
    assert ran.returncode == 1
    assert "2 passed, 1 error" in ran.stdout and "<socket.socket" in ran.stdout


def test_who_measures_or_looks_on_is_told_all(tmp_path):
    (tmp_path / "test_some.py").write_text("def test_passes(tmp_path): pass")
    ran = run(tmp_path, "-vv", "--durations=0")
    assert ran.returncode == 0
    assert all(f" {when} " in ran.stdout for when in ("setup", "call", "teardown"))
    (tmp_path / "test_some.py").write_text(PROPERTY)
    assert "passing, 0 failing" in run(tmp_path, "--hypothesis-show-statistics").stdout


def test_what_cannot_be_collected_at_all_is_said(tmp_path):
    ran = run(tmp_path, tmp_path / "nothing")
    assert ran.returncode == 4
    assert f"file or directory not found: {tmp_path}/nothing" in ran.stderr


def test_there_are_workers_where_there_are_none_of_the_coordinators_libraries(tmp_path):
    """As beside Debian 12's (make bookworm)."""
    (tmp_path / "sqlalchemy.py").write_text("raise ModuleNotFoundError('not here', name='sqlalchemy')")
    (tmp_path / "test_some.py").write_text("def test_passes(): pass")
    ran = run(tmp_path, PYTHONPATH=str(tmp_path))
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stderr


def test_what_goes_wrong_once_all_is_collected_is_said(tmp_path):
    """As a fault of the product in what is made before the workers are forked."""
    (tmp_path / "sqlalchemy.py").write_text("raise ModuleNotFoundError('not here', name='sqlalchemy')")
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef database_url(): pass")
    (tmp_path / "test_some.py").write_text("def test_passes(database_url): pass")
    ran = run(tmp_path, PYTHONPATH=str(tmp_path))
    assert (ran.returncode, "ModuleNotFoundError: not here" in ran.stderr) == (4, True), ran.stderr


def test_who_stops_at_the_first_fault_is_told_of_it(tmp_path):
    """In a place with a space in its name, too."""
    (tmp_path / "test_some.py").write_text("def test_passes(): pass")
    (tmp_path / "test_wrong.py").write_text(WRONG)
    with tempfile.TemporaryDirectory(prefix="hf a ") as place:  # a short one, since sockets lie in it
        ran = run(tmp_path, "-x", TMPDIR=place)
    assert ran.returncode == 2
    assert "No module named 'nothing_of_this_name'" in ran.stdout and "1 error" in ran.stdout
    (tmp_path / "conftest.py").write_text("def pytest_collection_modifyitems(): raise RuntimeError('of a hook')")
    ran = run(tmp_path)
    assert ran.returncode == 4
    assert "RuntimeError: of a hook" in ran.stderr


def test_nothing_is_asked_of_a_process_where_a_module_is_imported():
    """That is another process than the one in which its tests run, and the same for all of them."""
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    found = [
        f"{path}:{part.lineno}"
        for path in texts
        if "getpid(" in texts[path]
        for part in ast.parse(texts[path]).body
        if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and _calls(part, "getpid")
    ]
    assert found == []


def _calls(part, name):
    return any(isinstance(each, ast.Call) and ast.unparse(each.func).endswith(name) for each in ast.walk(part))

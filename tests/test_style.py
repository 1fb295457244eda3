"""How the code is cut: files that fit a screen or three, functions that read at a glance, names of the field."""

import ast
import os
import re
from pathlib import Path
from statistics import median

import pytest

from tests import trees
from tests.citations import ROOT
from tests.source import PACKAGES, modules
from tests.words import is_named_by_participle

FILE_MEDIAN = 180
FUNCTION_MEDIAN = 12
LONG_FUNCTION = 40
LONG_FUNCTIONS = 0.08

NOT_OURS = {"__pycache__", "build", "dist"}
"""Folders that commands make; those that begin with a dot or end in .egg-info likewise."""

WORKPLACE = tuple(
    start + end
    for start, end in (
        *(("/wo", "rk/"), ("/ro", "ot/"), ("/tmp/", "plan"), ("/opt/", "pypi"), ("/opt/", "wheels")),
        *(("pypi", ".org"), ("pythonhosted", ".org"), ("deb.debian", ".org")),
    )
)
"""Paths and hosts of one machine (in halves, since this file is searched too)."""


def lengths(package):
    return [len(module.source.splitlines()) for module in modules(package) if module.source.strip()]


def function_lengths(package):
    functions = [function for module in modules(package) for function in module.functions]
    return [function.end_lineno - function.lineno + 1 for function in functions]


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_short(package):
    assert median(lengths(package) or [0]) <= FILE_MEDIAN


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_short(package):
    sizes = function_lengths(package) or [0]
    assert median(sizes) <= FUNCTION_MEDIAN
    assert sum(size > LONG_FUNCTION for size in sizes) / len(sizes) < LONG_FUNCTIONS


@pytest.mark.parametrize("package", PACKAGES)
def test_names_are_of_the_field(package):
    classes = [node.name for module in modules(package) for node in module.nodes if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if re.search(r"(Manager|Helper|Util)s?$", name)] == []
    files = [module.name.rpartition(".")[2] for module in modules(package)]
    assert {"util", "utils", "helper", "helpers", "misc", "common"}.isdisjoint(files)


def test_a_public_class_name_means_one_thing():
    """In the whole product; `holdfast.client` is a package of its own to those who import it, and no exception."""
    places: dict[str, list[str]] = {}
    for module in modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module.path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


PARTICIPLES = {
    "agent.access.access.expired": "a member of the configuration, which has the setting's name",
}
"""Functions that a participle names all the same, and why."""


def named_by_participles():
    return {
        f"{module.name}.{function.name}"
        for module in modules()
        for function in module.functions
        if is_named_by_participle(function.name)
    }


def test_functions_are_named_by_verbs_nouns_and_predicates():
    """`_held_versions`, `hold`, `is_held`, and not `_held`: what it does, returns or answers, not what became of it."""
    assert named_by_participles() - PARTICIPLES.keys() == set()


def test_no_participle_is_allowed_for_nothing():
    assert PARTICIPLES.keys() - named_by_participles() == set()


@pytest.mark.parametrize("name", ["held", "_shown", "looked_up", "_taken_away", "scopes_asked", "_begun"])
def test_a_participle_is_found(name):
    assert is_named_by_participle(name)


@pytest.mark.parametrize(
    "name", ["hold", "held_versions", "is_held", "threshold_is_met", "check_pinned", "read", "need"]
)
def test_verbs_nouns_and_predicates_are_none(name):
    assert not is_named_by_participle(name)


NAMELESS = {"each", "one"}


def nameless_loops(nodes):
    """Loop variables that do not name what they hold."""
    loops = [node for node in nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
    return [name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)]


def test_loop_variables_name_what_they_hold():
    """`for scope in scopes`, and not `for each in scopes`."""
    found = [module.name for module in modules() if NAMELESS.intersection(nameless_loops(module.nodes))]
    assert found == []


def test_a_nameless_loop_is_found():
    assert nameless_loops(trees.walk(ast.parse("[x for one in y]\nfor a, each in b: pass"))) == ["a", "each", "one"]


def test_tests_mirror_the_code():
    """tests/<package>/test_<module>.py tests <package>/<module>.py; a longer name holds the module's."""
    strays = []
    for package in PACKAGES:
        known = {module.name.rpartition(".")[2] for module in modules(package)}
        for path in (ROOT / "tests" / package).glob("test_*.py"):
            if not any(f"_{name}_" in f"_{path.stem}_" for name in known):
                strays.append(str(path.relative_to(ROOT)))
    assert strays == []


def test_how_large_the_tests_are(shown):
    """A ratio to look at, not to reach: padding is easy, and worth nothing."""
    for package in PACKAGES:
        sizes, functions = lengths(package) or [0], function_lengths(package) or [0]
        tests = sum(len(path.read_text().splitlines()) for path in (ROOT / "tests" / package).rglob("*.py"))
        long = sum(size > LONG_FUNCTION for size in functions) / len(functions)
        shown(
            f"{package:12} {sum(sizes):6} lines, file median {median(sizes):4.0f}, "
            f"function median {median(functions):3.0f}, {long:4.1%} over {LONG_FUNCTION}, "
            f"test lines for each line {tests / max(sum(sizes), 1):.2f}"
        )
    assert len(modules()) > 0


ON_A_TERMINAL = {"holdfast.ctl.output", "holdfast.node.status_command"}
"""Who prints pictures of rich: tables, whose cells are shown, and the status, which is shown as a whole."""


def test_what_others_wrote_has_one_way_to_a_terminal():
    """threats D-59: holdfast/terminal/shown.py; ruff keeps `click.echo` and `print` out"""
    faults = []
    for module in modules("holdfast"):
        for node in module.nodes:
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("click.prompt", "click.confirm") and not ast.unparse(node.args[0]).startswith("shown("):
                faults.append(f"{module.name}:{node.lineno}: asks with words that are not shown")
            if called == "Console" and module.name not in ON_A_TERMINAL:
                faults.append(f"{module.name}:{node.lineno}: a picture of its own")
            if re.fullmatch(r"sys\.std(out|err)(\.buffer)?\.write(lines)?", called):
                faults.append(f"{module.name}:{node.lineno}: writes by itself")
    assert faults == []


def repository():
    """Every file of ours, binary ones too."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not _made_by_commands(name))
        yield from (Path(folder, name) for name in sorted(files) if not _made_by_commands(name))


def _made_by_commands(part):
    hidden = part.startswith(".") and part not in (".ci", ".gitignore")
    return hidden or part in NOT_OURS or part.endswith(".egg-info")


def test_no_file_speaks_of_one_machine():
    faults = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in repository()
        for word in WORKPLACE
        if word.encode() in path.read_bytes()
    ]
    assert faults == []


def test_no_file_has_two_versions_of_a_line():
    """What a merge leaves behind where it was not solved."""
    mark = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert [str(path.relative_to(ROOT)) for path in repository() if mark.search(path.read_bytes())] == []


def test_what_has_elapsed_is_not_told_by_floats():
    """tests/world/elapsed.py: a bound that is met exactly is missed by the last bit of a sum in some runs"""
    there = {ROOT / "tests/world/elapsed.py", ROOT / "tests/fakes/clock.py", ROOT / "tests/test_style.py"}
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path not in there]
    assert [path.name for path in tests if "current_time() -" in path.read_text()] == []


def test_the_search_reaches_every_kind_of_file():
    names = {str(path.relative_to(ROOT)) for path in repository()}
    assert {"Makefile", ".ci/run", "docs/rules.toml", "tests/test_style.py", "pyproject.toml"} <= names


def test_a_property_is_tried_as_often_as_a_run_says():
    """tests/examples.py: runs that repeat others ask for fewer, `make faults` for more."""
    there = {ROOT / "tests/examples.py", ROOT / "tests/conftest.py"}
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path not in there]
    assert [path.name for path in tests if re.search(r"^@settings\(", path.read_text(), re.MULTILINE)] == []

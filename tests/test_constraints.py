"""What is installed to work on this: versions and hashes that stand here, of all that is asked for."""

import re
import sys
import tomllib

import pytest

from tests import boundaries
from tests.citations import ROOT
from tests.source import PACKAGES, modules

LISTS = sorted((ROOT / "tests/constraints").glob("*.txt"))
ROOMS = ("snapshot", "wire", "agent", "coordinator", "holdfast")
ASKED = {
    "newest.txt": ("coordinator", "fast", "test", "lint"),
    "trixie.txt": ("coordinator", "fast"),
    "bookworm.txt": (),  # which has no orjson
}


def pins(text):
    """The lines of each version, its hashes among them."""
    return re.findall(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_each_version_has_the_hashes_of_its_files(path):
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert sum(1 + hashes.count("--hash") for _, _, hashes in pins(path.read_text())) == len(lines) > 0


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.name)
def test_all_that_the_project_asks_for_is_on_the_list(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    for extra in ASKED[path.name]:
        asked += project["optional-dependencies"][extra]
    listed = {normal(name) for name, _, _ in pins(path.read_text())}
    assert {normal(re.match(r"[\w.-]+", each)[0]) for each in asked} - listed == set()


def test_what_is_used_where_there_is_is_done_without_on_debian_12():
    """So that both ways are run."""
    fast = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["fast"]
    listed = {normal(name) for name, _, _ in pins((ROOT / "tests/constraints/bookworm.txt").read_text())}
    assert {normal(re.match(r"[\w.-]+", each)[0]) for each in fast} & listed == set() != set(fast)


def test_nothing_is_installed_without_its_hash():
    """But what `make fuzz`, `make bench` and `make audit` take for themselves, which nothing else depends on."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^PINNED = install .*--require-hashes --no-deps -r$", makefile, re.MULTILINE)
    assert re.search(r"^OURS +:= install .*--no-deps --no-build-isolation -e \.$", makefile, re.MULTILINE)
    calls = re.findall(r"/pip (\$\(\w+\)|\w+)", makefile)
    assert sorted(calls) == ["$(OURS)"] * 3 + ["$(PINNED)"] * 3 + ["install"] * calls.count("install")
    assert calls.count("install") == 3


def test_what_any_test_takes_up_by_itself_is_taken_up_with_every_version():
    for room in ROOMS:
        paths = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests" / room).glob("test_*.py"))]
        repeated = {name for path in boundaries.chosen(room) for name in boundaries.taken_up(path)}
        assert {name for path in paths for name in boundaries.taken_up(path)} == repeated, room


def test_what_is_named_after_a_module_that_calls_a_library_is_run_again():
    assert "tests/coordinator/test_heads.py" in boundaries.chosen("coordinator")
    assert "tests/wire/test_tls.py" in boundaries.chosen("wire")
    assert "tests/snapshot/test_canonical.py" not in boundaries.chosen("snapshot")
    assert not any("operator" in path for path in boundaries.chosen("holdfast", without="operator"))


def test_both_runs_take_the_rooms_that_have_such_modules():
    makefile = (ROOT / "Makefile").read_text()
    (rooms,) = re.findall(r"^BOUNDARIES := (.*)$", makefile, re.MULTILINE)
    assert {*rooms.split(), "coordinator", "store"} == {*PACKAGES} == {*ROOMS, "store"}
    assert "-m tests.boundaries $(BOUNDARIES) coordinator)" in makefile
    assert "-m tests.boundaries --without operator $(BOUNDARIES))" in makefile
    assert re.search(r"bookworm/bin/python \$\(PYTEST\) -m 'not slow' tests/store \$\$files", makefile)


def test_what_is_slow_lies_where_make_faults_looks():
    """Every other run leaves it out: elsewhere it would be run by none."""
    (folders,) = re.findall(r"\$\(PYTEST\) -m slow (.*) \$\(ARGS\)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    files = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    slow = [name for name, text in files.items() if "pytest.mark.slow" in text and name != "tests/test_constraints.py"]
    assert slow and not [name for name in slow if not name.startswith(tuple(folders.split()))]


def test_the_libraries_of_the_store_are_the_same_on_both_debians():
    """So that its tests run with Debian 12's alone."""
    asked = {name.partition(".")[0] for module in modules("store") for name, _, _ in module.imports}
    libraries = asked - sys.stdlib_module_names - set(PACKAGES)
    assert libraries == {"lmdb", "msgpack"}
    texts = [(ROOT / f"tests/constraints/{name}.txt").read_text() for name in ("bookworm", "trixie")]
    old, new = ({name: version for name, version, _ in pins(text) if name in libraries} for text in texts)
    assert old == new and old.keys() == libraries

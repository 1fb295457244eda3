"""What is installed to work on this: versions and hashes that stand here, of all that is asked for."""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.citations import ROOT
from tests.source import PACKAGES, modules

LISTS = sorted((ROOT / "tests/constraints").glob("*.txt"))
ASKED = {"newest.txt": ("coordinator", "test", "lint"), "trixie.txt": ("coordinator",), "bookworm.txt": ()}


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


def test_nothing_is_installed_without_its_hash():
    """But what `make fuzz`, `make bench` and `make audit` take for themselves, which nothing else depends on."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^PINNED = install .*--require-hashes --no-deps -r$", makefile, re.MULTILINE)
    assert re.search(r"^OURS +:= install .*--no-deps --no-build-isolation -e \.$", makefile, re.MULTILINE)
    calls = re.findall(r"/pip (\$\(\w+\)|\w+)", makefile)
    assert sorted(calls) == ["$(OURS)"] * 3 + ["$(PINNED)"] * 3 + ["install"] * calls.count("install")
    assert calls.count("install") == 3


def test_what_old_libraries_leave_to_the_newest_is_there():
    """A file that has moved would be run with them again, or be forgotten in the list."""
    names = ours_alone()
    assert names
    assert [name for name in names if not (ROOT / name).is_file()] == []


def test_what_is_left_of_the_document_core_calls_no_library():
    """It has one alone: cryptography."""
    names = [name.removesuffix(".py").replace("/", ".") for name in ours_alone() if name.startswith("tests/snapshot/")]
    program = f"import sys, {', '.join(names)}; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (len(names) > 0, done.stdout) == (True, "False\n")
    program = "import sys, tests.snapshot.test_signature; print('cryptography' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_what_is_left_of_the_coordinator_asks_no_database():
    """Each test of stored state runs on one database in `make test`, and on the other in `make trixie`."""
    names = [name for name in ours_alone() if name.startswith("tests/coordinator/")]
    assert [name for name in names if "database" in (ROOT / name).read_text()] == []


def test_the_libraries_of_the_store_are_the_same_on_both_debians():
    """So that its tests run with Debian 12's alone."""
    asked = {name.partition(".")[0] for module in modules("store") for name, _, _ in module.imports}
    libraries = asked - sys.stdlib_module_names - set(PACKAGES)
    assert libraries == {"lmdb", "msgpack"}
    texts = [(ROOT / f"tests/constraints/{name}.txt").read_text() for name in ("bookworm", "trixie")]
    old, new = ({name: version for name, version, _ in pins(text) if name in libraries} for text in texts)
    assert old == new and old.keys() == libraries


def ours_alone():
    command = ["make", "--no-print-directory", "--eval", "names: ; @echo $(OURS_ALONE)", "names"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()

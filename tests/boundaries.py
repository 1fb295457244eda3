"""Which tests are run again with Debian's versions of the libraries: those of the modules that call one.

    python -m tests.boundaries agent wire           the files, for `make bookworm trixie`
    python -m tests.boundaries --without operator holdfast      but those of that name

What changes with a library is what is called in it, so each module that calls one is tried with every version: by the
files that are named after it, and where there is none by the fewest others that take it up. A module that no file
takes up by itself is met through what does: a command through its program, an API through the daemon that serves it.
What we decide ourselves, of what was read and before it is written, is the same code with any version, and `make test`
has shown it. This is read from the source: a new call has its test taken along, and no list is to be kept.

All of a room's tests with each version would be a run of `make test` for each Debian, of which nearly all repeats what
no library has a part in.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import PurePath

from tests.citations import ROOT
from tests.order import LONG
from tests.source import PACKAGES, Module, modules

OURS = {*PACKAGES, "tests", "examples", "benchmarks"}
ALWAYS = (
    "tests/snapshot/test_signature_rsa.py",
    "tests/snapshot/test_verify_vectors.py",  # a whole verification, with the verdicts of others
)


@cache
def libraries(name: str) -> frozenset[str]:
    """That a module of the product calls by itself."""
    found = {each.name.partition(".")[0] for each in _product()[name].imports}
    return frozenset(found - OURS - sys.stdlib_module_names)


@cache
def taken_up(path: str) -> frozenset[str]:
    """The modules that call a library and that a file of tests takes up by itself."""
    module = Module(path, (ROOT / path).read_text())
    found = (_module_of(each.name) for each in module.imports)
    return frozenset(name for name in found if name and libraries(name))


def chosen(room: str, *, without: str = " ") -> list[str]:
    """`without`: files whose names have this word ask for what is not installed."""
    folder = ROOT / "tests" / room
    paths = [path.relative_to(ROOT).as_posix() for path in sorted(folder.glob("test_*.py")) if without not in path.name]
    takes = {path: taken_up(path) for path in paths}
    named = {name.rpartition(".")[2] for name in _product() if name.startswith(f"{room}.") and libraries(name)}
    first = [path for path in paths if path in ALWAYS or PurePath(path).stem.removeprefix("test_") in named]
    return sorted({*first, *_fewest(takes, first)})


def _fewest(takes: Mapping[str, frozenset[str]], first: Iterable[str]) -> list[str]:
    """That take up what `first` leaves: each time the one that has the most of it for its tests, none that takes long
    where another does.
    """
    left = frozenset().union(*takes.values()).difference(*(takes[path] for path in first))
    found: list[str] = []
    while left:
        found.append(max(takes, key=lambda path: len(takes[path] & left) / _tests(path)))
        left -= takes[found[-1]]
    return found


@cache
def _tests(path: str) -> int:
    """What takes long counts for twenty."""
    count = len(re.findall(r"^(?:async )?def test_", (ROOT / path).read_text(), re.MULTILINE)) or 1
    return 20 * count if path in LONG else count


@cache
def _product() -> dict[str, Module]:
    return {module.name: module for module in modules()}


def _module_of(name: str) -> str:
    while name and name not in _product():
        name = name.rpartition(".")[0]
    return name


def main() -> None:
    parser = argparse.ArgumentParser(description="Tests of the modules that call a library")
    parser.add_argument("--without", default=" ", metavar="WORD")
    parser.add_argument("rooms", nargs="+")
    asked = parser.parse_args()
    print(*(path for room in asked.rooms for path in chosen(room, without=asked.without)))


if __name__ == "__main__":
    main()

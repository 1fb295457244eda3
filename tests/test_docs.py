"""The documents name files, symbols and commands that exist."""

import ast
import re
from functools import cache

import pytest

from tests import floors
from tests.citations import ROOT
from tests.source import PACKAGES, modules

PAGES = sorted(path for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))

_PACKAGE = "|".join(PACKAGES)
_FILE = re.compile(rf"`((?:{_PACKAGE}|tests|benchmarks|docs|examples|packaging)/[\w./-]+)`")
_SYMBOL = re.compile(rf"`((?:{_PACKAGE})(?:\.\w+)+)(?:\(.*?\))?`")
_COMMAND = re.compile(r"(?:`|^\s*(?:\$ )?)make ([a-z][\w-]*)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")


def files_named(text):
    return _FILE.findall(text)


def symbols_named(text):
    """`snapshot.verify` and `snapshot.verify.Verified`; a name with .py is a file's."""
    return [name for name in _SYMBOL.findall(text) if not name.endswith((".py", ".toml", ".service", ".socket"))]


def commands_named(text):
    return _COMMAND.findall(text)


@cache
def defined():
    """Modules and what stands at their top level, with the members of classes."""
    names = set(PACKAGES)
    for module in modules():
        names.add(module.name)
        for node in module.tree.body:
            names |= {f"{module.name}.{name}" for name in _top_level(node)}
    return names


def _top_level(node):
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.ClassDef():
            members = [f"{node.name}.{inner}" for part in node.body for inner in _top_level(part)]
            return [node.name, *members]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def targets():
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_names_exists(page):
    text = page.read_text()
    assert [name for name in files_named(text) if not (ROOT / name).exists()] == []
    assert sorted(set(symbols_named(text)) - defined()) == []
    assert sorted(set(commands_named(text)) - targets()) == []
    prose = re.sub(r"`[^`\n]*`", "", text)  # a pattern in code may look like a link
    assert [link for link in _LINK.findall(prose) if not (page.parent / link).exists()] == []


def test_there_are_pages():
    assert {"README.md", "CHANGELOG.md"} <= {page.name for page in PAGES}


def test_the_index_leads_to_every_page():
    linked = set(_LINK.findall((ROOT / "docs/README.md").read_text()))
    there = {path.name for path in (ROOT / "docs").iterdir() if path.suffix in {".md", ".yaml"}}
    assert there - linked - {"README.md"} == set()


def test_no_code_cites_a_page_that_is_not_here():
    there = {path.name for path in PAGES}
    cited = {
        f"{module.path}: {name}"
        for module in modules()
        for name in re.findall(r"(?<![\w./<>{}-])[A-Za-z][\w-]*\.md\b", module.source)
        if name not in there
    }
    assert cited == set()


def test_the_architecture_has_a_sentence_for_each_room():
    page = (ROOT / "ARCHITECTURE.md").read_text().split("## How it flows")[0]
    rooms = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert rooms == list(dict.fromkeys(rooms)) and set(rooms) == set(floors.ROOMS)


def test_what_is_found_in_a_page():
    text = (
        "`snapshot/verify.py`, `snapshot.verify.verify(parts)`, `make test`.\n\n  $ make demo\n  make ci\nTo make tea."
    )
    assert files_named(text) == ["snapshot/verify.py"]
    assert symbols_named(text) == ["snapshot.verify.verify"]
    assert commands_named(text) == ["test", "demo", "ci"]


def test_what_counts_as_defined():
    tree = ast.parse("A = 1\nB: int\nclass C:\n    d: int\n    def e(self): ...\nasync def f(): ...\nimport g")
    assert [name for node in tree.body for name in _top_level(node)] == ["A", "B", "C", "C.d", "C.e", "f"]

"""docs/traceability.md: each section of the four seeds, each rule and each attack -> symbol -> test.

    python -m tests.traceability            says whether the page is what the code says
    python -m tests.traceability --write    writes it anew

Symbols and tests are where the ids are cited (citations.py). What the seeds' sections became is written by hand in
docs/seeds.toml. tests/test_traceability.py holds the page against both.
"""

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests import citations, rules_to_come, trees
from tests.citations import ROOT, Citation
from tests.source import modules

PAGE = ROOT / "docs/traceability.md"
SEEDS = ROOT / "docs/seeds.toml"
SHOWN = 3
NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

HEAD = """\
# Traceability: from what was asked to the code that does it and the test that proves it

Made by `python -m tests.traceability --write`. A test holds this page against the code: a symbol or a test that is
renamed or goes, a rule without a test and a section without a place fail the build.

Rules, attacks and decisions stand with their text in [rules.toml](rules.toml). A symbol stands here because its
docstring or a comment cites the rule; where none does, the modules that its tests are about stand in brackets. Stage 2
rules are to come by their stage; a stage 1 rule without a test stands in [rules-to-come.toml](rules-to-come.toml) with
its reason. At most three symbols and three tests are shown of each; … stands for more.
"""


class Cited(NamedTuple):
    """Where ids are cited: in the order of files and lines."""

    symbols: dict[Citation, list[str]]
    tests: dict[Citation, list[str]]


@cache
def cited() -> Cited:
    symbols, tests = defaultdict(list), defaultdict(list)
    for module in modules():
        for name, each in _named(module.source):
            symbols[each].append(".".join((module.name, name)).rstrip("."))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, each in _named(path.read_text()):
            place = path.relative_to(ROOT).as_posix()
            tests[each].append(f"{place}::{name}" if name else place)
    return Cited(
        {each: _unique(found) for each, found in symbols.items()},
        {each: _unique(found) for each, found in tests.items()},
    )


def page(pages: dict[str, Any], seeds: dict[str, Any]) -> str:
    parts = [HEAD, _summary(pages), *(_seed(number, pages, seeds[number]) for number in seeds)]
    parts.append("## Rules\n")
    parts += [_section(section, pages) for section in pages["sections"]]
    parts += [_attacks("Attacks", pages["threats"]), _attacks("Decisions", pages["decisions"])]
    return "\n".join(part for part in parts if part)


def seeds() -> dict[str, Any]:
    """docs/seeds.toml: by seed and section, `symbols` and `tests`, or `instead`: why there is none."""
    return tomllib.loads(SEEDS.read_text())


def wanted(seed: dict[str, Any]) -> list[str]:
    """The sections, steps and tests of a seed that must have a row (docs/rules.toml)."""
    return [*seed.get("sections", ()), *seed.get("steps", ()), *seed.get("tests", ())]


def exists(symbol: str) -> bool:
    """Whether `snapshot.verify.verify` or `snapshot.verify` is there."""
    return symbol in _defined()


def test_exists(place: str) -> bool:
    """`snapshot/test_verify.py::test_x` or the file alone."""
    file, _, name = place.partition("::")
    path = ROOT / "tests" / file
    return path.exists() and (not name or name in _functions(path))


def _summary(pages: dict[str, Any]) -> str:
    tests = cited().tests
    lines = []
    for stage in (1, 2):
        idents = [ident for ident, rule in pages["rules"].items() if rule["stage"] == stage]
        done = sum(Citation("rules", ident) in tests for ident in idents)
        lines.append(f"- rules of stage {stage}: {done} of {len(idents)} have a test")
    for title, table in (("attacks", pages["threats"]), ("decisions", pages["decisions"])):
        done = sum(Citation("threats", ident) in tests for ident in table)
        lines.append(f"- {title}: {done} of {len(table)} have a test")
    return "\n".join(lines) + "\n"


def _seed(number: str, pages: dict[str, Any], rows: dict[str, Any]) -> str:
    lines = [_seed_row(name, rows[name]) for name in wanted(pages["seeds"][number])]
    title = pages["seeds"][number]["title"]
    return f"## Seed {number}: {title}\n\n| section | stands in | proved by |\n|---|---|---|\n" + "".join(lines)


def _seed_row(name: str, row: dict[str, Any]) -> str:
    if "instead" in row:
        return f"| {name} | {row['instead']} | |\n"
    note = f"{row['note']} " if "note" in row else ""
    return f"| {name} | {note}{_code(row['symbols'])} | {_code(f'tests/{place}' for place in row['tests'])} |\n"


def _section(section: str, pages: dict[str, Any]) -> str:
    idents = [ident for ident, rule in pages["rules"].items() if rule["section"] == section]
    if not idents:
        return ""
    rows = "".join(_rule_row(ident, pages["rules"][ident]) for ident in idents)
    head = f"### {section} {pages['sections'][section]}\n\n"
    return f"{head}| rule | stage | stands in | proved by |\n|---|---|---|---|\n{rows}"


def _rule_row(ident: str, rule: dict[str, Any]) -> str:
    key = Citation("rules", ident)
    tests = cited().tests.get(key, [])
    proof = _few(tests) if tests else f"*to come*: {rules_to_come.listed().get(ident, 'stage 2')}"
    return f"| {ident} | {rule['stage']} | {_stands(key)} | {proof} |\n"


def _attacks(title: str, table: dict[str, Any]) -> str:
    rows = []
    for ident in table:
        key = Citation("threats", ident)
        rows.append(f"| {ident} | {_stands(key)} | {_few(cited().tests.get(key, [])) or '*to come*'} |\n")
    return f"## {title}\n\n| id | stands in | proved by |\n|---|---|---|\n" + "".join(rows)


def _stands(key: Citation) -> str:
    if found := cited().symbols.get(key):
        return _few(found)
    mirrored = sorted({name for test in cited().tests.get(key, []) if (name := _mirror(test))})
    return f"({_few(mirrored)})" if mirrored else ""


@cache
def _mirror(test: str) -> str:
    """The module that a test's file is about: the longest whose name is in the file's; "" for journeys."""
    path = Path(test.partition("::")[0]).relative_to("tests")
    fitting = [f"{path.parts[0]}.{name}" for name in _names_in(path.parts[0]) if f"_{name}_" in f"_{path.stem}_"]
    return max(fitting, key=len, default="")


@cache
def _names_in(package: str) -> frozenset[str]:
    """What stands right in it."""
    inside = (name.removeprefix(f"{package}.") for name in _defined() if name.startswith(f"{package}."))
    return frozenset(name for name in inside if "." not in name)


def _named(source: str) -> Iterator[tuple[str, Citation]]:
    """Each citation with the name of the definition that it stands in or above, "" for the module."""
    places = list(citations.places(source))
    body = trees.parsed(source).body if places else []
    return ((_name_at(body, line), each) for line, each in places)


def _name_at(body: Iterable[ast.stmt], line: int) -> str:
    for node in body:
        if not _first_line(node) <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, NAMES):
            inside = _name_at(node.body, line) if isinstance(node, ast.ClassDef) else ""
            return f"{node.name}.{inside}" if inside else node.name
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        return next((target.id for target in targets if isinstance(target, ast.Name)), "")
    return ""


def _first_line(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


@cache
def _defined() -> frozenset[str]:
    return frozenset(name for module in modules() for name in (module.name, *_members(module.name, module.tree.body)))


def _members(prefix: str, body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        name = _name_at([node], node.lineno)
        if name:
            yield f"{prefix}.{name}"
        if isinstance(node, ast.ClassDef):
            yield from _members(f"{prefix}.{node.name}", node.body)


@cache
def _functions(path: Path) -> frozenset[str]:
    return frozenset(node.name for node in trees.walk(trees.parsed(path.read_text())) if isinstance(node, NAMES))


def _few(names: list[str]) -> str:
    """The first of them; not how many, so that one more proof of a rule leaves the page as it is."""
    return _code(names[:SHOWN]) + (" …" if len(names) > SHOWN else "")


def _code(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def _unique(names: list[str]) -> list[str]:
    return list(dict.fromkeys(names))


def main() -> int:
    text = page(citations.registry(), seeds())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    return 0 if PAGE.exists() and PAGE.read_text() == text else 1


if __name__ == "__main__":
    sys.exit(main())

"""Which rules a file says that it proves or obeys.

A citation is `rules S31, S87`, `rules S55a..f` or `threats C04` in a docstring or a comment. Strings
do not count, so a test's data may look like a citation without being one.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests import trees

ROOT = Path(__file__).resolve().parent.parent

_ID = r"(?:H-000-\d+|D-\d+|[A-Z]\d+[a-z]?)(?!\w)"
_ITEM = rf"{_ID}(?:\s*(?:-|\.\.)\s*(?:{_ID}|[a-z]\b|\d+\b))?"
_BETWEEN = r"(?:\s*,\s*(?:and\s+)?|\s+and\s+)"
_CITATION = re.compile(rf"\b([Rr]ule|[Tt]hreat)s?\s+({_ITEM}(?:{_BETWEEN}{_ITEM})*)")
# A source without has no citation, and none in a comment: most need not be read.
_MAYBE = re.compile(r"\b(?:[Rr]ule|[Tt]hreat)s?\b")
_MAYBE_IN_COMMENT = re.compile(rf"#.*{_MAYBE.pattern}")


class Citation(NamedTuple):
    page: str
    """`rules` or `threats`."""
    ident: str


def registry() -> dict[str, Any]:
    """docs/rules.toml."""
    return tomllib.loads((ROOT / "docs/rules.toml").read_text())


def known(pages: dict[str, Any]) -> set[Citation]:
    """Everything that may be cited."""
    rules = {Citation("rules", ident) for ident in pages["rules"]}
    return rules | {Citation("threats", ident) for ident in (*pages["threats"], *pages["decisions"])}


def proved() -> set[Citation]:
    """What the test modules cite. Fakes and fixtures prove nothing by themselves."""
    return {cited for path in (ROOT / "tests").rglob("test_*.py") for cited in in_source(path.read_text())}


@cache
def in_source(source: str) -> frozenset[Citation]:
    """The citations in the docstrings and comments of a module."""
    return frozenset(cited for _, cited in places(source))


def places(source: str) -> Iterator[tuple[int, Citation]]:
    """Each citation with the line of what it speaks of: of the definition, or of the statement below a comment."""
    return iter(_places(source))


@cache
def _places(source: str) -> tuple[tuple[int, Citation], ...]:
    texts = [*_docstrings(source)] if _MAYBE.search(source) else []
    texts += _comments(source) if _MAYBE_IN_COMMENT.search(source) else []
    return tuple((line, cited) for line, text in texts for cited in in_text(text))


def in_text(text: str) -> Iterator[Citation]:
    """The citations in running text."""
    for match in _CITATION.finditer(text):
        page = match[1].lower() + "s"
        for item in re.finditer(_ITEM, match[2]):
            yield from (Citation(page, ident) for ident in _expand(item[0]))


def _expand(item: str) -> list[str]:
    """`S55a..f` and `S41-S52` by their members; anything else is one id."""
    if spread := re.fullmatch(r"([A-Z]\d+)([a-z])\s*(?:-|\.\.)\s*(?:\1)?([a-z])", item):
        return [spread[1] + chr(letter) for letter in range(ord(spread[2]), ord(spread[3]) + 1)]
    if spread := re.fullmatch(r"([A-Z])(\d+)\s*(?:-|\.\.)\s*(?:\1)?(\d+)", item):
        return [f"{spread[1]}{number}" for number in range(int(spread[2]), int(spread[3]) + 1)]
    return re.findall(_ID, item)


def _docstrings(source: str) -> Iterator[tuple[int, str]]:
    tree = trees.parsed(source)
    yield 0, ast.get_docstring(tree) or ""
    for node in trees.statements(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, ast.get_docstring(node) or ""


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Neighbouring comment lines as one text, since a list of ids may run over a line's end."""
    text, last, own = "", 0, False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1:
            yield last + own, text
            text, own = "", not token.line[: token.start[1]].strip()
        text, last = f"{text} {token.string.lstrip('#').strip()}", token.start[0]
    yield last + own, text

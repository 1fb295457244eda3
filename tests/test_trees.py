"""The short way through a tree leaves nothing out (trees.py)."""

import ast

from tests import trees
from tests.citations import ROOT

MARKS = ast.expr_context | ast.operator | ast.boolop | ast.unaryop | ast.cmpop
EVERYTHING = """
import a.b as c
from . import d
class E(f, metaclass=g):
    h: int = 1
async def i(j, /, k=1, *l, m: n = 2, **o) -> p:
    async with q as r, s:
        await t
    async for u in v:
        yield -w
    return [x async for x in y if z and not x], {**a, 1: 2}, {3}, f"{a!r:>{b}}", lambda c: d[e:f, ...]
try:
    match g:
        case [1, *h] | {"i": j, **k} if l:
            m @= n
        case O(p, q=None) as r:
            del s.t
        case _:
            global u
except* (V, W) as x:
    raise y from z
else:
    assert (a := b) < c <= d, e
finally:
    while f if g else h:
        break
"""


def test_it_finds_what_a_walk_finds():
    sources = [EVERYTHING, *(path.read_text() for path in sorted((ROOT / "snapshot").glob("*.py")))]
    for source in sources:
        whole = ast.parse(source)
        assert trees.walk(whole) == [node for node in ast.walk(whole) if not isinstance(node, MARKS)]


def test_a_source_is_parsed_once():
    source = "a = 1  # as it stands\n"
    assert trees.parsed(source) is trees.parsed(str(source.encode(), "utf-8"))


def test_statements_are_found_wherever_they_stand():
    whole = ast.parse(EVERYTHING)
    blocks = ast.stmt | ast.excepthandler | ast.match_case
    found = trees.statements(whole)
    assert set(found) == {node for node in ast.walk(whole) if isinstance(node, blocks)} and len(found) == len(
        set(found)
    )

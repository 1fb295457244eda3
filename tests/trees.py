"""Syntax trees of sources: each is made once in a process, and gone through quickly.

The house's own rules read all of the source, one after the other in one process (order.py). To read it once for each of
them was a third of what they took, and `ast.walk`, which is written for any tree and looks at each field by name,
another third.
"""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Words, numbers, and marks that are the same object wherever they stand: nothing is below them.
_LEAVES = frozenset(
    ("arg", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "op", "ops", "type_comment")
)

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")


@contextmanager
def uncollected() -> Iterator[None]:
    """Trees hold no circles, and a look through those of the whole source takes longer than to read it: what is made
    meanwhile is not looked through, now or later.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@cache
def parsed(source: str) -> ast.Module:
    """For who changes nothing of it."""
    with uncollected():
        return ast.parse(source)


def walk(top: ast.AST) -> list[ast.AST]:
    """What `ast.walk` gives, in its order, without operators and the marks of loads and stores."""
    found = [top]
    for node in found:
        for name in _fields(type(node)):
            value = getattr(node, name, None)
            if isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def statements(tree: ast.Module) -> list[ast.AST]:
    """Those of a module, of all that is defined in it, and of their branches: most of a tree is expressions."""
    found: list[ast.AST] = [*tree.body]
    for node in found:
        for name in _BLOCKS:
            found += getattr(node, name, ())
    return found


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in _LEAVES)

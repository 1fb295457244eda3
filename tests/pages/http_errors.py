"""Every `HttpError(status, "code", ...)` in the source, read by ast."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tests.source import Module, modules


class HttpCode(NamedTuple):
    status: int
    code: str


def codes() -> list[HttpCode]:
    """Of all packages, by status and code."""
    found = {code for module in modules() for code in _of(module)}
    return sorted(found)


def _of(module: Module) -> Iterator[HttpCode]:
    """Codes that stand there, or are a constant of the module; others are those of an enumeration."""
    named = {
        target.id: node.value.value
        for node in module.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name(id="HttpError"), args=[ast.Constant(value=int(status)), code, *_]):
                word = named.get(code.id) if isinstance(code, ast.Name) else getattr(code, "value", None)
                if isinstance(word, str):
                    yield HttpCode(status, word)

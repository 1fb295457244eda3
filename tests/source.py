"""The repository's own source as data: its modules, what they import, which outside names they use.

Read by ast and never imported, so that a test of the floors cannot be fooled by what happens to be loaded.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from tests import trees
from tests.citations import ROOT

PACKAGES = ("snapshot", "wire", "store", "agent", "coordinator", "holdfast")

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Import(NamedTuple):
    name: str
    """Dotted and absolute: `snapshot.verify`, or `snapshot.verify.Verified` when a name is taken from it."""
    line: int
    lazy: bool
    """Inside a function, so not done when the module is loaded."""


class Use(NamedTuple):
    name: str
    """Dotted, through the module's imports: `datetime.datetime.now`; a builtin by its bare name."""
    line: int


@dataclass(frozen=True)
class Module:
    path: str
    """Relative to the root: `snapshot/verify.py`."""
    source: str

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> str:
        return self.path.split("/")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return trees.parsed(self.source)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Each once, from the top down: to walk a tree takes longer than most that is asked of its nodes."""
        with trees.uncollected():
            return trees.walk(self.tree)

    @cached_property
    def imports(self) -> list[Import]:
        lazy = (
            {id(node) for function in self.functions for node in trees.walk(function)}
            if self._imports_inside
            else set()
        )
        return [Import(name, node.lineno, id(node) in lazy) for node in self.nodes for name in self._imported(node)]

    @property
    def _imports_inside(self) -> bool:
        """Of a function, a class or a branch: whether it is lazy is to be looked at."""
        return any(isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset for node in self.nodes)

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    @cached_property
    def uses(self) -> list[Use]:
        """Each mention of a name, called or not: a function passed on is used as much as one called."""
        names = [node for node in self.nodes if isinstance(node, ast.Name | ast.Attribute)]
        return [Use(dotted, node.lineno) for node in names if (dotted := self.dotted(node))]

    def dotted(self, node: ast.expr) -> str:
        """The dotted name of an expression; empty if it does not begin with a name."""
        match node:
            case ast.Name(id=name):
                return self._aliases.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                return f"{base}.{attribute}" if (base := self.dotted(value)) else ""
        return ""

    @cached_property
    def _aliases(self) -> dict[str, str]:
        aliases = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
            elif isinstance(node, ast.ImportFrom):
                base = self._base(node)
                aliases |= {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
        return aliases

    def _imported(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{self._base(node)}.{alias.name}" for alias in node.names)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parents = Path(self.path).parts[: -node.level]
        return ".".join((*parents, *((node.module,) if node.module else ())))


def modules(*packages: str) -> list[Module]:
    """Every module of these packages, or of all."""
    return [module for package in packages or PACKAGES for module in _of_package(package)]


@cache
def _of_package(package: str) -> tuple[Module, ...]:
    """Read and parsed once a run: no test changes the source."""
    paths = sorted((ROOT / package).rglob("*.py"))
    return tuple(Module(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths)


def within(name: str, banned: str) -> bool:
    """Whether a dotted name is the banned one or lies inside it."""
    return name == banned or name.startswith(banned + ".")

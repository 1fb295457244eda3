"""How the product reads, in numbers: `python -m tests.measures`, to be compared with an earlier run.

Nothing here fails. Where a number became a rule of the house, a test holds it (`tests/test_style.py`).
"""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.source import PACKAGES, Function, Module, modules
from tests.words import is_named_by_participle


def prose_lines(module: Module) -> int:
    """Lines of docstrings, of strings that describe a name, and of comments that stand alone."""
    lines = set()
    for node in module.nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#"):
            lines.add(token.start[0])
    return len(lines)


def public_functions(module: Module) -> Iterator[Function]:
    """Of a module, and of its classes; what stands inside a function is its own affair."""
    for node in module.tree.body:
        for inner in node.body if isinstance(node, ast.ClassDef) else (node,):
            if isinstance(inner, Function) and not inner.name.startswith("_"):
                yield inner


def class_names_with_several_meanings() -> list[str]:
    places = Counter(
        node.name
        for module in modules()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return [name for name, count in places.items() if count > 1]


def longest_import_chain() -> list[str]:
    """Of modules of the product, each importing the next, lazily too; there is no circle (`tests/test_floors.py`)."""
    names = {module.name: module for module in modules()}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        below = {one if one in names else one.rpartition(".")[0] for one, _, _ in names[name].imports}
        return (name, *max((chain(other) for other in below & names.keys()), key=len, default=()))

    return list(max((chain(name) for name in names), key=len))


def main() -> None:
    for package in (*PACKAGES, ""):
        chosen = modules(package) if package else modules()
        lines = sum(len(module.source.splitlines()) for module in chosen)
        prose = sum(prose_lines(module) for module in chosen)
        public = [function for module in chosen for function in public_functions(module)]
        described = sum(ast.get_docstring(function) is not None for function in public)
        functions = [function for module in chosen for function in module.functions]
        participles = sum(is_named_by_participle(function.name) for function in functions)
        print(
            f"{package or 'all':12} {lines:6} lines, {prose / lines:5.1%} prose; "
            f"{described / len(public):4.0%} of {len(public)} public functions described; "
            f"{participles} of {len(functions)} functions named by a participle ({participles / len(functions):.1%})"
        )
    print(f"public class names with several meanings: {len(class_names_with_several_meanings())}")
    chain = longest_import_chain()
    print(f"longest import chain: {len(chain)} modules: {' > '.join(chain)}")


if __name__ == "__main__":
    main()

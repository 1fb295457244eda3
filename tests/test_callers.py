"""What the product offers itself is used by the product: a test of a function that nobody calls proves nothing.

By name, so it may miss what shares its name with something else; it never complains of what is called.
"""

import ast
from collections import Counter
from collections.abc import Iterator

from tests.source import PACKAGES, Module, modules

ONLY_OTHERS_CALL = {
    "coordinator.keys.signer.key_record": "what stands in a trust bundle, for worlds that tests and benchmarks make",
    "coordinator.declared.views.all_sections": "all that a member is given, for properties that tests hold",
    "holdfast.node.command.list_commands": "click calls it",
    "holdfast.ctl.operator.list_commands": "click calls it",
    "wire.tls.wait_settled": "what a test waits for that takes a pin away",
}
"""Public functions without a caller in the product, and why each is there all the same."""


def offered(module: Module) -> Iterator[str]:
    """Its public functions, methods and classes; commands, which are called by their decorator, aside."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if not any(".command" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield node.name


def used(module: Module) -> Iterator[str]:
    """Names that are read, attributes, and words of short strings: forward references, places of lazy imports."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            yield from node.value.replace(":", ".").replace("[", ".").replace("]", ".").split(".")


def uncalled() -> set[str]:
    product = [module for package in PACKAGES for module in modules(package)]
    names = Counter(name for module in product for name in used(module))
    return {f"{module.name}.{name}" for module in product for name in offered(module) if not names[name]}


def test_every_public_function_has_a_caller_in_the_product():
    """rules P26: else a rule may be proved by code that never runs"""
    assert uncalled() - ONLY_OTHERS_CALL.keys() == set()


def test_no_exemption_is_idle():
    assert ONLY_OTHERS_CALL.keys() - uncalled() == set()

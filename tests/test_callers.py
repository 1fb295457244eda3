"""What the product offers itself is used by the product: a test of a function that nobody calls proves nothing.

A function or class of a module is looked for by its full name, through imports; a method by its name alone, so one may
be missed that shares its name with something else.
"""

import ast
from collections.abc import Iterator
from functools import cache

from tests.source import Module, modules

ONLY_OTHERS_CALL = {
    "store.fsck.check.run": "a process of its own calls it, by its name",
    "store.fsck.walk.run": "a process of its own calls it, by its name",
    "coordinator.publishing.declarations.apply": "an apply in one call, for worlds that tests and benchmarks make",
    "coordinator.database.documents.head": "the head that is out for a node, for tests that read it",
    "coordinator.keys.signer.recovery": "a recovery without a ceremony, for worlds that tests make",
    "coordinator.keys.signer.key_record": "what stands in a trust bundle, for worlds that tests and benchmarks make",
    "coordinator.configs.json_schema.faults_of_all": "a process of its own does (coordinator/runtime/schema_child.py)",
    "coordinator.declared.views.all_sections": "all that a member is given, for properties that tests hold",
    "coordinator.command.main": "the program",
    "coordinator.base.among.load_dialect_impl": "SQLAlchemy calls it",
    "coordinator.base.among.process_bind_param": "SQLAlchemy calls it",
    "holdfast.terminal.commands.format_commands": "click calls it",
    "holdfast.client.watch_files": "the client library is for programs of others",
    "holdfast.client.watch_routes": "the client library is for programs of others",
    "holdfast.client.watch_service": "the client library is for programs of others",
    "holdfast.testing.Agent": "for the tests of others",
    "wire.tls.wait_settled": "what a test waits for that takes a pin away",
}
"""Public functions without a caller in the product, and why each is there all the same."""


def is_offered(node: ast.AST) -> bool:
    """A public function, method or class; commands, which are called by their decorator, aside."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
        return False
    return not any(".command" in ast.unparse(decorator) for decorator in node.decorator_list)


def offered(module: Module) -> Iterator[str]:
    """What others may import from it, by its full name; alembic calls migrations."""
    if ".migrations." in module.name:
        return
    yield from (f"{module.name}.{node.name}" for node in module.tree.body if is_offered(node))


def methods(module: Module) -> Iterator[str]:
    top = set(map(id, module.tree.body))
    inner = (node for node in module.nodes if id(node) not in top and is_offered(node))
    yield from (node.name for node in inner)


def mentioned(module: Module) -> Iterator[str]:
    """Full names of what it imports and of what it mentions, its own as well; places of lazy imports: `a.b:name`."""
    yield from (each.name for each in module.imports)
    for use in module.uses:
        yield use.name
        yield f"{module.name}.{use.name}"
    for text in strings(module):
        yield text.replace(":", ".")


def used(module: Module) -> Iterator[str]:
    """Names that are read, attributes, and words of short strings, such as forward references."""
    for node in module.nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
    for text in strings(module):
        yield from text.replace(":", ".").replace("[", ".").replace("]", ".").split(".")


def strings(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 80:
            yield node.value


@cache
def uncalled() -> frozenset[str]:
    product = modules()
    full = {name for module in product for name in mentioned(module)}
    names = {name for module in product for name in used(module)}
    found = frozenset(name for module in product for name in offered(module) if name not in full)
    return found | {f"{module.name}.{name}" for module in product for name in methods(module) if name not in names}


def test_every_public_function_has_a_caller_in_the_product():
    """rules P26: else a rule may be proved by code that never runs"""
    assert uncalled() - ONLY_OTHERS_CALL.keys() == set()


def test_no_exemption_is_idle():
    assert ONLY_OTHERS_CALL.keys() - uncalled() == set()

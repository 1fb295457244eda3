"""The checks of test_floors.py: each takes modules and returns what is wrong, one line a fault.

They are functions of source text, so that the tests can show each of them a fault that it must find.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping

from tests import trees
from tests.source import PACKAGES, Function, Module, within

ROOMS: dict[str, tuple[str, ...]] = {
    "snapshot": (),
    "wire.http1": (),
    "wire": ("snapshot", "wire.http1"),
    "wire.local": ("snapshot", "wire"),
    "wire.peers": ("wire",),
    "wire.operators": ("snapshot", "wire"),
    "store.base": ("snapshot",),
    "store.fsck": ("snapshot", "store.base"),
    "store": ("snapshot", "store.base", "store.fsck"),
    "agent.base": ("snapshot", "store.base", "store"),
    "agent.config": ("snapshot", "wire"),
    "agent.access": ("snapshot", "wire", "wire.local", "agent.config"),
    "agent.files": ("snapshot", "wire", "agent.access"),
    "agent.state": (
        "snapshot",
        "wire",
        "wire.local",
        "store.base",
        "store",
        "agent.base",
        "agent.config",
        "agent.files",
    ),
    "agent.services": (
        "snapshot",
        "wire",
        "wire.local",
        "store.base",
        "agent.base",
        "agent.config",
        "agent.files",
        "agent.state",
    ),
    "agent.sources": ("snapshot", "wire", "wire.local", "store.base", "agent.config", "agent.state"),
    "agent.relay": (
        *("snapshot", "wire", "store.base", "store"),
        *("agent.base", "agent.state", "agent.sources"),
    ),
    "agent.update": (
        *("snapshot", "wire", "wire.local", "wire.peers", "store.base", "store"),
        *("agent.base", "agent.files", "agent.state", "agent.services", "agent.sources"),
    ),
    "agent.enrolment": (
        *("snapshot", "wire", "store.base", "store"),
        *("agent.base", "agent.config", "agent.state", "agent.sources", "agent.update"),
    ),
    "agent.peers": (
        *("snapshot", "wire", "wire.peers", "store.base", "store"),
        *("agent.state", "agent.sources", "agent.relay", "agent.enrolment"),
    ),
    "agent.storage": (
        *("snapshot", "wire", "wire.local", "wire.peers", "store.base", "store"),
        *("agent.base", "agent.state", "agent.relay", "agent.enrolment"),
    ),
    "agent.local": (
        *("snapshot", "wire", "wire.local", "store.base"),
        *("agent.base", "agent.config", "agent.access", "agent.files", "agent.state", "agent.services"),
        *("agent.sources", "agent.relay", "agent.update"),
    ),
    "agent.development": (
        *("snapshot", "wire", "wire.local", "store.base", "store"),
        *("agent.base", "agent.access", "agent.files", "agent.state", "agent.services", "agent.local"),
    ),
    "agent.report": ("snapshot", "wire", "store.base", "agent.base", "agent.state", "agent.services", "agent.sources"),
    "agent": (
        *("snapshot", "wire", "wire.local", "store.base", "store"),
        *("agent.base", "agent.config", "agent.access", "agent.state", "agent.sources", "agent.relay", "agent.update"),
        *("agent.enrolment", "agent.peers", "agent.storage", "agent.local", "agent.report"),
    ),
    "coordinator.base": ("snapshot", "wire", "wire.operators"),
    "coordinator.declared": ("snapshot", "wire", "wire.operators", "coordinator.base"),
    "coordinator.configs": ("snapshot", "coordinator.base", "coordinator.declared"),
    "coordinator.expected": ("snapshot", "coordinator.base", "coordinator.declared", "coordinator.configs"),
    "coordinator.keys": ("snapshot", "wire", "coordinator.base"),
    "coordinator.servers": ("wire", "coordinator.base"),
    "coordinator.database": (
        "snapshot",
        "wire",
        "wire.operators",
        "coordinator.base",
        "coordinator.declared",
        "coordinator.keys",
        "coordinator.servers",
    ),
    "coordinator.replicas": ("snapshot", "coordinator.base", "coordinator.keys", "coordinator.database"),
    "coordinator.changes": (
        *("snapshot", "wire.operators"),
        *("coordinator.base", "coordinator.declared", "coordinator.database"),
    ),
    "coordinator.reports": (
        *("snapshot", "wire", "wire.operators", "coordinator.base", "coordinator.database"),
        "coordinator.changes",
    ),
    "coordinator.publishing": (
        *("snapshot", "wire"),
        *("coordinator.base", "coordinator.declared", "coordinator.configs", "coordinator.expected"),
        *("coordinator.keys", "coordinator.database", "coordinator.changes", "coordinator.reports"),
        "coordinator.replicas",
    ),
    "coordinator.storage": (
        *("snapshot", "wire", "wire.peers", "wire.operators"),
        *("coordinator.base", "coordinator.declared", "coordinator.keys", "coordinator.database"),
    ),
    "coordinator.rollout": (
        *("snapshot", "wire", "wire.operators"),
        *("coordinator.base", "coordinator.declared", "coordinator.database", "coordinator.changes"),
        "coordinator.publishing",
    ),
    "coordinator.trust": (
        *("snapshot", "wire", "wire.operators"),
        *("coordinator.base", "coordinator.keys", "coordinator.database", "coordinator.replicas"),
        *("coordinator.reports", "coordinator.publishing", "coordinator.rollout"),
    ),
    "coordinator.membership": (
        *("snapshot", "wire", "wire.operators"),
        *("coordinator.base", "coordinator.declared", "coordinator.keys", "coordinator.database"),
        *("coordinator.changes", "coordinator.reports", "coordinator.publishing", "coordinator.rollout"),
        "coordinator.trust",
    ),
    "coordinator.fleet": (
        *("snapshot", "wire", "wire.operators"),
        *("coordinator.base", "coordinator.declared", "coordinator.database", "coordinator.reports"),
        *("coordinator.changes", "coordinator.publishing", "coordinator.trust", "coordinator.rollout"),
    ),
    "coordinator.setup": (
        *("snapshot", "wire"),
        *("coordinator.base", "coordinator.keys", "coordinator.database", "coordinator.trust"),
        *("coordinator.membership", "coordinator.replicas", "coordinator.servers"),
    ),
    "coordinator.runtime": (
        *("snapshot", "wire", "wire.operators"),
        *(
            "coordinator.base",
            "coordinator.declared",
            "coordinator.configs",
            "coordinator.keys",
            "coordinator.database",
        ),
        *("coordinator.replicas", "coordinator.changes", "coordinator.reports", "coordinator.publishing"),
        "coordinator.trust",
        *("coordinator.membership", "coordinator.rollout", "coordinator.fleet", "coordinator.storage"),
    ),
    "coordinator.api": (
        *("snapshot", "wire", "wire.operators"),
        *(
            "coordinator.base",
            "coordinator.declared",
            "coordinator.configs",
            "coordinator.keys",
            "coordinator.database",
        ),
        *("coordinator.changes", "coordinator.reports", "coordinator.publishing", "coordinator.trust"),
        *(
            "coordinator.membership",
            "coordinator.rollout",
            "coordinator.fleet",
            "coordinator.runtime",
            "coordinator.storage",
        ),
    ),
    "coordinator": (
        "wire",
        *("coordinator.base", "coordinator.declared", "coordinator.configs", "coordinator.keys"),
        *("coordinator.database", "coordinator.changes", "coordinator.reports", "coordinator.replicas"),
        *("coordinator.publishing", "coordinator.rollout", "coordinator.membership", "coordinator.setup"),
        *("coordinator.storage", "coordinator.runtime", "coordinator.api"),
    ),
    "holdfast": (),
    "holdfast.terminal": ("wire", "wire.local", "holdfast"),
    "holdfast.launch": ("snapshot",),
    "holdfast.node": (
        *("snapshot", "wire", "wire.local", "store.base", "store.fsck", "store"),
        *("agent.base", "agent.config", "agent.state", "agent.enrolment", "agent.development", "agent"),
        *("holdfast", "holdfast.terminal", "holdfast.launch"),
    ),
    "holdfast.ctl": (
        *("snapshot", "wire", "wire.operators"),
        *(
            "coordinator.base",
            "coordinator.declared",
            "coordinator.configs",
            "coordinator.keys",
            "coordinator.database",
        ),
        *("coordinator.expected", "coordinator.trust", "coordinator.fleet", "coordinator.setup"),
        *("coordinator.runtime", "holdfast", "holdfast.terminal"),
    ),
}
"""What each room may import, besides itself: rooms of rows above its own alone. The table is the architecture.

A room is a folder; the modules that lie directly in a package are a room of the package's name: its face and its
table of contents (`store.store`, `agent.run`, `coordinator.run`), or what everybody may use (`holdfast.client`).
"""

WORLD = (
    "trio", "asyncio", "anyio", "threading", "concurrent", "multiprocessing", "subprocess", "signal",
    "os", "io", "sys", "pathlib", "shutil", "tempfile", "glob", "mmap", "fcntl", "resource",
    "socket", "ssl", "select", "selectors", "http", "urllib", "httpx", "h11", "lmdb", "sqlite3",
    "time", "random", "secrets", "uuid", "logging", "warnings",
)  # fmt: skip
"""Modules through which a pure package would reach the world."""

EFFECTS = ("open", "print", "input", "exec", "eval", "breakpoint", "__import__")

CLOCKS = (
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.clock_gettime",
    "time.clock_gettime_ns", "time.localtime", "time.gmtime", "time.ctime", "time.strftime", "time.sleep",
    "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
)  # fmt: skip


def room_of(name: str) -> str:
    """Of a module or of something in it: the longest row that it lies in."""
    rows = [row for row in ROOMS if within(name, row)]
    return max(rows, key=len, default="")


def imports_upwards(modules: Iterable[Module]) -> list[str]:
    """A room that imports another which its row does not name."""
    return [
        f"{module.path}:{line} imports {name}"
        for module in modules
        for name, line, _ in module.imports
        if name.split(".")[0] in PACKAGES and not _may_import(room_of(module.name), name)
    ]


def rows_out_of_order(rooms: Mapping[str, tuple[str, ...]]) -> list[str]:
    """A row that names one below it, or none: without these no circle of rooms can be written down."""
    rows = list(rooms)
    return [
        f"{room} names {below}" for place, room in enumerate(rows) for below in rooms[room] if below not in rows[:place]
    ]


def idle_rights(modules: Iterable[Module]) -> list[str]:
    """What a row allows and nothing does: the table says how it is, not how it might be."""
    used = {(room_of(module.name), room_of(name)) for module in modules for name, _, _ in module.imports}
    return [f"{room} may import {below}" for room, row in ROOMS.items() for below in row if (room, below) not in used]


def imports_of(modules: Iterable[Module], *banned: str) -> list[str]:
    """An import of one of these, at any depth of the module."""
    return [
        f"{module.path}:{line} imports {name}"
        for module in modules
        for name, line, _ in module.imports
        if any(within(name, one) for one in banned)
    ]


def imports_beyond_standard_library(module: Module) -> list[str]:
    return [
        f"{module.path}:{line} imports {name}"
        for name, line, _ in module.imports
        if name.split(".")[0] not in sys.stdlib_module_names
    ]


def uses_of(modules: Iterable[Module], *banned: str) -> list[str]:
    """A mention of one of these names, however it was imported."""
    return sorted(
        f"{module.path}:{line} uses {name}" for module in modules for name, line in module.uses if name in banned
    )


def cycles(modules: Iterable[Module]) -> list[str]:
    """Modules that import one another, lazily or for types only too."""
    names = {module.name: module for module in modules}
    edges = {name: {_target(one.name, names) for one in module.imports} for name, module in names.items()}
    return sorted(name for name in names if name in _reachable(name, edges))


def loaded_at_start(entry: str, modules: Iterable[Module]) -> list[Module]:
    """The module and those of its own package that loading it loads."""
    names = {module.name: module for module in modules}
    eager = {
        name: {_target(one.name, names) for one in module.imports if not one.lazy} for name, module in names.items()
    }
    return [names[name] for name in sorted({entry, *_reachable(entry, eager)} & names.keys())]


def constructions(modules: Iterable[Module], kind: str) -> list[str]:
    """Calls of a class, or of a `__new__` that is given it."""
    return [
        f"{module.path}:{call.lineno} makes a {kind}"
        for module in modules
        for call in module.nodes
        if isinstance(call, ast.Call) and _makes(call, kind, module)
    ]


def signings(modules: Iterable[Module]) -> list[str]:
    """What it takes to sign: a call of `.sign(...)`, a private key's class, a loader of private keys."""
    faults = [
        f"{module.path}:{call.lineno} signs"
        for module in modules
        for call in module.nodes
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "sign"
    ]
    keys = [
        f"{module.path}:{line} imports {name}"
        for module in modules
        for name, line, _ in module.imports
        if name.endswith(("PrivateKey", "_private_key"))
    ]
    uses = [
        f"{module.path}:{line} uses {name}"
        for module in modules
        for name, line in module.uses
        if name.endswith(("PrivateKey.generate", "PrivateKey.from_private_bytes", "_private_key"))
        and within(name, "cryptography")
    ]
    return faults + keys + uses


def tasks_outside_their_function(modules: Iterable[Module]) -> list[str]:
    """A task started in a nursery that the function did not open itself, so which outlives the function."""
    faults = uses_of(modules, "trio.lowlevel.spawn_system_task")
    for module in modules:
        for function in _outermost(module.functions):
            own = set(_nurseries_opened(function, module))
            faults += [
                f"{module.path}:{call.lineno} starts a task in a nursery from elsewhere"
                for call in trees.walk(function)
                if isinstance(call, ast.Call) and _starts_task(call, own, module)
            ]
    return faults


def asynchronous(modules: Iterable[Module]) -> list[str]:
    kinds = ast.AsyncFunctionDef | ast.Await | ast.AsyncWith | ast.AsyncFor
    return [
        f"{module.path}:{node.lineno} is asynchronous"
        for module in modules
        for node in module.nodes
        if isinstance(node, kinds)
    ]


def _may_import(room: str, name: str) -> bool:
    below = room_of(name)
    return below == room or below in ROOMS[room]


def _target(name: str, names: dict[str, Module]) -> str:
    """The module that an import loads: `a.b` for `from a.b import C`, itself for `from a import b`."""
    return name if name in names else name.rpartition(".")[0]


def _reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = list(edges.get(start, ()))
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting.extend(edges.get(name, ()))
    return found


def _makes(call: ast.Call, kind: str, module: Module) -> bool:
    called = module.dotted(call.func).split(".")
    if called[-1] == "__new__":
        return kind in called or any(module.dotted(value).split(".")[-1] == kind for value in call.args)
    return called[-1] == kind


def _nurseries_opened(function: ast.AST, module: Module) -> Iterator[str]:
    for node in trees.walk(function):
        for item in node.items if isinstance(node, ast.AsyncWith) else ():
            call, name = item.context_expr, item.optional_vars
            opens = isinstance(call, ast.Call) and module.dotted(call.func) == "trio.open_nursery"
            if opens and isinstance(name, ast.Name):
                yield name.id


def _starts_task(call: ast.Call, own: set[str], module: Module) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return False
    nursery = module.dotted(call.func.value)
    starts = call.func.attr == "start_soon" or (call.func.attr == "start" and "nursery" in nursery)
    return starts and nursery not in own


def _outermost(functions: list[Function]) -> list[Function]:
    inner = {id(node) for function in functions for node in trees.walk(function) if node is not function}
    return [function for function in functions if id(function) not in inner]

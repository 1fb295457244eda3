"""What is imported and was done once before the product's programs are forked (fork_server.py).

In two steps: what commands and agents need, and what coordinators do. What libraries import late is a third of the work
of each command, and code that has never run is changed by its first run, page by page.
"""

import importlib
import pkgutil
import socket
import tempfile
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress

import click

PACKAGES = ("holdfast", "coordinator", "agent")
ON_A_DATABASE = frozenset({
    *(("backup",), ("drill",), ("export",), ("import",), ("init",), ("restore",)),
    *(("coordinators", "begin-history"), ("coordinators", "pin"), ("coordinators", "prepare")),
})  # fmt: skip
"""Words of `holdfastctl` that begin commands which work on a coordinator's own files, and modules that those load."""
_OF_THOSE = frozenset({"holdfast.ctl.moves", "holdfast.ctl.setup"})
_LATE = (
    "certifi",
    "coordinator.configs.rendered",
    "coordinator.expected.rehearsal",
    "coordinator.keys.derived_authority",
    "coordinator.keys.server_certificate",
    "coordinator.runtime.schema_child",
    "cryptography.hazmat.backends.openssl",
    "encodings.ascii",
    "encodings.idna",
    "encodings.utf_16_be",
    "httpcore",
    "rich._emoji_codes",
    "stringprep",
)
"""What is imported only once something is asked of it."""
_COMMANDS = (("status",), ("nodes", "list", "--json"))
_REFUSAL = b'HTTP/1.1 404 \r\ncontent-length: 46\r\n\r\n{"code":"not_found","message":"not a cluster"}'


def is_of_commands(program: str, arguments: Sequence[str]) -> bool:
    """Whether it needs nothing but the first step. What is not foreseen here imports what it lacks."""
    if program == "holdfastctl":
        return ON_A_DATABASE.isdisjoint({tuple(arguments[:1]), tuple(arguments[:2])})
    return program != "holdfast-coordinator"


def load_for_commands() -> None:
    _import_all("holdfast", "agent", but=_OF_THOSE)
    for name in _LATE:
        _import(name)


def load_for_coordinators() -> None:
    _import_all(*PACKAGES)
    _import("psycopg")
    with suppress(ModuleNotFoundError):
        importlib.import_module("tests.coordinator.warmed").warm()


def warm_commands() -> None:
    """What a command asks, and what it makes of an answer."""
    operator = importlib.import_module("holdfast.ctl.operator")
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/socket"
        listener.bind(path)
        listener.listen()
        answering = threading.Thread(target=_refuse, args=(listener, len(_COMMANDS)))
        answering.start()
        for words in _COMMANDS:
            with suppress(click.ClickException):
                operator.main([*words, "--socket", path], "holdfastctl", standalone_mode=False)
        answering.join()


def _refuse(listener: socket.socket, times: int) -> None:
    listener.settimeout(60)
    while times:
        caller, _ = listener.accept()
        with caller:
            if caller.recv(1 << 16):  # who only looks whether somebody listens says nothing
                caller.sendall(_REFUSAL)
                times -= 1


def _import_all(*packages: str, but: Collection[str] = ()) -> None:
    for package in packages:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if found.name not in but:
                _import(found.name)


def _import(name: str) -> None:
    """Where it can be: beside Debian 12's libraries there are none of the coordinator's, and a library of another
    version may have no such module.
    """
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in PACKAGES:
            raise

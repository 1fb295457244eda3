"""Call a function of ours in a child process with a deadline: what it maps may kill it, and only it."""

import json
import subprocess
import sys
from collections.abc import Sequence

_PROGRAM = """
import importlib, json, sys
module, function, arguments = sys.argv[1:4]
sys.path[:] = sys.argv[4:]
result = getattr(importlib.import_module(module), function)(*json.loads(arguments))
sys.stdout.write(json.JSONEncoder().encode(result))
"""


class ChildDiedError(Exception):
    """The child was killed, failed or did not end; the text says which."""


def call(module: str, function: str, arguments: Sequence[object], deadline_s: float) -> object:
    """What the function returns, through JSON. ChildDiedError if it returns nothing."""
    # The child sees our path and nothing of its own: -I -S as the launchers have it (platform.md 3).
    encoded = json.JSONEncoder().encode(arguments)
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, module, function, encoded, *sys.path]
    try:
        child = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command, capture_output=True, timeout=deadline_s, check=False, env={}, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise ChildDiedError("reading it did not come to an end") from None
    if child.returncode < 0:
        raise ChildDiedError(f"reading it ends with signal {-child.returncode}")
    try:
        return json.loads(child.stdout)
    except ValueError:
        words = child.stderr.decode("utf-8", "replace").strip()[-200:]
        raise ChildDiedError(f"reading it fails: {words}") from None

"""Call a function of ours in a child process with a deadline: what it maps may kill it, and only it.

Three ends are told apart, since a store must not be set aside for what is no damage: it answers; it dies of what it
reads (`ChildDiedError`); it never came to read, or was ended from outside (StoreError probe_failed).
"""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import snapshot
from store.base.errors import StoreError, StoreFault

_READY = b"ready\n"
_OF_ITS_OWN = {-number for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)}
_PROGRAM = """
import importlib, json, sys
module, function, arguments = sys.argv[1:4]
sys.path[:] = sys.argv[4:]
call = getattr(importlib.import_module(module), function)
sys.stdout.write("ready\\n")
sys.stdout.flush()
result = call(*json.loads(arguments))
sys.stdout.write(json.JSONEncoder().encode(result))
"""


class ChildDiedError(Exception):
    """The child died of what it read, or did not end; the text says which."""


def call(module: str, function: str, arguments: Sequence[object], deadline_s: float) -> object:
    """What the function returns, through JSON. ChildDiedError if that killed it, StoreError if something else did."""
    # The child sees our path and nothing of its own: -I -S as the launchers have it (packaging/bin). An installation
    # for development finds our packages by a hook that is no path: so their folders go along.
    folders = [str(Path(__file__).parents[2]), str(Path(snapshot.__path__[0]).parent)]
    path = [folder for folder in dict.fromkeys([*sys.path, *folders]) if folder]
    encoded = json.JSONEncoder().encode(arguments)
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, module, function, encoded, *path]
    try:
        ended = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            command, capture_output=True, timeout=deadline_s, check=False, env={}, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as expired:
        if not (expired.output or b"").startswith(_READY):
            raise StoreError(StoreFault.PROBE_FAILED, f"it could not begin in {deadline_s:.0f} s") from None
        raise ChildDiedError(f"reading it did not come to an end in {deadline_s:.0f} s") from None
    except OSError as error:
        raise StoreError(StoreFault.PROBE_FAILED, f"no child process: {error}") from error
    return _answer(ended)


def _answer(ended: subprocess.CompletedProcess[bytes]) -> object:
    words = ended.stderr.decode("utf-8", "replace").strip()[-200:]
    if ended.returncode in _OF_ITS_OWN:
        raise ChildDiedError(f"reading it ends with {signal.Signals(-ended.returncode).name}")
    if ended.returncode < 0:
        raise StoreError(StoreFault.PROBE_FAILED, f"it was ended by signal {-ended.returncode}")
    if not ended.stdout.startswith(_READY):
        raise StoreError(StoreFault.PROBE_FAILED, f"it could not begin: {words}")
    if ended.returncode != 0:
        raise ChildDiedError(f"reading it fails: {words}")
    found: object = json.loads(ended.stdout.removeprefix(_READY))
    return found

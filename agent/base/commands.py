"""A command of the operator's, run as the agent's account: time limit, bounded output, nothing of it left behind."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import trio

from snapshot.frozen import frozen
from snapshot.reasons import safe_text
from snapshot.secrets import is_forbidden_name, shape_of

OUTPUT_BYTES = 4096
PIECE_BYTES = 65536
LAST_WORDS_S = 0.5
_ASSIGNED = re.compile(r"([A-Za-z0-9_.-]+)\s*[=:]\s*")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@frozen
class CommandOutcome:
    """`exit_code` None: it did not run, or not to its end. `output`: its first bytes, one escaped line."""

    exit_code: int | None
    output: str = ""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        if self.timed_out:
            said = "did not end in time"
        elif self.exit_code is None:
            said = "did not run"
        else:
            said = f"ended by {_name(-self.exit_code)}" if self.exit_code < 0 else f"exit {self.exit_code}"
        return safe_text(f"{said}: {self.output}" if self.output else said)


async def run_command(
    command: Sequence[str], *, timeout_s: float, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> CommandOutcome:
    """Runs it without a shell, in a session of its own, with a small environment; never raises for what it does."""
    environment = {"PATH": PATH, "LANG": "C.UTF-8", **(variables or {})}
    try:
        process = await trio.lowlevel.open_process(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
            env=environment,
        )
    except OSError as error:
        return CommandOutcome(None, safe_text(f"{command[0]}: {error.strerror}"))
    heard = bytearray()
    try:
        with trio.move_on_after(timeout_s) as limit:
            await _follow(process, heard)
    finally:
        with trio.CancelScope(shield=True):
            await _end(process)
    code = None if limit.cancelled_caught else process.returncode
    return CommandOutcome(code, line_of(heard), timed_out=limit.cancelled_caught)


async def _follow(process: trio.Process, heard: bytearray) -> None:
    """Until it has ended; what it says meanwhile is read, so that it never stands still, and cut."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_hear, process, heard)
        await process.wait()
        # Something that it started may hold the pipe open for ever.
        nursery.cancel_scope.deadline = trio.current_time() + LAST_WORDS_S


async def _hear(process: trio.Process, heard: bytearray) -> None:
    assert process.stdout is not None  # noqa: S101 - it was opened with a pipe
    with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while piece := await process.stdout.receive_some(PIECE_BYTES):
            heard += piece[: OUTPUT_BYTES - len(heard)]


async def _end(process: trio.Process) -> None:
    """Whatever is left of it and of what it started goes."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()


def line_of(heard: bytes | bytearray) -> str:
    """One line, without what looks like a secret: it goes into logs, into the status and to the coordinator (D-55)."""
    said = " ".join(heard.decode(errors="replace").split())
    shape = shape_of(said)
    if shape is not None:
        return f"[withheld: it holds a secret, {shape}]"
    return safe_text("".join(_without_values(said)))


def _without_values(said: str) -> Iterator[str]:
    """Of names that forbid one; of other names what follows may be the next name."""
    start = 0
    while (match := _ASSIGNED.search(said, start)) is not None:
        yield said[start : match.end()]
        start = match.end()
        if is_forbidden_name(match[1]):
            yield "[withheld]"
            end = said.find(" ", start)
            start = len(said) if end < 0 else end
    yield said[start:]


def _name(number: int) -> str:
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")

"""What the commands that ask the running agent share: where it is, and what the exit status says.

Exit status: 0 done, 1 the answer is no (or there is a difference), 2 wrong usage, 3 nobody answers, 4 not found,
5 expired, 6 refused, 74 the answer could not be written.
"""

import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, NoReturn

import click

from holdfast.client import FILES, SOCKET, AgentDown, AgentRefused, Client, Expired, HoldfastError, NotFound
from holdfast.terminal.shown import say
from holdfast.terminal.starting import wait_for

# Whether it may be opened, the client finds out, and says what to do.
PLACE = click.Path(path_type=Path, readable=False)

NO, AGENT_DOWN, NOT_FOUND, EXPIRED, REFUSED = 1, 3, 4, 5, 6
NOT_WRITTEN = 74  # sysexits(3): EX_IOERR

EXITS = (
    "\b\nExit status: 0 done, 1 the answer is no, 2 wrong usage, 3 nobody answers,\n"
    "4 not found or not readable, 5 expired, 6 refused,\n"
    "74 the answer could not be written."
)


def asks_the_agent(function: Callable[..., None], *, or_files: bool = False) -> Callable[..., None]:
    """A command's body that is given the client; errors become one line with the remedy, and an exit status.

    `or_files`: where the agent has left files they answer at once in its place, and nobody waits for it.
    """

    @click.option(
        "--socket",
        "socket_path",
        type=PLACE,
        default=SOCKET,
        show_default=True,
        envvar="HOLDFAST_SOCKET",
        help="The agent's socket.",
    )
    @click.option("--files", type=PLACE, default=FILES, show_default=True,
                  envvar="HOLDFAST_FILES", help="The projected files, for when the agent is down.")  # fmt: skip
    @wraps(function)
    def wrapper(socket_path: Path, files: Path, **given: Any) -> None:  # noqa: ANN401 - the command's own options
        try:
            if not (or_files and has_files(files)):
                wait_for(socket_path)
            function(Client(socket_path, files), **given)
        except HoldfastError as error:
            fail(f"{error.code}: {error}" if isinstance(error, AgentRefused) else str(error), _status_of(error))

    return wrapper


asks_the_agent_or_files = partial(asks_the_agent, or_files=True)


def has_files(files: Path) -> bool:
    """Whether this caller may go on with them; where `[access]` leaves them to others, there are none for it."""
    return os.access(files, os.X_OK, effective_ids=True)


def fail(text: str, status: int) -> NoReturn:
    say(f"holdfast: {text}", err=True)
    raise SystemExit(status)


def note(text: str, *more: str) -> None:
    """Beside the answer, which is on standard output; `more` are lines."""
    say(f"holdfast: {text}", *more, err=True)


def _status_of(error: HoldfastError) -> int:
    match error:
        case AgentDown():
            return AGENT_DOWN
        case NotFound():
            return NOT_FOUND
        case Expired():
            return EXPIRED
        case _:
            return REFUSED

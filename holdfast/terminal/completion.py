"""What only the running agent knows, for the shell's completion: the names of scopes and of services.

Whoever presses Tab gets no error and does not wait: where nobody answers soon, nothing is offered.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import click

from holdfast.client import FILES, SOCKET, Client, HoldfastError

SOON_S = 2.0


def scopes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Active scopes that the caller may read; not twice in one command."""
    given = context.params.get(parameter.name or "") or ()
    taken = given if isinstance(given, tuple) else ()
    return [name for name in _ask(context, Client.scopes, incomplete) if name not in taken]


def services(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Those of agent.toml."""
    return _ask(context, lambda client: client.status()["services"], incomplete)


def _ask(context: click.Context, question: Callable[[Client], Iterable[str]], incomplete: str) -> list[str]:
    socket: Path = context.params.get("socket_path") or Path(SOCKET)
    files: Path = context.params.get("files") or Path(FILES)
    try:
        found = question(Client(socket, files, timeout_s=SOON_S))
    except HoldfastError:
        return []
    return sorted(name for name in found if name.startswith(incomplete))

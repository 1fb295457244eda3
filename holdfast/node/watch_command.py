"""`holdfast watch [SCOPE...]`: one line for each change."""

import json

import click

from holdfast.client import AgentDown, Change, Client, NotFound
from holdfast.node.agent_options import EXITS, asks_the_agent_or_files
from holdfast.terminal import completion
from holdfast.terminal.shown import say, shown


@click.command("watch", epilog=EXITS)
@click.argument("scopes", nargs=-1, shell_complete=completion.scopes)
@click.option("--after", type=click.IntRange(0), help="Begin with what has changed since this generation.")
@click.option("--count", type=click.IntRange(1), help="End after so many changes.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a change.")
@asks_the_agent_or_files
def command(client: Client, scopes: tuple[str, ...], after: int | None, count: int | None, as_json: bool) -> None:
    """Print which scopes and sections change, as they do; of all scopes that may be read, without SCOPE.

    It goes on when the agent is restarted, and looks at the projected files while it is down. A SCOPE that is not
    active is not found; to wait until it is, say after which generation (0 will do).
    """
    if after is None:
        _check(client, scopes)
    for number, change in enumerate(client.watch(*scopes, after=after), 1):
        _print(change, as_json=as_json)
        if number == count:
            return


def _check(client: Client, scopes: tuple[str, ...]) -> None:
    """NotFound for one that there is not: nothing would ever be said of it."""
    try:
        active = client.scopes() if scopes else {}
    except AgentDown:
        return  # it is waited for
    for scope in scopes:
        if scope not in active:
            raise NotFound("not_found", f"{scope} is not active here, or not for you: see holdfast status")


def _print(change: Change, *, as_json: bool) -> None:
    if as_json:
        value = {"generation": change.generation, "scopes": dict(change.scopes), "source": change.source}
        say(json.dumps(value))  # noqa: TID251 - a report, no document
        return
    for scope, sections in sorted(change.scopes.items()):
        say(f"{change.generation}  {scope}  {shown(' '.join(sections)) or '(gone)'}")
    if not change.scopes:
        say(f"{change.generation}  ({change.source})")

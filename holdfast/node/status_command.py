"""`holdfast status`: how this node is, on one screen."""

import time
from collections.abc import Iterator
from contextlib import suppress

import click
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from holdfast.client import AgentDown, Client, unix_seconds
from holdfast.node.agent_options import EXITS, asks_the_agent
from holdfast.node.agent_status import read_status
from holdfast.node.readiness import wait_until_ready
from holdfast.node.status_screen import screen
from holdfast.terminal import completion
from holdfast.terminal.shown import say_json, shown

EVERY_S = 1.0


@click.command("status", epilog=EXITS)
@click.option("--watch", "live", is_flag=True, help="Keep the screen up to date, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as one JSON object.")
@click.option("--wait", "wait_s", type=click.FloatRange(0), metavar="SECONDS",
              help="First wait until the node may run on its configuration; exit 1 if it may not by then.")  # fmt: skip
@click.option("--service", shell_complete=completion.services,
              help="With --wait: until this service of agent.toml has all that it lives by.")  # fmt: skip
@asks_the_agent
def command(client: Client, live: bool, as_json: bool, wait_s: float | None, service: str | None) -> None:
    """Show what this node runs on, what confirms it, and what is amiss."""
    if service is not None and wait_s is None:
        raise click.UsageError("--service says what --wait waits for: give both")
    if live and as_json:
        raise click.UsageError("--watch is for people and --json for programs: choose one (or holdfast watch --json)")
    if wait_s is not None:
        wait_until_ready(client, service, wait_s)
    if as_json:
        say_json(client.status())
    elif live:
        _keep_up(client, Console())
    else:
        Console().print(_render(client))


def _render(client: Client) -> RenderableType:
    status = read_status(client)
    # By the agent's clock, which is guarded: this one may be wrong.
    return screen(status, unix_seconds(status.now))


def _keep_up(client: Client, console: Console) -> None:
    """On a terminal one screen that changes; elsewhere one picture after the other."""
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
        for picture in _pictures(client):
            if console.is_terminal:
                live.update(picture, refresh=True)
            else:
                console.print(picture)


def _pictures(client: Client) -> Iterator[RenderableType]:
    while True:
        try:
            yield _render(client)
        except AgentDown as down:
            yield Text(shown(down), style="bold red")
        time.sleep(EVERY_S)

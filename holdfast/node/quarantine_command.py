"""`holdfast quarantine`: content that failed its probation on this node, and leave to try it again."""

import json

import click

from holdfast.client import Client
from holdfast.node.agent_options import EXITS, asks_the_agent
from holdfast.terminal import completion
from holdfast.terminal.shown import say


@click.group("quarantine")
def command() -> None:
    """Content that failed its probation on this node, and is not activated again by itself."""


@command.command("list", epilog=EXITS)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@asks_the_agent
def show(client: Client, as_json: bool) -> None:
    """What is in quarantine, the oldest first: which version of which scope, which check said no, and what it said."""
    _say(client.request("GET", "/v1/quarantine").value, as_json, "nothing is in quarantine")


@command.command("clear", epilog=EXITS)
@click.argument("scope", shell_complete=completion.scopes)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@asks_the_agent
def clear(client: Client, scope: str, as_json: bool) -> None:
    """Let what is in quarantine of SCOPE be tried again, as root or as the agent's account.

    If the head lists it still it is fetched at once, and on probation once more. The node's journal says who it was.
    The other way on is other content: what is changed and applied anew is tried by itself.
    """
    asked = json.dumps({"scope": scope})  # noqa: TID251 - no document
    answer = client.request("POST", "/v1/quarantine/clear", asked.encode()).value
    _say(answer, as_json, f"nothing of {scope} is in quarantine", "cleared: ")


def _say(answer: dict, as_json: bool, nothing: str, before: str = "") -> None:  # type: ignore[type-arg]
    if as_json:
        say(json.dumps(answer, sort_keys=True))  # noqa: TID251 - an answer, no document
        return
    for entry in answer["quarantine"]:
        version = f"{entry['authority_epoch']}.{entry['config_version']}"
        why = f"{entry['check']}: {entry['detail']}" if entry["detail"] else entry["check"]
        say(f"{before}{entry['scope']} {version}, since {entry['at']}: {why}")
    if not answer["quarantine"]:
        say(nothing)

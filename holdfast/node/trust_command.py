"""`holdfast trust confirm`: somebody has compared the root keys that this node took on first use (threats D-19)."""

import json
import re

import click

from holdfast.client import AgentRefused, Client
from holdfast.node.agent_options import EXITS, NO, asks_the_agent, fail
from holdfast.terminal.shown import say

CONFLICT = 409
OTHER_ROOTS = "other_roots"
_KEY_ID = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)


@click.group("trust")
def command() -> None:
    """The root keys that this node believes."""


@command.command("confirm", epilog=EXITS)
@click.argument("root_key_ids", metavar="ROOT_KEY_ID...", nargs=-1, required=True)
@click.option("--threshold", type=click.IntRange(1, 64), required=True, help="How many of them must sign.")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@asks_the_agent
def confirm(client: Client, root_key_ids: tuple[str, ...], threshold: int, as_json: bool) -> None:
    """Confirm the root keys of a first use, as root or as the agent's account: name all of them.

    Take them from where they cannot have been changed on the way: holdfastctl trust show, on the coordinator's machine.
    They are compared with what this node holds. Exit 0: they are the same, and it is kept. Exit 1: they are not, and
    nothing has changed; then the first answer came from somebody else.
    """
    for key_id in root_key_ids:
        if not _KEY_ID.fullmatch(key_id):
            raise click.BadParameter(f"{key_id!r} is not sha256: and 64 hex digits", param_hint="ROOT_KEY_ID")
    asked = json.dumps({"root_key_ids": root_key_ids, "root_threshold": threshold})  # noqa: TID251 - no document
    try:
        answer = client.request("POST", "/v1/trust/confirm", asked.encode()).value
    except AgentRefused as refused:
        if refused.status == CONFLICT and refused.code == OTHER_ROOTS:
            remedy = "do not use this node: find out who answered its join, remove its state directory, join anew"
            fail(f"not confirmed: {refused}; {remedy}", NO)
        raise
    if as_json:
        say(json.dumps(answer, sort_keys=True))  # noqa: TID251 - an answer, no document
    else:
        words = {"confirmed": "confirmed", "already_confirmed": "confirmed before"}
        keys = ", ".join(answer["root_key_ids"])
        say(f"{words[answer['outcome']]}: {keys}; {answer['root_threshold']} must sign")

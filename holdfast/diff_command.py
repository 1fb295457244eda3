"""`holdfast diff active previous|pending SCOPE`: what differs, section by section, line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import click

from holdfast import completion
from holdfast.agent_options import EXITS, NO, asks_the_agent
from holdfast.client import Client

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff", epilog=EXITS, short_help="What differs from the version before, or from the one that waits.")
@click.argument("first", type=click.Choice(["active"]))
@click.argument("other", type=click.Choice(["previous", "pending"]))
@click.argument("scope", shell_complete=completion.scopes)
@asks_the_agent
def command(client: Client, first: str, other: str, scope: str) -> None:
    """Compare the active version of SCOPE with the one before it, or with the one that waits for its time.

    Removed lines (-) are of the older version. Exit 0 when they are the same, 1 when they differ.
    """
    active = client.document(scope, expired=True, slot=first)
    held = client.document(scope, expired=True, slot=other)
    older, newer = (held, active) if other == "previous" else (active, held)
    lines = list(_differences(older, newer))
    for line in lines:
        click.secho(line, fg=COLOURS.get(line[:1]), bold=line.startswith("section"))
    raise SystemExit(NO if lines else 0)


def _differences(older: Mapping[str, Any], newer: Mapping[str, Any]) -> Iterator[str]:
    versions = (_version(older), _version(newer))
    before, after = older["manifest"], newer["manifest"]
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        yield f"section {name}"
        texts = (_text(older["sections"], name), _text(newer["sections"], name))
        yield from difflib.unified_diff(*texts, *versions, lineterm="", n=2)


def _version(document: Mapping[str, Any]) -> str:
    return f"version {document['envelope']['config_version']}"


def _text(sections: Mapping[str, Any], name: str) -> list[str]:
    if name not in sections:
        return []
    return json.dumps(sections[name], indent=2, sort_keys=True).splitlines()  # noqa: TID251 - for people to read

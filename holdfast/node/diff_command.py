"""`holdfast diff active previous|pending SCOPE`: what differs, section by section, line by line."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from holdfast.client import Client
from holdfast.node.agent_options import EXITS, NO, asks_the_agent
from holdfast.terminal import completion
from holdfast.terminal.shown import say, say_json

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff", epilog=EXITS)
@click.argument("first", type=click.Choice(["active"]))
@click.argument("other", type=click.Choice(["previous", "pending"]))
@click.argument("scope", shell_complete=completion.scopes)
@click.option("--json", "as_json", is_flag=True, help="One JSON object: both versions, and each section that differs.")
@asks_the_agent
def command(client: Client, first: str, other: str, scope: str, as_json: bool) -> None:
    """Compare the active version of SCOPE with the one before it, or with the one that waits for its time.

    Removed lines (-) are of the older version. Exit 0 when they are the same, 1 when they differ.
    """
    active = client.document(scope, expired=True, slot=first)
    held = client.document(scope, expired=True, slot=other)
    older, newer = (held, active) if other == "previous" else (active, held)
    differing = _differing(older, newer)
    if as_json:
        say_json(_value(scope, older, newer, differing))
    for line in () if as_json else _lines(older, newer, differing):
        say(line, fg=COLOURS.get(line[:1]), bold=line.startswith("section"))
    raise SystemExit(NO if differing else 0)


def _differing(older: Mapping[str, Any], newer: Mapping[str, Any]) -> list[str]:
    before, after = older["manifest"], newer["manifest"]
    return [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)]


def _lines(older: Mapping[str, Any], newer: Mapping[str, Any], differing: Sequence[str]) -> Iterator[str]:
    versions = (_version(older), _version(newer))
    for name in differing:
        yield f"section {name}"
        texts = (_text(older["sections"], name), _text(newer["sections"], name))
        yield from difflib.unified_diff(*texts, *versions, lineterm="", n=2)


def _value(
    scope: str, older: Mapping[str, Any], newer: Mapping[str, Any], differing: Sequence[str]
) -> Mapping[str, object]:
    """Only the version that has a section has a value of it."""
    held = {"older": older, "newer": newer}
    sections = {
        name: {which: view["sections"][name] for which, view in held.items() if name in view["sections"]}
        for name in differing
    }
    versions = {which: view["envelope"]["config_version"] for which, view in held.items()}
    return {"scope": scope, "versions": versions, "sections": sections}


def _version(document: Mapping[str, Any]) -> str:
    return f"version {document['envelope']['config_version']}"


def _text(sections: Mapping[str, Any], name: str) -> list[str]:
    if name not in sections:
        return []
    return json.dumps(sections[name], indent=2, sort_keys=True).splitlines()  # noqa: TID251 - for people to read

"""`holdfast get`: one section of a scope, or all of them as one JSON object; what is kept in parts is shown in one."""

import json
from collections.abc import Iterator
from dataclasses import asdict

import click

from holdfast.client import FROM_FILES, Client, Expired, Facts, Section
from holdfast.node import completion
from holdfast.node.agent_options import EXITS, asks_the_agent_or_files, note
from holdfast.terminal.shown import say, say_signed
from snapshot.identifiers import format_time

SHOWN = ("source", "generation", "grade", "version", "epoch", "age_s")


@click.command("get", epilog=EXITS, short_help="Print a section of an active scope, or all of it.")
@click.argument("scope", shell_complete=completion.scopes)
@click.argument("section", required=False)
@click.option("--names", is_flag=True, help="Only the names of the scope's sections, a line each.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, with version, expiry and grade beside the value."
)
@click.option("--expired", is_flag=True, help="Also when the scope has expired.")
@asks_the_agent_or_files
def command(client: Client, scope: str, section: str | None, names: bool, as_json: bool, expired: bool) -> None:
    """Print a section of an active scope as it was signed; without SECTION, all sections as one JSON object.

    A map that is signed in parts, as routes in routes.2c and others, is one section here; a part's own
    name gives it alone.

    All of it is of one version. It is printed as it comes, whatever its size: where the exit status is not 0, it is not
    whole. When the agent is down, the files that it left are read, and a note on standard error says so.
    """
    if section is not None and names:
        raise click.UsageError("a SECTION has no --names")
    try:
        _get(client, scope, section, names=names, as_json=as_json, expired=expired)
    except Expired as over:
        raise Expired(over.code, str(over).replace("ask with ?expired=allow", "use --expired"), over.facts) from None


def _get(client: Client, scope: str, section: str | None, *, names: bool, as_json: bool, expired: bool) -> None:
    if section is not None:
        found = client.get(scope, section, expired=expired)
        _note(found.facts)
        _print(found, {"scope": scope, "section": section} if as_json else None)
    elif names:
        for name, _ in client.whole(scope, expired=expired):
            say(name)
    else:
        _print_all(client.whole(scope, expired=expired), scope, as_json=as_json)


def _print(found: Section, about: dict[str, object] | None) -> None:
    if about is None:
        say_signed(found.data, nl=True)
    else:
        opening = _opening(about | _known(found.facts)) + b',"value":'
        say_signed(opening + found.data + b"}", nl=True, verbatim=False)


def _print_all(sections: Iterator[tuple[str, Iterator[Section]]], scope: str, *, as_json: bool) -> None:
    """As they come, none of them parsed."""
    between = b"{"
    for name, parts in sections:
        first = next(parts)
        if between == b"{":
            _note(first.facts)
            if as_json:
                between = _opening({"scope": scope} | _known(first.facts)) + b',"sections":{'
        say_signed(between + _encoded(name) + b":")
        _print_parts(first, parts, verbatim=not as_json)
        between = b","
    end = b"{}" if between == b"{" else b"}"
    say_signed(end + b"}" if as_json and end == b"}" else end, nl=True)


def _print_parts(first: Section, others: Iterator[Section], *, verbatim: bool) -> None:
    """One value: the members of one part after those of the other."""
    held = first.data
    for part in others:
        if len(held) > len(b"{}") and part.data != b"{}":
            say_signed(held[:-1], verbatim=verbatim)
            held = b"," + part.data[1:]
        elif held == b"{}":
            held = part.data
    say_signed(held, verbatim=verbatim)


def _known(facts: Facts) -> dict[str, object]:
    given = asdict(facts)
    expires = format_time(facts.expires_at) if facts.expires_at is not None else None
    return {name: given[name] for name in SHOWN} | {"expires_at": expires}


def _opening(members: dict[str, object]) -> bytes:
    """An object that is not closed yet."""
    return _encoded(members)[:-1]


def _encoded(value: object) -> bytes:
    return json.JSONEncoder(separators=(",", ":")).encode(value).encode()


def _note(facts: Facts) -> None:
    if facts.source == FROM_FILES:
        note(f"the agent could not be asked: this is from its files, version {facts.version}, {facts.grade}")

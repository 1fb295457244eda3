"""`holdfast get`: a section of a scope, or all of them as one JSON object; what is kept in parts is shown in one.

Services and routes are asked for by what they are, `get service web`, `get routes`: no scope type has such a name. Of a
Config, `get config/edge PATH` is a file's bytes, and without PATH the list of its files: its sections are how they are
signed, and no program's business.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

import click

from holdfast.client import FROM_FILES, Client, ConfiguredFiles, Expired, Facts, Section
from holdfast.node.agent_options import EXITS, asks_the_agent_or_files, note
from holdfast.terminal import completion
from holdfast.terminal.shown import say, say_bytes, say_signed
from snapshot.identifiers import format_time

CONFIG = "config/"
SHOWN = ("source", "generation", "grade", "version", "epoch", "age_s")


@click.command("get", epilog=EXITS)
@click.argument("scope", shell_complete=completion.scopes)
@click.argument("section", required=False)
@click.option("--names", is_flag=True, help="Only the names of its sections, or of a Config's files, a line each.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, with version, expiry and grade beside the value."
)
@click.option("--expired", is_flag=True, help="Also when the scope has expired.")
@asks_the_agent_or_files
def command(client: Client, scope: str, section: str | None, names: bool, as_json: bool, expired: bool) -> None:
    """Print a section of an active scope as it was signed; without SECTION, all sections as one JSON object.

    A map that is signed in parts, as routes in routes.2c and others, is one section here; a part's own
    name gives it alone.

    \b
    holdfast get service web    what this node knows of a service: settings, endpoints ...
    holdfast get services       which services there are
    holdfast get routes         all routes by id; with an ID that route
    holdfast get config/edge    the files of a Config: mode, size, hash and path
    holdfast get config/edge nginx/nginx.conf    the bytes of one

    All of it is of one version. It is printed as it comes, whatever its size: where the exit status is not 0, it is not
    whole. When the agent is down, the files that it left are read, and a note on standard error says so.
    """
    if section is not None and names:
        raise click.UsageError("a SECTION has no --names")
    try:
        if scope.startswith(CONFIG):
            _get_file(client, scope.removeprefix(CONFIG), section, names=names, as_json=as_json, expired=expired)
        elif scope in _NAMED:
            _print_named(_NAMED[scope](client, section, expired), names=names, as_json=as_json)
        else:
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


def _get_file(client: Client, config: str, path: str | None, *, names: bool, as_json: bool, expired: bool) -> None:
    if path is None:
        _print_files(client.files(config, expired=expired), names=names, as_json=as_json)
        return
    if as_json:
        raise click.UsageError("a file is bytes, and no --json: without a path, --json lists the files")
    with client.open_file(config, path, expired=expired) as file:
        _note(file.facts)
        instead = f"{path}: {file.size} bytes, for a file or a program: holdfast get {CONFIG}{config} {path} > FILE"
        for piece in file.pieces:
            if say_bytes(piece, instead):
                return


def _print_files(found: ConfiguredFiles, *, names: bool, as_json: bool) -> None:
    _note(found.facts)
    if as_json:
        files = {path: asdict(file) for path, file in found.files.items()}
        say_signed(_encode({"config": found.id, **_facts(found.facts), "files": files}), nl=True)
        return
    for path, file in found.files.items():
        say(path if names else f"{file.mode} {file.size:>10} {file.hash} {path}")


@dataclass(frozen=True)
class NamedValue:
    """What was asked for by what it is. `facts` is None of a list, of which each entry has its own."""

    about: Mapping[str, object]
    value: Mapping[str, object]
    facts: Facts | None


def _service(client: Client, service_id: str | None, expired: bool) -> NamedValue:
    if service_id is None:
        raise click.UsageError("which service? `holdfast get services` lists them")
    found = client.service(service_id, expired=expired)
    return NamedValue({"service": service_id}, found.value, found.facts)


def _services(client: Client, service_id: str | None, expired: bool) -> NamedValue:
    if service_id is not None:
        return _service(client, service_id, expired)
    return NamedValue({}, client.services(), None)


def _routes(client: Client, route_id: str | None, expired: bool) -> NamedValue:
    if route_id is not None:
        found = client.route(route_id, expired=expired)
        return NamedValue({"route": route_id}, found.value, found.facts)
    every = client.routes(expired=expired)
    return NamedValue({}, every.routes, every.facts)


_NAMED: Mapping[str, Callable[[Client, str | None, bool], NamedValue]] = {
    "service": _service,
    "services": _services,
    "route": _routes,
    "routes": _routes,
}


def _print_named(found: NamedValue, *, names: bool, as_json: bool) -> None:
    if found.facts is not None:
        _note(found.facts)
    if names:
        for name in sorted(found.value):
            say(name)
    elif as_json and found.facts is not None:
        say_signed(_encode({**found.about, **_facts(found.facts), "value": found.value}), nl=True)
    else:
        say_signed(_encode(found.value), nl=True)


def _print(found: Section, about: dict[str, object] | None) -> None:
    if about is None:
        say_signed(found.data, nl=True)
    else:
        opening = _opening(about | _facts(found.facts)) + b',"value":'
        say_signed(opening + found.data + b"}", nl=True, verbatim=False)


def _print_all(sections: Iterator[tuple[str, Iterator[Section]]], scope: str, *, as_json: bool) -> None:
    """As they come, none of them parsed."""
    between = b"{"
    for name, parts in sections:
        first = next(parts)
        if between == b"{":
            _note(first.facts)
            if as_json:
                between = _opening({"scope": scope} | _facts(first.facts)) + b',"sections":{'
        say_signed(between + _encode(name) + b":")
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


def _facts(facts: Facts) -> dict[str, object]:
    given = asdict(facts)
    expires = format_time(facts.expires_at) if facts.expires_at is not None else None
    return {name: given[name] for name in SHOWN} | {"expires_at": expires}


def _opening(members: dict[str, object]) -> bytes:
    """An object that is not closed yet."""
    return _encode(members)[:-1]


def _encode(value: object) -> bytes:
    return json.JSONEncoder(separators=(",", ":")).encode(value).encode()


def _note(facts: Facts) -> None:
    if facts.source == FROM_FILES:
        note(f"the agent could not be asked: this is from its files, version {facts.version}, {facts.grade}")

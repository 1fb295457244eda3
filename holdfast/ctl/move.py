"""`holdfastctl export` and `import`: a cluster goes to another coordinator, without a database that both share; and
what `coordinators` says of it: the identity of the one on this machine, and how far the move is.

Both work on the files and the database themselves, as `init` does. What they do: coordinator/membership/moving.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.setup import configuration
from holdfast.ctl import output
from holdfast.ctl.machine import STATE, set_up_here, with_a_coordinators_libraries
from holdfast.ctl.signing import passphrase_option
from holdfast.ctl.socket import REFUSED, Failed, confirm, says_what_is_wrong
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json
from wire.operators.operator_answers import MoveStanding, MovingNode

MOST_NAMED = 20

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--to", type=_PATH, help="The file: not there yet.")
@click.option("--for", "recipient", type=_FILE, metavar="CERTIFICATE",
              help="The identity of the other coordinator (holdfastctl coordinators identity, there).")  # fmt: skip
@click.option("--url", metavar="https://HOST:PORT", help="Where nodes will find the other coordinator.")
@click.option("--cancel", is_flag=True, help="The way back, while the other coordinator has published nothing.")
@click.option("--configuration", "path", type=_PATH, default=DEFAULT_PATH, show_default=True,
              help="The coordinator's configuration, which names all else.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def export(**given: Any) -> None:  # noqa: ANN401 - the options
    """Hand the whole cluster over to another coordinator: database, seed, config keys and CA, encrypted to it alone.

    From then on this coordinator answers check-ins only: what is out is renewed as it is, and every change is refused
    as `moved`. Either the file is there and that is so, or nothing has changed. Without a way back once the other one
    has published.
    """
    missing = [name for name, key in (("--to", "to"), ("--for", "recipient"), ("--url", "url")) if not given[key]]
    if given["cancel"] and len(missing) < 3:
        raise click.UsageError("--cancel stands alone")
    if missing and not given["cancel"]:
        raise click.UsageError(f"Missing option '{missing[0]}'.")
    at = configuration.load(given["path"])
    with with_a_coordinators_libraries():
        from holdfast.ctl import moves  # noqa: PLC0415 - the database's library: no other command waits for it

    if given["cancel"]:
        confirm("Cancel the export? The other coordinator must never be started with it.", yes=given["yes"])
        moves.cancel(at, as_json=given["as_json"])
        return
    confirm(f"Export the cluster to {given['url']}? Nothing can be changed here from then on.", yes=given["yes"])
    moves.export(at, given)


@click.command("import")
@click.argument("file", type=_FILE)
@click.option("--cluster", "cluster_id", required=True, help="Of which cluster it is to be.")
@click.option("--sha256", default="", help="Of the file, as `export` has shown it: another one is refused.")
@click.option("--database", "database_url", help="[default: sqlite:///STATE/coordinator.db]")
@click.option("--ca", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Where ca-key.pem lies, if it is not in the file: then it is not kept here.")  # fmt: skip
@click.option("--despite-age", is_flag=True, help="It is more than a week old, and nothing was changed since.")
@passphrase_option
@set_up_here
@says_what_is_wrong
def import_(**given: Any) -> None:  # noqa: ANN401 - the options
    """Make an exported cluster the one of this machine: whole or not at all, and over nothing that is there.

    Its history is verified first. Nothing is signed here until root keys have raised the epoch (epoch raise).
    """
    with with_a_coordinators_libraries():
        from holdfast.ctl import moves  # noqa: PLC0415 - likewise

    moves.import_(given)


@click.command()
@click.argument("name")
@click.option("--to", type=_PATH, help="Write the certificate into this file. It is no secret.")
@click.option("--anew", is_flag=True, help="Another one in the place of the one that is here.")
@click.option("--state", type=_PATH, default=STATE, show_default=True, help="The coordinator's own directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def identity(name: str, to: Path | None, anew: bool, state: Path, as_json: bool) -> None:
    """Show the identity of the coordinator on this machine; where it has none, it is made.

    The certificate is what `holdfastctl export --for` takes. The key stays on this machine.
    """
    with with_a_coordinators_libraries():
        from coordinator.setup import own_identity  # noqa: PLC0415 - the database's library: no other command waits for it

    made = own_identity.make(state.absolute(), name, anew=anew, now=wall_clock())
    if to is not None:
        try:
            to.write_bytes(made.certificate)
        except OSError as error:
            raise Failed(f"{to}: {error.strerror}; the identity itself is there", REFUSED) from None
    answer = {
        "coordinator": made.coordinator_id,
        "identity": made.certificate_sha256,
        "file": str(made.file),
        "new": made.is_new,
        **({"certificate": str(to)} if to else {"certificate": made.certificate.decode()}),
    }
    if as_json:
        say_json(answer)
        return
    output.facts((key, value) for key, value in answer.items() if key != "certificate" or to)
    if to is None:
        say(*made.certificate.decode().splitlines())


def progress_lines(move: MoveStanding) -> Iterator[str]:
    yield from _to(move) if move.direction == "to" else _from(move)
    yield from (f"  {_node(node)}" for node in move.nodes[:MOST_NAMED])
    if move.count > MOST_NAMED:
        yield f"  and {move.count - MOST_NAMED} more"


def _to(move: MoveStanding) -> Iterator[str]:
    yield f"The cluster was exported to {move.coordinator_id}, {move.url}, at {output.time(move.at)}."
    if move.ahead_at is None:
        yield "No node has shown yet that it has published there: holdfastctl export --cancel is the way back."
    else:
        yield f"A node showed at {output.time(move.ahead_at)} that it has published there: there is no way back."
    if move.count:
        yield f"{move.count} of {move.members} members ask here still:"
    elif move.ahead_at is None:
        yield f"None of {move.members} members has asked here lately."
    else:
        yield f"None of {move.members} members has asked here lately: this coordinator can be stopped for good."


def _from(move: MoveStanding) -> Iterator[str]:
    name = move.coordinator_id
    yield f"The cluster came from {name}, {move.url}, at {output.time(move.at)}. Nobody is trimmed until that is over."
    if move.count:
        yield f"{move.count} of {move.members} members have not been seen here yet:"
    else:
        yield f"All {move.members} members have been seen here."
        yield f"Once {name} says that nobody asks there: stop it, then holdfastctl coordinators remove {name}"


def _node(node: MovingNode) -> str:
    return f"{node.node_id}, last seen {output.time(node.last_seen)}"

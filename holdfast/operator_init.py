"""`holdfastctl init`: a cluster begins (rules J34, K12). The one command that opens the database itself."""

import os
from dataclasses import asdict
from pathlib import Path

import click

from coordinator import configuration, initialise
from coordinator.configuration import DEFAULT_PATH
from coordinator.initialise import Made, Wanted
from holdfast import operator_output as output
from holdfast.clock import wall_clock
from holdfast.operator_signing import passphrase_option
from holdfast.operator_socket import REFUSED, Failed, says_what_is_wrong
from holdfast.operator_trust import new_passphrase
from snapshot.signature import ALGORITHMS, ED25519

STATE = Path("/var/lib/holdfast-coordinator")


@click.command()
@click.argument("cluster_id")
@click.option("--url", required=True, metavar="https://HOST:PORT", help="Where nodes will find the coordinator.")
@click.option("--coordinator-id", default="coordinator-1", show_default=True)
@click.option("--host", "hosts", multiple=True, help="A further name or address of the server, for its certificate.")
@click.option("--state", type=click.Path(path_type=Path), default=STATE, show_default=True,
              help="The coordinator's own directory.")  # fmt: skip
@click.option("--database", "database_url", help="[default: sqlite:///STATE/coordinator.db]")
@click.option("--root-keys-to", "root_keys", type=click.Path(path_type=Path), required=True,
              help="Where root keys are put; take them away from there.")  # fmt: skip
@click.option("--roots", type=click.IntRange(1, initialise.MOST_ROOTS), default=3, show_default=True)
@click.option("--threshold", type=click.IntRange(1, initialise.MOST_ROOTS), default=2, show_default=True,
              help="How many root keys must sign.")  # fmt: skip
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=ED25519, show_default=True, help="Of root keys.")
@click.option("--encrypt", is_flag=True, help="Root keys under a passphrase, from --passphrase-file or asked for.")
@passphrase_option
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH, show_default=True,
              help="The coordinator's configuration, written if it is not there.")  # fmt: skip
@click.option("--listen", default="0.0.0.0:7443", show_default=True, help="For members.")
@click.option("--listen-join", default="0.0.0.0:7444", show_default=True, help="For nodes that want to join.")
@click.option("--listen-admin", help="For operators from elsewhere. [default: nobody]")
@click.option("--listen-probes", help="For probes and metrics. [default: the daemon's own]")
@click.option("--admin-socket", type=click.Path(path_type=Path), help="For operators here. [default: the daemon's own]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def init(**given: object) -> None:
    """Make a cluster: its keys, its first trust bundle, the coordinator's identity and configuration.

    Either all of it is there afterwards, or nothing.
    """
    wanted = _wanted(given)
    _agrees(Path(str(given["path"])), _configuration(given, wanted.state, wanted.database_url))
    made = initialise.initialise(wanted, actor=f"uid:{os.getuid()}", now=wall_clock())
    if given["as_json"]:
        output.write_json({name: _plain(value) for name, value in asdict(made).items()})
    else:
        _render(made)


def _wanted(given: dict[str, object]) -> Wanted:
    state, path = Path(str(given["state"])).absolute(), Path(str(given["path"]))
    database_url = str(given["database_url"] or f"sqlite:///{state}/coordinator.db")
    names = ("cluster_id", "coordinator_id", "url", "roots", "threshold", "algorithm", "hosts")
    text = _configuration(given, state, database_url)
    return Wanted(
        state=state,
        root_keys=Path(str(given["root_keys"])).absolute(),
        database_url=database_url,
        passphrase=new_passphrase(bool(given["encrypt"]), given["passphrase_files"]),  # type: ignore[arg-type]
        configuration=None if path.exists() else (path, text),
        **{name: given[name] for name in names},  # type: ignore[arg-type]
    )


def _configuration(given: dict[str, object], state: Path, database_url: str) -> str:
    socket = given["admin_socket"] and Path(str(given["admin_socket"])).absolute()
    wishes = {"admin": given["listen_admin"], "probes": given["listen_probes"], "admin_socket": socket}
    further = "".join(f'{name} = "{value}"\n' for name, value in wishes.items() if value)
    return f"""\
coordinator_id = "{given["coordinator_id"]}"

[database]
url = "{database_url}"

[listen]
fleet = "{given["listen"]}"
join = "{given["listen_join"]}"
{further}
[tls]
certificate = "{state}/tls/server.pem"
key = "{state}/tls/server-key.pem"

[keys]
directory = "{initialise.keys_directory(state)}"
token = "{initialise.token_file(state)}"
"""


def _agrees(path: Path, wanted: str) -> None:
    """A configuration that is there already names what is about to be made (rules K8, K9: and is a coordinator's)."""
    if not path.exists():
        return
    ours, theirs = configuration.parse(wanted), configuration.load(path)
    for name in ("coordinator_id", "database_url", "certificate", "key", "keys_directory", "token_key"):
        here, there = getattr(ours, name), getattr(theirs, name)
        if here != there:
            remedy = f"let the options say the same, or move {path} away"
            raise Failed(f"{path} says {name} {there}, but this would be {here}; {remedy}", REFUSED)


def _render(made: Made) -> None:
    output.facts(
        [
            ("cluster", made.cluster_id),
            *(("root key", f"{key_id}  {path}") for key_id, path in made.root_keys),
            ("config key", f"{made.config_key[0]}  {made.config_key[1]}"),
            ("certificate", f"{made.certificate_sha256}  {made.certificate}"),
            ("CA for nodes", made.authority),
            ("configuration", made.configuration or "there already; not touched"),
        ]
    )
    click.echo("Take the root keys away now, each to a place of its own: whoever has enough of them has the cluster.")
    click.echo("Next: systemctl start holdfast-coordinator, then holdfastctl allow add NODE")


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value

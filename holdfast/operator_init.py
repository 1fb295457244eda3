"""`holdfastctl init`: a cluster begins (rules J34, K12). The one command that opens the database itself."""

from pathlib import Path

import click

from coordinator.ceremony import MOST_ROOTS
from coordinator.configuration import DEFAULT_PATH
from holdfast.operator_signing import passphrase_option
from holdfast.operator_socket import says_what_is_wrong
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
@click.option("--roots", type=click.IntRange(1, MOST_ROOTS), default=3, show_default=True)
@click.option("--threshold", type=click.IntRange(1, MOST_ROOTS), default=2, show_default=True,
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
    from holdfast import operator_founding  # noqa: PLC0415 - the database's library: no other command waits for it

    operator_founding.found(given)

"""`holdfastctl init`: a cluster begins (rules J34, K12). It opens the database, as `coordinators prepare` does."""

from pathlib import Path

import click

from coordinator.trust.ceremony import MOST_ROOTS
from holdfast.ctl.machine import set_up_here, with_a_coordinators_libraries
from holdfast.ctl.signing import passphrase_option
from holdfast.ctl.socket import says_what_is_wrong
from snapshot.signature import ALGORITHMS, ED25519


@click.command()
@click.argument("cluster_id")
@click.option("--coordinator-id", default="coordinator-1", show_default=True)
@click.option("--database", "database_url", help="[default: sqlite:///STATE/coordinator.db]")
@click.option("--root-keys-to", "root_keys", type=click.Path(path_type=Path), required=True,
              help="Where root keys are put; take them away from there.")  # fmt: skip
@click.option("--ca-key-to", "ca_key", type=click.Path(path_type=Path),
              help="Where the key of a CA of its own is put, to be taken away. "
              "[default: it follows from the seed]")  # fmt: skip
@click.option("--seed-share-owner", "owners", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              multiple=True,
              help="Who can bring lost secrets back: a public half of `coordinators owner-key`.")  # fmt: skip
@click.option("--shares-to", "shares", type=click.Path(path_type=Path),
              help="Where the owners' shares are put, to be taken away. [default: with the root keys]")  # fmt: skip
@click.option("--roots", type=click.IntRange(1, MOST_ROOTS), default=3, show_default=True)
@click.option("--threshold", type=click.IntRange(1, MOST_ROOTS), default=2, show_default=True,
              help="How many root keys must sign.")  # fmt: skip
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=ED25519, show_default=True, help="Of root keys.")
@click.option("--encrypt", is_flag=True,
              help="Keys that are taken away under a passphrase, from --passphrase-file or asked for.")  # fmt: skip
@passphrase_option
@set_up_here
@says_what_is_wrong
def init(**given: object) -> None:
    """Make a cluster: its keys, its first trust bundle, the coordinator's identity and configuration.

    Either all of it is there afterwards, or nothing.
    """
    with with_a_coordinators_libraries():
        from holdfast.ctl import setup  # noqa: PLC0415 - the database's library: no other command waits for it

    setup.found_cluster(given)

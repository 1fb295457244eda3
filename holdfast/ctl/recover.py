"""`holdfastctl recover`: let a node go back in one scope, once (rules S65, S87)."""

import click

from holdfast.ctl.signing import Signing, carry_out, root_key_options
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from wire.operators.trust_messages import RecoveryDraftRequest


@click.command()
@click.argument("node_id")
@click.argument("scope")
@click.option("--to", "version", type=click.IntRange(1), required=True, help="A version that was published before.")
@root_key_options
@asks_the_coordinator
def recover(asked: CoordinatorClient, node_id: str, scope: str, version: int, signing: Signing) -> None:
    """Let NODE_ID go back to an earlier version of SCOPE. Root keys sign it; `nodes versions` lists what there was.

    The version given up never returns: what is declared next gets a higher one.
    """
    body = RecoveryDraftRequest(node_id, scope, version)
    carry_out(asked, signing, body)

"""`holdfastctl revoke`: what is no longer to be believed or served (rules K54, S60, S61)."""

from pathlib import Path
from typing import Any

import click

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from holdfast.ctl import output
from holdfast.ctl.rotate import keys_directory, whole_key_id
from holdfast.ctl.signing import Signing, bundle_options, carry_out, draft, finish_with_key, wishes
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from snapshot.bundle import ACTIVE, CONFIG
from wire.operators.fleet_answers import NodeNamed
from wire.operators.operator_messages import ReasonRequest, RevocationRequest
from wire.operators.trust_answers import HeadRevocations, RevocationDone, Rotation
from wire.operators.trust_messages import AddWish, RevokeWish

reason_option = click.option("--reason", required=True, help="For the audit log.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
unknown_option = click.option("--unknown", is_flag=True, help="Though nothing of this name is declared any more.")
OWN = Path("-")  # the directory where the coordinator looks for config keys


@click.group()
def revoke() -> None:
    """Take back what was granted: the next heads say so, and the next trust bundle carries it."""


@revoke.command("list")
@asks_the_coordinator
def list_(asked: CoordinatorClient) -> None:
    """What heads revoke now. What the trust bundle revokes: `trust show`."""
    answer = asked.get(HeadRevocations, "revocations")
    lists = [(name, values) for name, values in sorted(vars(answer).items()) if isinstance(values, tuple)]
    rows = [(name, value) for name, values in lists for value in values]
    asked.show(answer, lambda _: output.table(("category", "value"), rows, nothing="nothing is revoked by heads"))


@revoke.command()
@click.argument("node_id")
@reason_option
@yes_option
@asks_the_coordinator
def node(asked: CoordinatorClient, node_id: str, reason: str, yes: bool) -> None:
    """A node: it stops its services, and gets nothing more."""
    confirm(f"Revoke the node {node_id}? It stops its services, and comes back only by `nodes readmit`.", yes=yes)
    answer = asked.post(NodeNamed, "nodes", node_id, "revoke", body=ReasonRequest(reason))
    asked.say(answer, f"revoked: node {node_id}; {_BUNDLE_FOLLOWS}")


@revoke.command()
@click.argument("node_id")
@click.argument("role")
@reason_option
@unknown_option
@yes_option
@asks_the_coordinator
def role(asked: CoordinatorClient, node_id: str, role: str, **given: Any) -> None:  # noqa: ANN401 - the options above
    """One role of one node."""
    _revoke(asked, "role_assignments", f"{node_id}/{role}", **given)


@revoke.command()
@click.argument("service_id")
@reason_option
@unknown_option
@yes_option
@asks_the_coordinator
def service(asked: CoordinatorClient, service_id: str, **given: Any) -> None:  # noqa: ANN401 - the options above
    """A service, on every node."""
    _revoke(asked, "service_ids", service_id, **given)


@revoke.command()
@click.argument("resource_id")
@reason_option
@unknown_option
@yes_option
@asks_the_coordinator
def resource(asked: CoordinatorClient, resource_id: str, **given: Any) -> None:  # noqa: ANN401 - the options above
    """What services go out by (an EgressResource), on every node. Heads list it beside services, as `service_ids`."""
    _revoke(asked, "service_ids", resource_id, **given)


@revoke.command()
@click.argument("url", metavar="https://HOST:PORT")
@reason_option
@unknown_option
@yes_option
@asks_the_coordinator
def endpoint(asked: CoordinatorClient, url: str, **given: Any) -> None:  # noqa: ANN401 - the options above
    """A storage endpoint or coordinator that nodes are not to ask any more."""
    _revoke(asked, "endpoints", url, **given)


@revoke.command()
@click.argument("key_id")
@reason_option
@click.option("--new-key-to", type=click.Path(path_type=Path), is_flag=False, flag_value=OWN,
              help="Add a new config key in the same bundle: to this directory, or the coordinator's own.")  # fmt: skip
@bundle_options
@asks_the_coordinator
def key(asked: CoordinatorClient, key_id: str, reason: str, new_key_to: Path | None, signing: Signing) -> None:
    """A key in wrong hands.

    A config key is revoked by the next heads at once, where another one can sign them, and by the next bundle. A root
    key, and the last config key, are revoked by a bundle alone: that needs root signatures.
    """
    found = whole_key_id(asked, key_id)
    keys = {key.key_id: key for key in asked.get(Rotation, "rotation").keys}
    others = [key for key in keys.values() if key.purpose == CONFIG and key.status == ACTIVE]
    is_last = [key.key_id for key in others] == [found]
    if is_last and new_key_to is None:
        remedy = "replace it in the same bundle: --new-key-to"
        detail = f"{found} is the last config key, nothing could be signed after it"
        raise Refused(Code.NO_SIGNER, detail, remedy=remedy)
    if keys[found].purpose == CONFIG and not is_last and new_key_to is None and not signing.keys:
        _revoke(asked, "key_ids", found, reason=reason, yes=signing.yes)
        return
    _by_bundle(asked, found, new_key_to, signing)


@revoke.command()
@click.argument("category")
@click.argument("value")
@yes_option
@asks_the_coordinator
def restore(asked: CoordinatorClient, category: str, value: str, yes: bool) -> None:
    """Take a revocation out of the next heads: a mistake, or one that the trust bundle carries."""
    confirm(f"No longer revoke {category} {value} in heads?", yes=yes)
    asked.say(asked.delete(RevocationDone, "revocations", category, value), f"restored: {category} {value}")


_BUNDLE_FOLLOWS = "the trust bundle carries it with the next `trust export-request`"


def _revoke(
    asked: CoordinatorClient, category: str, value: str, *, reason: str, yes: bool, unknown: bool = False
) -> None:
    confirm(f"Revoke {category} {value} on every node?", yes=yes)
    answer = asked.post(RevocationDone, "revocations", body=RevocationRequest(category, value, reason, unknown))
    asked.say(answer, f"revoked: {category} {value}; {_BUNDLE_FOLLOWS}")


def _by_bundle(asked: CoordinatorClient, key_id: str, new_key_to: Path | None, signing: Signing) -> None:
    if new_key_to is None:
        carry_out(asked, signing, wishes(RevokeWish(key_id)))
        return
    directory = keys_directory(asked) if new_key_to == OWN else new_key_to
    new = keystore.new_key()
    body = wishes(RevokeWish(key_id), AddWish(CONFIG, new.algorithm, new.public_key))
    finish_with_key(asked, signing, draft(asked, signing, body), CONFIG, new, directory)

"""`holdfastctl allow`: who may join (rules J17)."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from holdfast.ctl import output
from holdfast.ctl.join_file import facts_for_nodes, join_file_options, new_file, write
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from wire.operators.fleet_answers import NodeNamed
from wire.operators.operator_answers import Allowlist, AllowlistEntry, IssuedToken
from wire.operators.operator_messages import EntryRequest, TokenRequest


@click.group()
def allow() -> None:
    """The allowlist: nodes that may join, and as what."""


@allow.command()
@click.argument("node_id")
@click.option("--kind", type=click.Choice(["data", "witness"]), help="[default: as declared, else data]")
@click.option("--site", "site_id", metavar="ID", help="The site it joins.  [default: as declared, else default]")
@click.option("--certificate", "certificate_sha256", metavar="sha256:HEX", help="Only with this certificate.")
@join_file_options
@asks_the_coordinator
def add(
    asked: CoordinatorClient,
    node_id: str,
    join_file: Path | None,
    join_urls: tuple[str, ...],
    node_ca: Path | None,
    **given: str | None,
) -> None:
    """Let a node join. With --join-file also make what it needs for that: bring the file there, `holdfast join FILE`.

    The file holds a join token for this node alone: whoever has it first is the node.
    """
    if join_file is None:
        entry = _enter(asked, node_id, given)
        answer: object = entry
        next_step = f"holdfastctl tokens create --node {node_id}"
    else:
        with new_file(join_file) as file:
            facts = facts_for_nodes(asked, join_urls, node_ca)
            entry = _enter(asked, node_id, given)
            token = asked.post(IssuedToken, "tokens", body=TokenRequest(node_id=node_id))
            write(file, facts, token)
        told = {"join_file": str(join_file), "jti": token.jti, "expires_at": token.expires_at}
        answer = {**asdict(entry), **told}
        until = output.time(token.expires_at)
        next_step = f"bring {join_file} to the node, and there until {until}: holdfast join {join_file.name}"
    asked.say(answer, f"allowed: {node_id} as {entry.kind} at {entry.site_id}; next: {next_step}")


def _enter(asked: CoordinatorClient, node_id: str, given: Mapping[str, str | None]) -> AllowlistEntry:
    return asked.post(AllowlistEntry, "allowlist", node_id, body=EntryRequest(**given))


@allow.command("list")
@asks_the_coordinator
def list_(asked: CoordinatorClient) -> None:
    """Who may join."""
    asked.show(asked.get(Allowlist, "allowlist"), _render)


@allow.command()
@click.argument("node_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: CoordinatorClient, node_id: str, yes: bool) -> None:
    """Take an entry back. A member stays one."""
    confirm(f"Take {node_id} off the allowlist?", yes=yes)
    asked.say(asked.delete(NodeNamed, "allowlist", node_id), f"no longer allowed: {node_id}")


def _render(answer: Allowlist) -> None:
    rows = ((entry.node_id, entry.kind, entry.site_id, entry.certificate_sha256 or "any") for entry in answer.entries)
    output.table(("node", "kind", "site", "certificate"), rows, nothing="nobody may join")

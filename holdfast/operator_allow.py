"""`holdfastctl allow`: who may join (rules J17)."""

from typing import Any

import click

from holdfast import operator_output as output
from holdfast.operator_socket import Asked, asks_the_coordinator, confirm


@click.group()
def allow() -> None:
    """The allowlist: nodes that may join, and as what."""


@allow.command()
@click.argument("node_id")
@click.option("--kind", type=click.Choice(["data", "witness"]), help="[default: as declared, else data]")
@click.option("--site", "site_id", metavar="ID", help="The site it joins.  [default: as declared, else default]")
@click.option("--certificate", "certificate_sha256", metavar="sha256:HEX", help="Only with this certificate.")
@asks_the_coordinator
def add(asked: Asked, node_id: str, **given: str | None) -> None:
    """Let a node join."""
    answer = asked.post("allowlist", node_id, body={name: value for name, value in given.items() if value is not None})
    as_what = f"{node_id} as {answer['kind']} at {answer['site_id']}"
    asked.say(answer, f"allowed: {as_what}; next: holdfastctl tokens create --node {node_id}")


@allow.command("list")
@asks_the_coordinator
def list_(asked: Asked) -> None:
    """Who may join."""
    asked.show(asked.get("allowlist"), _render)


@allow.command()
@click.argument("node_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: Asked, node_id: str, yes: bool) -> None:
    """Take an entry back. A member stays one."""
    confirm(f"Take {node_id} off the allowlist?", yes=yes)
    asked.say(asked.delete("allowlist", node_id), f"no longer allowed: {node_id}")


def _render(answer: dict[str, Any]) -> None:
    rows = (
        (each["node_id"], each["kind"], each["site_id"], each["certificate_sha256"] or "any")
        for each in answer["entries"]
    )
    output.table(("node", "kind", "site", "certificate"), rows, nothing="nobody may join")

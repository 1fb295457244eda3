"""`holdfastctl nodes`: who belongs to the cluster."""

from typing import Any

import click

from holdfast.ctl import node, output
from holdfast.ctl.selection import selects_nodes
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm

LATEST = 10  # events of one node, beside all the rest


@click.group()
def nodes() -> None:
    """Members of the cluster."""


@nodes.command("list")
@selects_nodes
@asks_the_coordinator
def list_(asked: CoordinatorClient, site: str | None, labels: tuple[str, ...], state: str | None) -> None:
    """Every member, revoked ones too: how it is, which agent it runs, what it does not hold yet."""
    found = list(asked.pages("nodes", site=site, label=labels, state=state))
    asked.show({"nodes": found}, _render_all)


@nodes.command()
@click.argument("node_id")
@asks_the_coordinator
def show(asked: CoordinatorClient, node_id: str) -> None:
    """One member: what it is, what it holds, what it was like of late, and what it told last."""
    answer = {**asked.get("nodes", node_id), **asked.get("nodes", node_id, "events", most=LATEST)}
    asked.show(answer, node.render)


@nodes.command()
@click.argument("node_id")
@click.option("--most", type=click.IntRange(1, 1000), default=50, show_default=True)
@asks_the_coordinator
def events(asked: CoordinatorClient, node_id: str, most: int) -> None:
    """What a node has told of itself, the newest first: state changes, activations, refusals and their reasons."""
    asked.show(asked.get("nodes", node_id, "events", most=most), _render_events)


@nodes.command()
@click.argument("node_id")
@click.argument("scope")
@asks_the_coordinator
def versions(asked: CoordinatorClient, node_id: str, scope: str) -> None:
    """The versions of a scope that were ever published for a node: what `recover` can go back to."""
    asked.show(asked.get("nodes", node_id, "versions", scope), _render_versions)


@nodes.command()
@click.argument("node_id")
@click.option("--reason", required=True, help="For the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: CoordinatorClient, node_id: str, reason: str, yes: bool) -> None:
    """Take a node out of the cluster. Its id stays out until `nodes readmit`."""
    confirm(f"Remove the node {node_id}?", yes=yes)
    answer = asked.post("nodes", node_id, "remove", body={"reason": reason})
    asked.say(answer, f"removed: {node_id}")


@nodes.command()
@click.argument("node_id")
@click.option("--kind", type=click.Choice(["data", "witness"]), help="[default: as declared, else data]")
@click.option("--site", "site_id", metavar="ID", help="The site it joins.  [default: as declared, else default]")
@click.option(
    "--certificate", "certificate_sha256", metavar="sha256:HEX", help="Only with this one; a revoked one needs it."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def readmit(asked: CoordinatorClient, node_id: str, yes: bool, **given: str | None) -> None:
    """Let a node that was removed or revoked join again, with a new token."""
    confirm(f"Let {node_id} join again?", yes=yes)
    body = {name: value for name, value in given.items() if value is not None}
    answer = asked.post("nodes", node_id, "readmit", body=body)
    asked.say(answer, f"readmitted: {node_id}; next: holdfastctl tokens create --node {node_id}")


def _render_all(answer: dict[str, Any]) -> None:
    rows = (
        (
            each["node_id"],
            each["kind"],
            each["site_id"],
            each["state"],
            each["why"] or "-",
            each["agent_version"],
            output.time(each["last_seen"]),
            output.time(each["certificate_expires_at"]),
            each["labels"],
        )
        for each in answer["nodes"]
    )
    columns = (
        "node",
        "kind",
        "site",
        "state",
        "not as it should be",
        "agent",
        "last seen",
        "certificate until",
        "labels",
    )
    output.table(columns, rows, nothing="no such member; `holdfastctl allow add` lets one join")


def _render_events(answer: dict[str, Any]) -> None:
    rows = ((each["at"], each["event"], each["scope"] or "-", each["detail"]) for each in answer["events"])
    output.table(("at", "what", "scope", "detail"), rows, nothing="the node has told of nothing yet")


def _render_versions(answer: dict[str, Any]) -> None:
    rows = (
        (
            each["authority_epoch"],
            each["config_version"],
            output.time(each["published_at"]),
            "kept" if each["is_kept"] else "gone",
            each["content_hash"],
        )
        for each in answer["versions"]
    )
    output.table(("epoch", "version", "published", "document", "content"), rows, nothing="nothing was published")

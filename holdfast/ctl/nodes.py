"""`holdfastctl nodes`: who belongs to the cluster."""

from collections.abc import Iterable
from dataclasses import asdict

import click

from holdfast.ctl import node, output
from holdfast.ctl.selection import selects_nodes
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from wire.operators.fleet_answers import Listed, MemberDetail, MemberPage, NodeEvents, NodeNamed
from wire.operators.operator_answers import AllowlistEntry
from wire.operators.operator_messages import EntryRequest, ReasonRequest
from wire.operators.trust_answers import PublishedVersions

LATEST = 10  # events of one node, beside all the rest


@click.group()
def nodes() -> None:
    """Members of the cluster."""


@nodes.command("list")
@selects_nodes
@asks_the_coordinator
def list_(asked: CoordinatorClient, site: str | None, labels: tuple[str, ...], state: str | None) -> None:
    """Every member, revoked ones too: how it is, which agent it runs, what it does not hold yet."""
    pages = asked.pages(MemberPage, "nodes", site=site, label=labels, state=state)
    found = [node for page in pages for node in page.nodes]
    asked.show({"nodes": [asdict(member) for member in found]}, lambda _: _render_all(found))


@nodes.command()
@click.argument("node_id")
@asks_the_coordinator
def show(asked: CoordinatorClient, node_id: str) -> None:
    """One member: what it is, what it holds, what it was like of late, and what it told last."""
    member = asked.get(MemberDetail, "nodes", node_id)
    told = asked.get(NodeEvents, "nodes", node_id, "events", most=LATEST)
    asked.show({**asdict(member), **asdict(told)}, lambda _: node.render(member, told.events))


@nodes.command()
@click.argument("node_id")
@click.option("--most", type=click.IntRange(1, 1000), default=50, show_default=True)
@asks_the_coordinator
def events(asked: CoordinatorClient, node_id: str, most: int) -> None:
    """What a node has told of itself, the newest first: state changes, activations, refusals and their reasons."""
    asked.show(asked.get(NodeEvents, "nodes", node_id, "events", most=most), _render_events)


@nodes.command()
@click.argument("node_id")
@click.argument("scope")
@asks_the_coordinator
def versions(asked: CoordinatorClient, node_id: str, scope: str) -> None:
    """The versions of a scope that were ever published for a node: what `recover` can go back to."""
    asked.show(asked.get(PublishedVersions, "nodes", node_id, "versions", scope), _render_versions)


@nodes.command()
@click.argument("node_id")
@click.option("--reason", required=True, help="For the audit log.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: CoordinatorClient, node_id: str, reason: str, yes: bool) -> None:
    """Take a node out of the cluster. Its id stays out until `nodes readmit`."""
    confirm(f"Remove the node {node_id}?", yes=yes)
    answer = asked.post(NodeNamed, "nodes", node_id, "remove", body=ReasonRequest(reason))
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
    answer = asked.post(AllowlistEntry, "nodes", node_id, "readmit", body=EntryRequest(**given))
    asked.say(answer, f"readmitted: {node_id}; next: holdfastctl tokens create --node {node_id}")


def _render_all(found: Iterable[Listed]) -> None:
    rows = (
        (
            member.node_id,
            member.kind,
            member.site_id,
            member.state,
            member.why or "-",
            member.agent_version,
            output.time(member.last_seen),
            output.time(member.certificate_expires_at),
            member.labels,
        )
        for member in found
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


def _render_events(answer: NodeEvents) -> None:
    rows = ((event.at, event.event, event.scope or "-", event.detail) for event in answer.events)
    output.table(("at", "what", "scope", "detail"), rows, nothing="the node has told of nothing yet")


def _render_versions(answer: PublishedVersions) -> None:
    rows = (
        (
            version.authority_epoch,
            version.config_version,
            output.time(version.published_at),
            "kept" if version.is_kept else "gone",
            version.content_hash,
        )
        for version in answer.versions
    )
    output.table(("epoch", "version", "published", "document", "content"), rows, nothing="nothing was published")

"""`holdfastctl nodes`: who belongs to the cluster, and how a member is taken out of it.

A removal by force (rules J32) is a trust bundle that raises the epoch, which root keys sign: here and now
(`--root-key`), or where they are. Then the command comes twice, with the same `--request`: first the file is written,
and once `trust sign` has signed it, the node goes with it.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain

import click

from coordinator.base.refusal import Code, Refused
from coordinator.trust.signing_requests import SigningRequest
from holdfast.ctl import node, output
from holdfast.ctl.selection import selects_nodes
from holdfast.ctl.signing import (
    Signable,
    Signing,
    bundle_options,
    describe,
    draft,
    missing,
    read_request,
    sign,
    wishes,
    write_away,
)
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from wire.operators.fleet_answers import (
    DrainingNode,
    Listed,
    MemberDetail,
    MemberPage,
    NodeEvents,
    NodeNamed,
    TrimmedNodes,
    TrimPlan,
)
from wire.operators.operator_answers import AllowlistEntry
from wire.operators.operator_messages import ASKED_MAX, EntryRequest, LeavingRequest, TrimRequest
from wire.operators.trust_answers import PublishedVersions
from wire.operators.trust_messages import EpochWish, ForcedRemoval

LATEST = 10  # events of one node, beside all the rest
reason_option = click.option("--reason", default="", help="For the audit log.")


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
@reason_option
@asks_the_coordinator
def drain(asked: CoordinatorClient, node_id: str, reason: str) -> None:
    """Give a node nothing new. It keeps what it has, which is renewed, until it is removed, or `undrain`."""
    answer = asked.post(DrainingNode, "nodes", node_id, "drain", body=LeavingRequest(reason))
    asked.say(answer, f"draining since {output.time(answer.since)}: {node_id}")


@nodes.command()
@click.argument("node_id")
@reason_option
@asks_the_coordinator
def undrain(asked: CoordinatorClient, node_id: str, reason: str) -> None:
    """Give a node again whatever is declared for it."""
    answer = asked.post(NodeNamed, "nodes", node_id, "undrain", body=LeavingRequest(reason))
    asked.say(answer, f"not draining: {node_id}")


@nodes.command()
@click.argument("node_id")
@click.option("--reason", default="", help="For the audit log; of a forced removal it has to be given.")
@click.option("--force", is_flag=True, help="Also one that is not draining, or that others name: with root keys.")
@bundle_options
@asks_the_coordinator
def remove(asked: CoordinatorClient, node_id: str, reason: str, force: bool, signing: Signing) -> None:
    """Take a node out of the cluster: one that is draining, and that nothing names.

    Its id stays out until `nodes readmit`. By --force the epoch is raised in the same act, which root keys sign: with
    --root-key at once; else --request is written, and given once more when it is signed.
    """
    if force:
        _remove_by_force(asked, node_id, reason, signing)
        return
    if signing.keys or signing.request is not None:
        raise Refused(Code.BAD_REQUEST, "root keys and requests are for --force", remedy="leave them out")
    confirm(f"Remove the node {node_id}?", yes=signing.yes)
    answer = asked.post(NodeNamed, "nodes", node_id, "remove", body=LeavingRequest(reason))
    asked.say(answer, f"removed: {node_id}")


@nodes.command()
@click.option("--dry-run", is_flag=True, help="Show them, and change nothing.  [the default]")
@click.option("--all-due", is_flag=True, help="Remove all that are due, also where they are more than a tenth.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def trim(asked: CoordinatorClient, dry_run: bool, all_due: bool, yes: bool) -> None:
    """Members that nobody has seen for `trim_window_s`, and those that will be due within a week.

    The coordinator removes them by itself, at most a tenth of the fleet in a window. Where more are due, nobody goes
    until somebody has looked: with --all-due those that are shown do.
    """
    if dry_run and all_due:
        raise Refused(Code.BAD_REQUEST, "--dry-run changes nothing, and --all-due does", remedy="give one of them")
    planned = asked.get(TrimPlan, "trim")
    if not all_due:
        asked.show(planned, _render_trim)
        return
    if not asked.as_json:
        _render_trim(planned)
    if not planned.due:
        raise Refused(Code.CONFLICT, "nobody is due", remedy="nothing was changed")
    confirm(f"Remove {len(planned.due)} members that are due?", yes=yes)
    named = tuple(member.node_id for member in planned.due)
    parts = (named[at : at + ASKED_MAX] for at in range(0, len(named), ASKED_MAX))
    gone = [asked.post(TrimmedNodes, "trim", body=TrimRequest(part)).node_ids for part in parts]
    together = TrimmedNodes(tuple(chain.from_iterable(gone)))
    asked.say(together, f"removed: {', '.join(together.node_ids)}")


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


def _remove_by_force(asked: CoordinatorClient, node_id: str, reason: str, signing: Signing) -> None:
    if not reason:
        raise Refused(Code.BAD_REQUEST, "a forced removal needs a reason", remedy="--reason TEXT")
    request: Signable = _earlier_request(signing) or draft(asked, signing, wishes(EpochWish(None)))
    if signing.keys:
        confirm(f"Remove the node {node_id} by force, and sign {request.about}?", yes=signing.yes)
        request = sign(request, signing.keys, signing.passphrase_files)
    if not request.is_complete():
        again = f'holdfastctl nodes remove {node_id} --force --reason "..." --request'
        write_away(asked, signing, request, again)
        return
    if not signing.keys:
        confirm(f"Remove the node {node_id} by force?", yes=signing.yes)
    body = ForcedRemoval(reason, request.document().to_bytes(), signing.despite_reports)
    answer = asked.post(NodeNamed, "nodes", node_id, "remove", "forced", body=body)
    asked.say(answer, f"removed by force: {node_id}; done: {request.about}")


def _earlier_request(signing: Signing) -> SigningRequest | None:
    """The request of the first time, which somebody has signed meanwhile."""
    if signing.request is None or not signing.request.exists():
        return None
    request = read_request(signing.request)
    describe(request, err=True)
    if not (request.is_complete() or signing.keys):
        raise Refused(Code.CONFLICT, f"{signing.request}: {missing(request)}", remedy="have it signed, and repeat this")
    return request


def _render_trim(planned: TrimPlan) -> None:
    ready = "not without a gap" if planned.ready_since is None else f"since {output.time(planned.ready_since)}"
    output.facts(
        [
            ("window", f"{planned.window_s // 86_400} days without a sign of life"),
            ("ready to see them", ready),
            ("may go by themselves", planned.allowance),
            ("HELD BACK", planned.held_back),
        ]
    )
    rows = [
        (member.node_id, output.time(member.last_seen), output.time(member.removed_at), said)
        for said, members in (("due", planned.due), ("soon", planned.soon))
        for member in members
    ]
    output.table(("node", "last seen", "goes from", "is"), rows, nothing="nobody is due within a week")


def _render_all(found: Iterable[Listed]) -> None:
    rows = (
        (
            member.node_id,
            member.kind,
            member.site_id,
            member.state,
            output.time(member.draining_since),
            member.why or "-",
            member.versions_behind or "-",
            member.came_from,
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
        "draining since",
        "not as it should be",
        "versions behind",
        "versions came from",
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

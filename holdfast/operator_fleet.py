"""`holdfastctl status`, `fleet`, `audit`: how things stand, and who made them so."""

from typing import Any

import click

from holdfast import operator_output as output
from holdfast.operator_socket import Asked, asks_the_coordinator


@click.command()
@asks_the_coordinator
def status(asked: Asked) -> None:
    """The coordinator: its cluster, its state, its trust bundle, how publishing goes."""
    asked.show(asked.get("status"), _render_status)


@click.command()
@asks_the_coordinator
def fleet(asked: Asked) -> None:
    """The nodes: states, versions, lag, and who is behind and why."""
    asked.show(asked.get("fleet"), _render_fleet)


@click.command()
@click.option("--most", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--action", help="Only this action, as `revoke` or `trust_bundle.add`.")
@click.option("--before", type=click.IntRange(1), help="Page on from this entry.")
@asks_the_coordinator
def audit(asked: Asked, most: int, action: str | None, before: int | None) -> None:
    """Who changed what and when, the newest first."""
    asked.show(asked.get("audit", most=most, action=action, before=before), _render_audit)


def _render_status(answer: dict[str, Any]) -> None:
    bundle, publishing = answer["trust_bundle"], answer["publishing"]
    trusted = "none" if bundle is None else f"version {bundle['config_version']}, until {bundle['expires_at']}"
    output.facts(
        [
            ("cluster", answer["cluster_id"]),
            ("coordinator", answer["coordinator_id"]),
            ("authority epoch", answer["authority_epoch"]),
            ("revision", answer["revision"]),
            ("trust bundle", trusted),
            ("certificate", f"{answer['certificate']['sha256']}, until {answer['certificate']['expires_at']}"),
            ("nodes waiting", answer["held_polls"]),
            ("put back", answer["put_back"] or "no"),
            ("publishing", publishing["fault"] or "good"),
            ("heads to make", publishing["behind"]),
            ("alarms", answer["alarms"]),
        ]
    )
    rows = [(node, scope, why) for node, scopes in publishing["failed"].items() for scope, why in scopes.items()]
    if rows:
        click.echo()
        output.table(("node", "scope", "not published because"), rows, nothing="")


def _render_fleet(answer: dict[str, Any]) -> None:
    short = answer["baseline_shortfall"]
    if answer["put_back"]:
        click.echo(f"NOT READY: {answer['put_back']}\n")
    output.facts(
        [
            ("members", answer["members"]),
            ("data members", f"{answer['data_members']}" + (f", {short} below the baseline" if short else "")),
            ("states", answer["states"]),
            ("heads", answer["grades"]),
            ("versions behind", answer["lag_versions"]),
            ("seconds since seen", {name: round(value) for name, value in answer["seconds_since_seen"].items()}),
            ("joins refused", answer["rejected_joins"]),
        ]
    )
    rows = ((each["node_id"], each["reason"], _seconds(each["seconds_since_seen"])) for each in answer["stragglers"])
    click.echo()
    output.table(("node", "why", "last seen"), rows, nothing="every node holds what it should")


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{round(value)} s ago"


def _render_audit(answer: dict[str, Any]) -> None:
    rows = [
        (each["audit_id"], output.time(each["at"]), each["actor"], each["action"], each["subject"], each["outcome"])
        for each in answer["entries"]
    ]
    output.table(("entry", "at", "who", "what", "of", "outcome"), rows, nothing="nothing was done yet")

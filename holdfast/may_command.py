"""`holdfast may ACTION`: what the gate of degraded mode says."""

import json
from dataclasses import asdict

import click

from holdfast.agent_options import EXITS, NO, asks_the_agent
from holdfast.client import Client, Permission, unix_seconds
from holdfast.clock import wall_clock
from holdfast.durations import in_words

# What a person does about each answer; the words are those of protocol.md 4.
REMEDIES = {
    "not_in_policy": "the degraded_mode_policy does not allow it, or no active scope of this node names the resource",
    "no_degraded_policy": "this node has no valid degraded_mode_policy, so nothing goes on without a fresh head: "
    "bring the coordinator back",
    "degraded_limit": "the time that the degraded_mode_policy gives is over: bring the coordinator back",
    "scope_expired": "the scope has expired: bring the coordinator back, or import a renewed document",
    "signer_revoked": "the signer of the scope was revoked: a full document by another signer is needed",
    "revoked": "it has been revoked, see holdfastctl explain",
    "stale_epoch": "the scope is of an earlier authority epoch: a full document of the present one is needed",
    "forbidden_in_degraded": "no node ever does this by itself: it is for the coordinator and its operators",
    "unknown_action": "there is no such action: see protocol.md 4",
    "unconfirmed_start": "since its start the agent has not reached a coordinator, and the policy asks for that",
    "clock_regressed": "this node's clock is behind what signed documents prove: set it right",
}


def _running_since(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else unix_seconds(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not of the form YYYY-MM-DDTHH:MM:SSZ") from None


@click.command("may", epilog=EXITS)
@click.argument("action")
@click.option("--scope", help="The scope that the action rests on.")
@click.option("--resource", help="The service, route, peer, endpoint or secret that it is about.")
@click.option(
    "--running-since", metavar="TIME", callback=_running_since, help="It has been running since YYYY-MM-DDTHH:MM:SSZ."
)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@asks_the_agent
def command(
    client: Client, action: str, scope: str | None, resource: str | None, running_since: int | None, as_json: bool
) -> None:
    """Ask whether this node may do ACTION now: exit 0 for yes, 1 for no.

    For example start_service, open_session, open_route, add_peer, resolve_secret, continue_services.
    """
    answer = client.may(action, scope=scope, resource=resource, running_since=running_since)
    if as_json:
        click.echo(json.dumps(asdict(answer)))  # noqa: TID251 - a report, no document
    else:
        _render(action, answer, wall_clock())
    raise SystemExit(0 if answer.allowed else NO)


def _render(action: str, answer: Permission, now: float) -> None:
    word = click.style("yes", fg="green", bold=True) if answer.allowed else click.style("no", fg="red", bold=True)
    lasts = f", for the next {in_words(answer.until - now)}" if answer.until is not None else ""
    click.echo(f"{word}  {action}: {answer.reason} (mode {answer.mode}){lasts}")
    if not answer.allowed and answer.reason in REMEDIES:
        click.echo(f"     {REMEDIES[answer.reason]}")

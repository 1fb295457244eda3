"""`holdfast may ACTION`: what the gate of degraded mode says."""

import json
from dataclasses import asdict

import click

from holdfast.client import Client, Permission, unix_seconds
from holdfast.node.agent_options import EXITS, NO, asks_the_agent
from holdfast.node.explanations import answer_text
from holdfast.terminal import completion
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.durations import in_words
from holdfast.terminal.shown import say


def _running_since(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else unix_seconds(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not of the form YYYY-MM-DDTHH:MM:SSZ") from None


@click.command("may", epilog=EXITS)
@click.argument("action")
@click.option("--scope", shell_complete=completion.scopes, help="The scope that the action rests on.")
@click.option("--resource", help="The service, route, peer, endpoint or secret that it is about.")
@click.option(
    "--running-since", metavar="TIME", callback=_running_since,
    help="Ask about one that was there at YYYY-MM-DDTHH:MM:SSZ. Of services the node believes itself alone.",
)  # fmt: skip
@click.option("--certificate", metavar="sha256:HEX", help="The certificate that a peer has shown: is it pinned?")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@asks_the_agent
def command(
    client: Client,
    action: str,
    scope: str | None,
    resource: str | None,
    running_since: int | None,
    certificate: str | None,
    as_json: bool,
) -> None:
    """Ask whether this node may do ACTION now: exit 0 for yes, 1 for no.

    For example continue_services, start_service, open_session, open_route, add_peer, resolve_secret. In an outage a
    service may go on that the node has seen running while the head was fresh; else the answer is not_seen_running.
    Before it speaks to a peer a service asks validate_peers with the peer's id and the certificate that it has shown.
    """
    answer = client.may(action, scope=scope, resource=resource, running_since=running_since, certificate=certificate)
    if as_json:
        say(json.dumps(asdict(answer)))  # noqa: TID251 - a report, no document
    else:
        _render(action, answer, wall_clock())
    raise SystemExit(0 if answer.allowed else NO)


def _render(action: str, answer: Permission, now: float) -> None:
    lasts = f", for the next {in_words(answer.until - now)}" if answer.until is not None else ""
    say("yes" if answer.allowed else "no", fg="green" if answer.allowed else "red", bold=True, nl=False)
    say(f"  {action}: {answer.reason} (mode {answer.mode}){lasts}")
    remedy = answer_text(answer.reason)
    if not answer.allowed and remedy:
        say(f"     {remedy}")

"""`holdfast explain SCOPE`: where a scope comes from, why the last one was refused, what happens next and when."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from holdfast.client import Client, Expired, NotFound, unix_seconds
from holdfast.node.agent_options import EXITS, NOT_FOUND, asks_the_agent, fail
from holdfast.node.agent_status import parse_status
from holdfast.node.explanations import REFRESH_REQUIRED, cause_text, meaning, refused_candidate_text
from holdfast.terminal import completion
from holdfast.terminal.audience import describe_audience
from holdfast.terminal.durations import from_now, in_words, until
from holdfast.terminal.relay_words import giver_text
from holdfast.terminal.shown import say, say_json
from snapshot.identifiers import format_time
from wire.local.node_status import AwaitedVersion, CandidateState, NodeStatus
from wire.messages import DocumentOrigin, LastRejected, ScopeReport

Line = tuple[str, str]
NOTHING = ScopeReport(active=None, previous=None, pending=None, last_rejected=None, notified={})


@click.command("explain", epilog=EXITS)
@click.argument("scope", shell_complete=completion.scopes)
@click.option("--json", "as_json", is_flag=True, help="What it is said from, as one JSON object.")
@asks_the_agent
def command(client: Client, scope: str, as_json: bool) -> None:
    """Say of SCOPE what this node holds, who signed it, why the last one was refused, and what comes next."""
    answered = client.status()
    status = parse_status(answered)
    listed = {*status.awaited, *status.candidates}
    report = status.scopes.get(scope) or (NOTHING if scope in listed else None)
    if report is None:
        known = ", ".join(sorted({*status.scopes, *listed})) or "none"
        fail(f"nothing of the scope {scope} has ever arrived here; there are: {known}", NOT_FOUND)
    envelope, details = _envelope(client, scope), _details(client, scope)
    if as_json:
        value = _value(scope, report, answered) | {"envelope": envelope or None, "rejections": details}
        say_json(value)
        return
    now = unix_seconds(status.now)
    say(scope, bold=True)
    lines = [
        *_holds(scope, report, envelope, now),
        *_origin(status.origins.get(scope), report),
        *_refusal_lines(report.last_rejected, details, now),
        *_sources(status),
        *_next(scope, status, report, now),
    ]
    for name, text in lines:
        say(f"  {name:<14}{text}")


def _value(scope: str, report: ScopeReport, status: Mapping[str, Any]) -> dict[str, object]:
    """The status as it was answered, as far as it is of this scope."""
    return {
        "scope": scope,
        "report": report.to_value(),
        "origin": status.get("origins", {}).get(scope),
        "awaited": status.get("awaited", {}).get(scope),
        "candidate": status.get("candidates", {}).get(scope),
        "refresh_required": scope in status.get("refresh_required", ()),
        **{name: status.get(name) for name in ("now", "head", "fence", "sources")},
    }


def _envelope(client: Client, scope: str) -> Mapping[str, Any]:
    """Empty where the scope is not active, or not for this caller to read."""
    try:
        envelope: Mapping[str, Any] = client.document(scope, expired=True)["envelope"]
    except (NotFound, Expired):
        return {}
    return envelope


def _details(client: Client, scope: str) -> list[dict[str, Any]]:
    """None where the scope is not for this caller to read."""
    try:
        return client.rejections(scope)
    except NotFound:
        return []


def _holds(scope: str, report: ScopeReport, envelope: Mapping[str, Any], now: float) -> Iterator[Line]:
    active = report.active
    if active is None:
        yield "holds", "nothing that is active"
    else:
        yield "holds", f"version {active.config_version} of epoch {active.authority_epoch}, {active.grade}"
        yield "document", active.snapshot_id
        yield "content", active.content_hash
        yield "signed by", active.signer_key_id
        if envelope.get("subject_node_id"):
            audience = (envelope["subject_node_id"], envelope["roles"], envelope["organization_ids"])
            yield "made for", describe_audience(scope, *audience)
            dated = f"{until(envelope['issued_at'], now)}, dated up to 5 min back for clocks that are behind"
            yield "issued", f"{envelope['issued_at']}, {dated}"
        yield "applied", f"{format_time(active.applied_at)}, {from_now(active.applied_at, now)}"
    if report.previous:
        yield "before it", f"version {report.previous.config_version} (holdfast diff active previous {scope})"
    for service, told in sorted(report.notified.items()):
        yield "told", f"{service}: version {told.version}{'' if told.ok else ', which failed'}"


def _origin(origin: DocumentOrigin | None, report: ScopeReport) -> Iterator[Line]:
    """Where the active document came from; not known of one that another agent took."""
    active = report.active
    if origin is not None and active is not None and origin.snapshot_id == active.snapshot_id:
        who = giver_text(origin)
        where = who if origin.source in who or origin.way == origin.source else f"{who} ({origin.source})"
        yield "came from", f"{where}, as {'an increment' if origin.kind == 'increment' else 'a whole'}"


def _refusal_lines(refused: LastRejected | None, details: Sequence[Mapping[str, Any]], now: float) -> Iterator[Line]:
    if refused is None:
        return
    which = f"version {refused.config_version} " if refused.config_version else ""
    yield "last refused", f"{which}{from_now(refused.at, now)}, at step {refused.step}"
    yield "because", meaning(refused.reason)
    at = format_time(refused.at)
    told = next((detail for detail in details if detail["at"] == at and detail["detail"]), None)
    if told is not None:
        yield "it said", told["detail"]
        yield "it came from", told["source"]


def _sources(status: NodeStatus) -> Iterator[Line]:
    """Where documents are asked for, in that order."""
    for source in status.sources:
        error = f": {source.error}; again {_soon(source.again_in_s)}" if source.error else ""
        yield "asks", f"{source.url} ({source.kind}){error}"


def _next(scope: str, status: NodeStatus, report: ScopeReport, now: float) -> Iterator[Line]:
    """What happens without anybody doing anything."""
    pending, active, head = report.pending, report.active, status.head
    awaited = status.awaited.get(scope)
    if awaited is not None:
        yield "awaited", _awaited_version(awaited)
    coming = status.candidates.get(scope)
    if coming is not None:
        yield "to come", _candidate(coming)
    if scope in status.refresh_required:
        yield "to do", REFRESH_REQUIRED
    if pending:
        yield "waits", f"version {pending.config_version}, until its valid_from"
    cause = status.fence
    if cause:
        yield "now", f"the node is fenced: {cause_text(cause)}"
    if head is not None and head.grade == "fresh":
        yield "next", f"the head expires {until(head.expires_at, now)} unless a new one comes; then degraded mode"
    elif head is not None and not cause:
        yield "next", "the head has expired: the degraded_mode_policy says what goes on, and for how long"
    if active is not None and active.grade != "expired":
        ends = f"{from_now(active.expires_at, now)} ({format_time(active.expires_at)})"
        yield "then", f"it expires {ends}: nothing new on it then"
    elif active is not None:
        yield "then", "it has expired: a renewed version is taken as soon as one comes (or holdfast import FILE)"


def _awaited_version(awaited: AwaitedVersion) -> str:
    said = f"version {awaited.config_version} is what the head lists"
    if awaited.below_accepted:
        return f"{said}, below what was accepted: it is not followed without a recovery"
    if awaited.again_in_s is None:
        again = "until the head lists another, or you ask: systemctl reload holdfast-agent"
        return f"{said}; a service keeps it out {again}"
    return f"{said}; it is asked for {_soon(awaited.again_in_s)}"


def _candidate(coming: CandidateState) -> str:
    version = f"version {coming.config_version}"
    if coming.verdict == "refused":
        return f"{version}, {refused_candidate_text(coming)}"
    judged = "this node could run it" if coming.verdict == "accepted" else "it is not judged here yet"
    return f"{version}{f' with {coming.change}' if coming.change else ''}; {judged}"


def _soon(seconds: int) -> str:
    return f"in {in_words(seconds)}" if seconds > 0 else "now"

"""The status of a node as a screen: first how it is, then what it holds, then what is amiss and what to do."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from holdfast.client import unix_seconds
from holdfast.node.explanations import (
    FIRST_USE,
    FIRST_USE_REMEDY,
    REFRESH_REQUIRED,
    cause_text,
    failure_text,
    is_cause,
    meaning,
    refused_candidate_text,
    store_text,
)
from holdfast.terminal.durations import from_now, in_words, until
from holdfast.terminal.status_peers import made_table, neighbourhood, origin_text
from snapshot.ending import Urgency, short
from snapshot.identifiers import HEAD
from wire.endings import EndingThing
from wire.local.node_status import AskedSource, CandidateState, NodeStatus, PinnedRoots, ScopeRefusal
from wire.messages import Active, LastRejected, Reverted

STYLES = {
    "active": "bold green",
    "recovering": "bold yellow",
    "degraded": "bold yellow",
    "waiting": "bold yellow",
    "joining": "bold yellow",
    "fenced": "bold red",
    "revoked": "bold red",
    "unenrolled": "bold red",
}
QUARANTINED = "quarantined"
REVERT_REMEDY = "apply other content, or once it is mended: holdfast quarantine clear SCOPE"
GRADES = {"fresh": "green", "stale": "yellow", "expired": "red"}
VERDICTS = {"awaited": "yellow", "accepted": "green", "refused": "red"}


def screen(status: NodeStatus, now: float) -> RenderableType:
    """Of a status whose texts are shown (shown.py)."""
    parts: list[RenderableType] = [_headline(status), _freshness(status, now), Text()]
    parts.append(_scopes(status, now))
    if status.candidates:
        parts += [Text(), _candidates(status)]
    parts += neighbourhood(status)
    if status.services:
        parts += [Text(), _services(status)]
    if (hidden := status.hidden).scopes or hidden.services:
        words = f"not for this account: {hidden.scopes} scopes, {hidden.services} services; root sees all"
        parts += [Text(), Text(words, style="dim")]
    problems = list(problems_of(status, now))
    if problems:
        parts += [Text(), Text("To look at", style="bold")]
        parts += [Padding(Text(f"- {problem}"), (0, 0, 0, 2)) for problem in problems]
    return Group(*parts)


def _headline(status: NodeStatus) -> Text:
    who = f"{status.node_id or 'this node'} in {status.cluster_id or 'no cluster'}"
    state = (status.state.upper(), STYLES.get(status.state, "bold"))
    line = Text.assemble(state, f"  {who}", f"  generation {status.generation}")
    if status.mode != "normal":
        line.append(f"  {status.mode}", "bold yellow" if status.mode == "degraded" else "bold red")
    return line


def _freshness(status: NodeStatus, now: float) -> Text:
    head = status.head
    if head is None:
        return Text("no head has been received yet")
    grade = head.grade
    manual = any(source.kind == "manual" for source in status.sources)
    who = "by its manual map" if manual else "by the coordinator" if grade == "fresh" else "by a coordinator"
    said = f"confirmed {who}" if grade == "fresh" else f"not confirmed {who} any more"
    style = GRADES[grade]
    if grade == "fresh" and status.rollback_check == "unconfirmed":
        said, style = f"not confirmed {who} since the start", GRADES["stale"]
    return Text.assemble(
        (said, style), f"  head {head.generation}, ",
        f"{'expires' if grade == 'fresh' else 'expired'} {until(head.expires_at, now)}",
    )  # fmt: skip


def _scopes(status: NodeStatus, now: float) -> Table:
    refusals = ["LAST REFUSED"] if any(scope.last_rejected for scope in status.scopes.values()) else []
    origins = ["CAME FROM"] if status.origins else []
    table = made_table("SCOPE", "VERSION", "GRADE", "EXPIRES", *origins, *refusals)
    for name, scope in status.scopes.items():
        active, refused = _line_of(name, status), scope.last_rejected
        version = f"{active.authority_epoch}.{active.config_version}" if active else "-"
        if scope.pending:
            version += f" (next {scope.pending.config_version})"
        if scope.probation_until is not None:
            version += f" (on probation, {from_now(scope.probation_until, now)})"
        grade = active.grade if active else "missing"
        table.add_row(
            name,
            version,
            Text(grade, style=GRADES.get(grade, "red")),
            from_now(active.expires_at, now) if active else "-",
            *([origin_text(name, status)] if origins else []),
            *([f"{refused.reason}, {from_now(refused.at, now)}" if refused else ""] if refusals else []),
        )
    return table


@dataclass(frozen=True)
class HeldLine:
    """What is active of a scope, as far as the screen shows it. `applied_at` is None of the head."""

    authority_epoch: int
    config_version: int
    grade: str
    expires_at: int
    applied_at: int | None


def _line_of(name: str, status: NodeStatus) -> HeldLine | None:
    """Of what is active; the head is reported apart, and stands here while one that came later is refused."""
    active, head = status.scopes[name].active, status.head
    if name == HEAD and head is not None:
        return HeldLine(head.authority_epoch, head.generation, head.grade, unix_seconds(head.expires_at), None)
    if active is None:
        return None
    return HeldLine(active.authority_epoch, active.config_version, active.grade, active.expires_at, active.applied_at)


def _candidates(status: NodeStatus) -> Table:
    """What the head says is coming: nothing of it runs."""
    table = made_table("COMING", "VERSION", "CHANGE", "HERE")
    for name, coming in status.candidates.items():
        here = Text(coming.verdict if coming.verdict != "refused" else coming.reason, style=VERDICTS[coming.verdict])
        table.add_row(name, f"{coming.authority_epoch}.{coming.config_version}", coming.change or "-", here)
    return table


def _services(status: NodeStatus) -> Table:
    table = made_table("SERVICE", "READY", "TOLD", "ANSWER")
    for name, service in status.services.items():
        ready = Text("yes", style="green") if service.ready else Text(f"no, {service.reason}", style="red")
        told = service.told_generation
        said = "-" if told is None else f"{told}{'' if service.up_to_date else ', behind'}"
        answer = Text(service.answer, style="" if service.answer_ok is not False else "red")
        table.add_row(name, ready, said, answer)
    return table


def problems_of(status: NodeStatus, now: float) -> Iterator[str]:
    """Each with its remedy, the most urgent first."""
    if (failure := status.join) is not None:
        tried = f"tried {until(failure.at, now)}, again {until(failure.again_at, now)}"
        yield f"{_join_line(status)}: {failure_text(failure)}; {tried}"
    cause = status.fence or status.cause
    if cause and (failure is None or is_cause(cause)):
        yield f"{cause}: {cause_text(cause)}"
    yield from _problems_of_roots(status.roots)
    for name in status.scopes:
        yield from _problems_of_scope(name, status, now)
    yield from _problems_of_candidates(status.candidates)
    for name in status.refresh_required:
        yield f"{name}: {REFRESH_REQUIRED}"
    yield from _problems_of_sources(status.sources)
    for name, service in status.services.items():
        if service.outcome == "not_running":
            yield f"{name} did not run when it was told: systemctl status of its unit; its start reads what is active"
        elif service.answer_ok is False:
            yield f"{name} could not be told: {service.answer}"
    if fault := status.store.fault:
        yield f"{fault}: {store_text(fault)}"
    yield from _problems_of_ends(status.ends, now)
    if why := status.files.error or status.files.fault:
        yield f"the files are not up to date: {why}"


def _problems_of_roots(roots: PinnedRoots | None) -> Iterator[str]:
    if roots is not None and not roots.confirmed:
        yield f"{FIRST_USE}: {', '.join(map(short, roots.root_key_ids))}; {FIRST_USE_REMEDY}"


def _problems_of_candidates(candidates: Mapping[str, CandidateState]) -> Iterator[str]:
    for name, coming in candidates.items():
        if coming.verdict == "refused":
            yield f"{name} {coming.authority_epoch}.{coming.config_version}, {refused_candidate_text(coming)}"


def _problems_of_sources(sources: Iterable[AskedSource]) -> Iterator[str]:
    for source in sources:
        if source.error:
            again = f"again in {in_words(source.again_in_s)}" if source.again_in_s else "asked again now"
            who = f"peer {source.node_id}, {source.peer_set}" if source.node_id else source.kind
            yield f"{source.url} ({who}): {source.error}; {again}"


def _problems_of_ends(ends: Iterable[EndingThing], now: float) -> Iterator[str]:
    for end in ends:
        if end.urgency in (Urgency.SOON, Urgency.ENDED):
            what = f"{end.what.replace('_', ' ')} {short(end.name)}"
            verb = "has ended" if end.urgency == Urgency.ENDED else "ends"
            yield f"{what} {verb} {until(end.ends, now)}: {end.then}; {end.remedy}"


def _join_line(status: NodeStatus) -> str:
    return "not a member yet" if status.state in ("unenrolled", "joining") else "it speaks to no coordinator"


def _problems_of_scope(name: str, status: NodeStatus, now: float) -> Iterator[str]:
    active, refused = _line_of(name, status), status.scopes[name].last_rejected
    standing = status.refused.get(name)
    reverted = status.scopes[name].reverted
    if reverted is not None:
        yield _revert_line(name, reverted, status.scopes[name].active, now)
    if standing is not None and (reverted is None or standing.reason != QUARANTINED):
        yield _refusal_line(standing, refused, now)
    elif refused and refused.reason != QUARANTINED and not _is_superseded(active, refused):
        yield f"{name} was refused {from_now(refused.at, now)}: {meaning(refused.reason)}"
    if not active:
        yield f"{name} is not active: holdfast explain {name}"
    elif name != HEAD and active.grade == "expired":
        yield f"{name} has expired: nothing new is authorised on it until it is renewed"


def _refusal_line(refusal: ScopeRefusal, last: LastRejected | None, now: float) -> str:
    """Since when, by whom, and until when it goes on with what."""
    why = f"{refusal.reason} by {refusal.source}"
    words = f"{refusal.scope} has refused {refusal.refused} since {refusal.since} ({why}), "
    if refusal.runs is None or refusal.expires_at is None:
        words += "and runs nothing of it"
    else:
        is_over = unix_seconds(refusal.expires_at) <= now
        verb = "expired" if is_over else "EXPIRES SOON:" if refusal.soon else "good until"
        words += f"runs {refusal.runs}, {verb} {refusal.expires_at}"
    return f"{words}: {meaning(last.reason)}" if last else words


def _revert_line(name: str, reverted: Reverted, active: Active | None, now: float) -> str:
    """What was tried, and what became of it: that it never came is another thing."""
    said = f"{reverted.check}: {reverted.detail}" if reverted.detail else reverted.check
    tried = f"{name} tried version {reverted.config_version} {from_now(reverted.at, now)}, which failed ({said})"
    if active is None:
        return f"{tried}, and runs nothing of it now"
    if active.content_hash == reverted.content_hash:
        return f"{tried}, and had nothing to go back to: it runs on; apply other content"
    return f"{tried}, and went back: it runs {active.authority_epoch}.{active.config_version}; {REVERT_REMEDY}"


def _is_superseded(held: HeldLine | None, refused: LastRejected) -> bool:
    """Whether a good version was applied since the last one was refused; a refused head ends by itself then."""
    return held is not None and held.applied_at is not None and held.applied_at > refused.at

"""The status of a node as a screen: first how it is, then what it holds, then what is amiss and what to do."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

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
    store_text,
)
from holdfast.terminal.durations import in_words, until
from snapshot.ending import Urgency, short
from snapshot.identifiers import HEAD

Status = Mapping[str, Any]

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
GRADES = {"fresh": "green", "stale": "yellow", "expired": "red"}


def screen(status: Status, now: float) -> RenderableType:
    """Of a status whose texts are shown (shown.py)."""
    parts: list[RenderableType] = [_headline(status), _freshness(status, now), Text()]
    parts.append(_scopes(status, now))
    if status["services"]:
        parts += [Text(), _services(status)]
    if any((hidden := status.get("hidden", {})).values()):
        words = f"not for this account: {hidden['scopes']} scopes, {hidden['services']} services; root sees all"
        parts += [Text(), Text(words, style="dim")]
    problems = list(problems_of(status, now))
    if problems:
        parts += [Text(), Text("To look at", style="bold")]
        parts += [Padding(Text(f"- {problem}"), (0, 0, 0, 2)) for problem in problems]
    return Group(*parts)


def _headline(status: Status) -> Text:
    state = str(status.get("state", "?"))
    who = f"{status.get('node_id') or 'this node'} in {status.get('cluster_id') or 'no cluster'}"
    line = Text.assemble((state.upper(), STYLES.get(state, "bold")), f"  {who}", f"  generation {status['generation']}")
    if status["mode"] != "normal":
        line.append(f"  {status['mode']}", "bold yellow" if status["mode"] == "degraded" else "bold red")
    return line


def _freshness(status: Status, now: float) -> Text:
    head = status["head"]
    if head is None:
        return Text("no head has been received yet")
    grade = str(head["grade"])
    manual = any(source["kind"] == "manual" for source in status.get("sources", ()))
    who = "by its manual map" if manual else "by the coordinator" if grade == "fresh" else "by a coordinator"
    said = f"confirmed {who}" if grade == "fresh" else f"not confirmed {who} any more"
    style = GRADES[grade]
    if grade == "fresh" and status.get("rollback_check") == "unconfirmed":
        said, style = f"not confirmed {who} since the start", GRADES["stale"]
    return Text.assemble(
        (said, style), f"  head {head['generation']}, ",
        f"{'expires' if grade == 'fresh' else 'expired'} {until(head['expires_at'], now)}",
    )  # fmt: skip


def _scopes(status: Status, now: float) -> Table:
    refusals = ["LAST REFUSED"] if any(scope["last_rejected"] for scope in status["scopes"].values()) else []
    table = _table("SCOPE", "VERSION", "GRADE", "EXPIRES", *refusals)
    for name, scope in status["scopes"].items():
        active, refused = _active(name, status), scope["last_rejected"]
        version = f"{active['authority_epoch']}.{active['config_version']}" if active else "-"
        if scope["pending"]:
            version += f" (next {scope['pending']['config_version']})"
        grade = active["grade"] if active else "missing"
        table.add_row(
            name,
            version,
            Text(grade, style=GRADES.get(grade, "red")),
            until(active["expires_at"], now) if active else "-",
            *([f"{refused['reason']}, {until(refused['at'], now)}" if refused else ""] if refusals else []),
        )
    return table


def _active(name: str, status: Status) -> Mapping[str, Any] | None:
    """What is active of a scope; the head is reported apart, and stands here while one that came later is refused."""
    active: Mapping[str, Any] | None = status["scopes"][name]["active"]
    if name == HEAD and (head := status["head"]) is not None:
        return {**head, "config_version": head["generation"]}
    return active


def _services(status: Status) -> Table:
    table = _table("SERVICE", "READY", "TOLD", "ANSWER")
    for name, service in status["services"].items():
        ready = Text("yes", style="green") if service["ready"] else Text(f"no, {service['reason']}", style="red")
        told = service["told_generation"]
        said = "-" if told is None else f"{told}{'' if service['up_to_date'] else ', behind'}"
        answer = Text(service["answer"], style="" if service["answer_ok"] is not False else "red")
        table.add_row(name, ready, said, answer)
    return table


def _table(name: str, *columns: str) -> Table:
    """Names stay in one piece, to be found and copied: what is narrow is told in words, which fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column(name, no_wrap=True, overflow="fold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def problems_of(status: Status, now: float) -> Iterator[str]:
    """Each with its remedy, the most urgent first."""
    if (failure := status.get("join")) is not None:
        yield f"{_join_line(status)}: {failure_text(failure)}; tried {until(failure['at'], now)}, again " + (
            until(failure["again_at"], now)
        )
    cause = status.get("fence") or status.get("cause")
    if cause and (failure is None or is_cause(cause)):
        yield f"{cause}: {cause_text(cause)}"
    yield from _problems_of_roots(status.get("roots"))
    for name in status["scopes"]:
        yield from _problems_of_scope(name, status, now)
    for name in status.get("refresh_required", ()):
        yield f"{name}: {REFRESH_REQUIRED}"
    yield from _problems_of_sources(status.get("sources", ()))
    for name, service in status["services"].items():
        if service.get("outcome") == "not_running":
            yield f"{name} did not run when it was told: systemctl status of its unit; its start reads what is active"
        elif service["answer_ok"] is False:
            yield f"{name} could not be told: {service['answer']}"
    if fault := status.get("store", {}).get("fault"):
        yield f"{fault}: {store_text(fault)}"
    yield from _problems_of_ends(status.get("ends", ()), now)
    if why := status["files"]["error"] or status["files"].get("fault"):
        yield f"the files are not up to date: {why}"


def _problems_of_roots(roots: Mapping[str, Any] | None) -> Iterator[str]:
    if roots is not None and not roots["confirmed"]:
        yield f"{FIRST_USE}: {', '.join(map(short, roots['root_key_ids']))}; {FIRST_USE_REMEDY}"


def _problems_of_sources(sources: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for source in sources:
        if source["error"]:
            again = f"again in {in_words(left)}" if (left := source.get("again_in_s", 0)) else "asked again now"
            yield f"{source['url']} ({source['kind']}): {source['error']}; {again}"


def _problems_of_ends(ends: Iterable[Mapping[str, Any]], now: float) -> Iterator[str]:
    for end in ends:
        if end["urgency"] in (Urgency.SOON, Urgency.ENDED):
            what = f"{end['what'].replace('_', ' ')} {short(end['name'])}"
            verb = "has ended" if end["urgency"] == Urgency.ENDED else "ends"
            yield f"{what} {verb} {until(end['ends'], now)}: {end['then']}; {end['remedy']}"


def _join_line(status: Status) -> str:
    return "not a member yet" if status["state"] in ("unenrolled", "joining") else "it speaks to no coordinator"


def _problems_of_scope(name: str, status: Status, now: float) -> Iterator[str]:
    active, refused = _active(name, status), status["scopes"][name]["last_rejected"]
    standing = status.get("refused", {}).get(name)
    if standing is not None:
        yield _refusal_line(standing, refused, now)
    elif refused and not _is_superseded(active, refused):
        yield f"{name} was refused {until(refused['at'], now)}: {meaning(refused['reason'])}"
    if not active:
        yield f"{name} is not active: holdfast explain {name}"
    elif name != HEAD and active["grade"] == "expired":
        yield f"{name} has expired: nothing new is authorised on it until it is renewed"


def _refusal_line(one: Mapping[str, Any], last: Mapping[str, Any] | None, now: float) -> str:
    """Since when, by whom, and until when it goes on with what."""
    words = f"{one['scope']} has refused {one['refused']} since {one['since']} ({one['reason']} by {one['source']}), "
    if one["runs"] is None:
        words += "and runs nothing of it"
    else:
        verb = "expired" if unix_seconds(one["expires_at"]) <= now else "EXPIRES SOON:" if one["soon"] else "good until"
        words += f"runs {one['runs']}, {verb} {one['expires_at']}"
    return f"{words}: {meaning(last['reason'])}" if last else words


def _is_superseded(active: Mapping[str, Any] | None, refused: Mapping[str, Any]) -> bool:
    """Whether a good version was applied since the last one was refused; a refused head ends by itself then."""
    if active is None or "applied_at" not in active:
        return False
    return unix_seconds(active["applied_at"]) > unix_seconds(refused["at"])

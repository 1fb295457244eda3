"""`holdfast verify`: the agent's own verdict on files, for scripts and for a person with a USB stick (protocol.md 5).

Exit status: 0 none is rejected, 1 one is, 2 wrong usage (also a file or a context that cannot be read).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from holdfast.node.context import BadContext, chunks, load
from holdfast.terminal.audience import describe_audience
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say
from snapshot.codes import CATALOGUE, Area
from snapshot.container import ChunkParts
from snapshot.identifiers import format_time, parse_time
from snapshot.reasons import Reason, Rejected
from snapshot.verifier_state import VerifierState
from snapshot.verify import STEPS, AlreadyApplied, NotYetValid, Verdict, Verified, verify

COLOURS = {"verified": "green", "already_applied": "green", "pending": "yellow", "rejected": "red"}


@dataclass(frozen=True)
class VerdictReport:
    """The verdict on one file, in the words of protocol.md 5. `made_for`: whom a good one is for, in words."""

    document: str
    verdict: str
    step: int | None = None
    reason: Reason | None = None
    expected: str = ""
    found: str = ""
    where: str = ""
    facts: Mapping[str, object] | None = None
    audience: Mapping[str, object] | None = None
    made_for: str = ""

    def to_json(self) -> str:
        members: dict[str, object] = {
            "document": self.document,
            "verdict": self.verdict,
            "step": self.step,
            "reason": self.reason,
        }
        if self.verdict == "rejected":
            members |= {"expected": self.expected, "found": self.found, "where": self.where}
        return json.dumps(members | dict(self.facts or {}) | dict(self.audience or {}))  # noqa: TID251 - a report, no document


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


@click.command()
@click.option("--context", type=click.Path(path_type=Path), required=True, help="What the reader knows, as JSON.")
@click.option("--now", metavar="TIME", callback=_time, help="Judge as of YYYY-MM-DDTHH:MM:SSZ.  [default: the clock]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a document.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.pass_context
def command(ctx: click.Context, context: Path, now: int | None, as_json: bool, files: tuple[str, ...]) -> None:
    """Judge documents in files as the agent would, and change nothing.

    A rejected document is shown with the step that failed, what was expected, what was found, and what to do.
    """
    holder, kind = _load(context)
    moment = wall_clock() if now is None else now
    reports = [_judge(file, holder, kind, moment) for file in files]
    for report in reports:
        if as_json:
            say(report.to_json())
        else:
            _render(report, moment)
    ctx.exit(1 if any(report.verdict == "rejected" for report in reports) else 0)


def _load(path: Path) -> tuple[VerifierState, str]:
    try:
        return load(path)
    except BadContext as error:
        raise click.UsageError(f"--context: {error}") from None


def _judge(file: str, holder: VerifierState, kind: str, now: float) -> VerdictReport:
    try:
        verdict = verify(ChunkParts(chunks(Path(file)), holder.limits), holder, kind=kind, now=now)
    except Rejected as fault:
        return VerdictReport(file, "rejected", fault.step, fault.reason, fault.expected, fault.found, fault.where)
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None
    return _pass(file, verdict)


def _pass(file: str, verdict: Verdict) -> VerdictReport:
    envelope = verdict.envelope
    audience = {
        "subject_node_id": envelope.subject_node_id,
        "roles": list(envelope.roles),
        "organization_ids": list(envelope.organization_ids),
    }
    whom = describe_audience(envelope.scope, envelope.subject_node_id, envelope.roles, envelope.organization_ids)
    report = partial(VerdictReport, file, audience=audience, made_for=whom)
    facts: dict[str, object] = {
        "scope": envelope.scope,
        "authority_epoch": envelope.authority_epoch,
        "config_version": envelope.config_version,
        "expires_at": format_time(envelope.expires_at),
    }
    match verdict:
        case Verified():
            return report("verified", facts=facts | {"signers": list(verdict.signers)})
        case AlreadyApplied():
            return report("already_applied", facts=facts)
        case NotYetValid():
            facts["valid_from"] = format_time(envelope.valid_from)
            return report("pending", 7, Reason.NOT_YET_VALID, facts=facts)


def _render(report: VerdictReport, now: float) -> None:
    say(report.verdict.upper().replace("_", " "), fg=COLOURS[report.verdict], bold=True, nl=False)
    say(f"  {report.document}")
    for name, value in _lines(report):
        say(f"  {name:<16}{value}")
    say(f"  {'judged at':<16}{format_time(now)}", "")


def _lines(report: VerdictReport) -> list[tuple[str, object]]:
    if report.reason is not None and report.step is not None:
        explanation = CATALOGUE[Area.DOCUMENT][report.reason]
        lines = [("failed", f"step {report.step}, {_statement(report.step)}"), ("reason", report.reason)]
        lines += [("where", report.where), ("expected", report.expected), ("found", report.found)]
        lines += [("meaning", explanation.meaning), ("to do", explanation.remedy)]
    else:
        lines = []
    facts = [(name.replace("_", " "), _plain(value)) for name, value in (report.facts or {}).items()]
    facts.append(("made for", report.made_for))
    return [(name, value) for name, value in [*facts, *lines] if value != ""]


def _plain(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _statement(step: int) -> str:
    """The statement that did not hold, from the name of the step's function."""
    names = {number: holds.__name__ for number, holds in STEPS}
    return names.get(step, "the container is whole and within the limits").replace("_", " ")

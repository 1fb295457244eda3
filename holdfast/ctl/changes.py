"""`holdfastctl changes`: what was applied, how far it is, and what a person decides of it (docs/changes.md)."""

from dataclasses import astuple

import click

from holdfast.ctl import change_watch, change_words, output
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm
from holdfast.terminal.shown import say
from wire.operators.change_answers import ChangeCounts, ChangeDetail, ChangeDiff, ChangeList, ChangeSummary
from wire.operators.operator_messages import ApprovalRequest, ReasonRequest, RevertRequest

LISTED = 50
BY_HAND = "by hand"
_STATES = ("proposed", "preparing", "rolling", "done", "halted", "reverting", "reverted", "superseded")

_WAIT = click.option("--wait", is_flag=True, help="Watch it until it is over.")
_REASON = click.option("--reason", default=BY_HAND, show_default=True, help="Why, for the timeline and the audit log.")
_YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group()
def changes() -> None:
    """What was applied: each apply is a change, c-1, c-2 and so on, that goes to its nodes step by step."""


@changes.command("list")
@click.option(
    "--state", "states", type=click.Choice(_STATES), multiple=True, help="Those in this state; again for more."
)
@click.option("--most", type=click.IntRange(1, 1000), default=LISTED, show_default=True)
@asks_the_coordinator
def list_(asked: CoordinatorClient, states: tuple[str, ...], most: int) -> None:
    """Changes, the newest first."""
    asked.show(asked.get(ChangeList, "changes", state=states, most=most), _render_list)


@changes.command()
@click.argument("change")
@asks_the_coordinator
def show(asked: CoordinatorClient, change: str) -> None:
    """One in whole: who, what, which ring when, who refused it and why, how long it took."""
    asked.show(asked.get(ChangeDetail, "changes", change), _render)


@changes.command()
@click.argument("change")
@asks_the_coordinator
def diff(asked: CoordinatorClient, change: str) -> None:
    """What it changes, resource by resource, as its plan was shown."""
    asked.show(asked.get(ChangeDiff, "changes", change, "diff"), _render_diff)


@changes.command()
@click.argument("change")
@asks_the_coordinator
def wait(asked: CoordinatorClient, change: str) -> None:
    """Watch it until it is over: exit 0 once it is done, 7 where it came to anything else.

    Ctrl-C ends the watching, not the change.
    """
    change_watch.watch(asked, change)


@changes.command()
@click.argument("change")
@_REASON
@asks_the_coordinator
def halt(asked: CoordinatorClient, change: str, reason: str) -> None:
    """Stop it where it is: who has it keeps it, nobody else is given it."""
    _say(asked, asked.post(ChangeSummary, "changes", change, "halt", body=ReasonRequest(reason)))


@changes.command()
@click.argument("change")
@_REASON
@_WAIT
@_YES
@asks_the_coordinator
def resume(asked: CoordinatorClient, change: str, reason: str, wait: bool, yes: bool) -> None:
    """Let one that was halted go on: nodes that have refused it are left aside."""
    confirm(f"Let {change} go on?", yes=yes)
    answer = asked.post(ChangeSummary, "changes", change, "resume", body=ReasonRequest(reason))
    _say(asked, answer, is_watched=wait)


@changes.command()
@click.argument("change")
@click.option("--now", "now_reason", default="", metavar="REASON", help="To all nodes at once, after a vote of 5 s.")
@click.option("-m", "--message", default="", help="What it is for.")
@_WAIT
@_YES
@asks_the_coordinator
def revert(asked: CoordinatorClient, change: str, now_reason: str, message: str, wait: bool, yes: bool) -> None:
    """Restore what it changed, by a new change that goes the same way.

    Where a later change has touched one of its resources, that is named, and nothing is done.
    """
    if not yes and not asked.as_json:
        _render_diff(asked.get(ChangeDiff, "changes", change, "diff"))
    confirm(f"Take back {change}?", yes=yes)
    body = RevertRequest(now_reason, message)
    _say(asked, asked.post(ChangeSummary, "changes", change, "revert", body=body), is_watched=wait)


@changes.command()
@click.argument("change")
@click.option("--plan", "plan_hash", metavar="HASH", help="The plan that was looked at.  [default: what is shown now]")
@_YES
@asks_the_coordinator
def approve(asked: CoordinatorClient, change: str, plan_hash: str | None, yes: bool) -> None:
    """Agree to exactly the plan that is shown. Never one's own, and each operator once."""
    if plan_hash is None:
        shown = asked.get(ChangeDiff, "changes", change, "diff")
        if not asked.as_json:
            _render_diff(shown)
        plan_hash = shown.plan_hash
    confirm(f"Approve this plan of {change}?", yes=yes)
    _say(asked, asked.post(ChangeSummary, "changes", change, "approve", body=ApprovalRequest(plan_hash)))


def _say(asked: CoordinatorClient, answer: ChangeSummary, *, is_watched: bool = False) -> None:
    if is_watched:
        change_watch.watch(asked, answer.change)
    else:
        asked.say(answer, change_words.sentence(answer))


def _render_list(answer: ChangeList) -> None:
    rows = (
        (change.change, output.time(change.at), change.actor, change.state, _nodes(change.counts), _about(change))
        for change in answer.changes
    )
    columns = ("change", "at", "who", "state", "nodes", "for")
    output.table(columns, rows, nothing="nothing was applied yet")


def _nodes(counts: ChangeCounts) -> str:
    """Who runs it, of those that it touches."""
    return f"{counts.active}/{counts.touched}" if counts.touched else "-"


def _about(each: ChangeSummary) -> str:
    marks = [f"reverts {each.reverts}"] if each.reverts else []
    marks += ["now"] if each.immediately else []
    marks += ["allowed"] if each.allowed else []
    told = each.message or f"{each.resources} resources"
    return told + (f" ({', '.join(marks)})" if marks else "")


def _render(answer: ChangeDetail) -> None:
    output.facts(
        [
            ("change", answer.change),
            ("for", answer.message),
            ("state", change_words.standing(answer)),
            ("why", answer.why),
            ("how far", change_words.how_far(answer)),
            ("now", answer.waits),
            ("applied", f"{output.time(answer.at)} by {answer.actor}, {answer.resources} resources"),
            ("plan", answer.plan_hash),
            ("skips rings and bake", answer.immediately),
            ("let pass the guards", "by its plan's hash" if answer.allowed else ""),
            ("reverts", answer.reverts),
            ("waits for", answer.waits_for),
            ("superseded by", answer.superseded_by),
            ("settled", output.time(answer.settled_at) if answer.settled_at is not None else ""),
            ("approved by", _approvals(answer)),
            ("nodes", ", ".join(_count_words(answer.counts))),
            ("offline, left out", answer.offline),
            ("apply to active, s", {name: round(value, 1) for name, value in answer.took.items()}),
        ]
    )
    for course in answer.courses:
        say(f"by {course.policy or 'the default policy'}: {change_words.course_words(course)}")
    if answer.refusals:
        say("", "Not with it:", *change_words.refusal_lines(answer, len(answer.refusals)))
    say()
    rows = ((output.time(moment.at), change_words.moment_words(moment)) for moment in answer.timeline)
    output.table(("at", "what"), rows, nothing="nothing has happened yet")


def _count_words(counts: ChangeCounts) -> list[str]:
    names = ChangeCounts.__dataclass_fields__
    return [f"{count} {name}" for name, count in zip(names, astuple(counts), strict=True) if count]


def _approvals(answer: ChangeDetail) -> str:
    if not answer.approvals_needed:
        return ""
    names = [given.operator + ("" if given.counts else " (counts no more)") for given in answer.approved_by]
    return f"{', '.join(names) or 'nobody'}: {answer.approvals} of {answer.approvals_needed}"


def _render_diff(answer: ChangeDiff) -> None:
    for line in answer.lines:
        say(line)
    say(f"the plan of {answer.change} is {answer.plan_hash}")

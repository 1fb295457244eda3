"""`holdfastctl apply` and `diff`: declared state, from YAML files, as a whole (protocol 2)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from coordinator.declared.resources import InvalidResources
from holdfast.ctl import change_watch, declared_contents, declared_files, output
from holdfast.ctl.declared_contents import ReadFile
from holdfast.ctl.socket import DIFFERENT, REFUSED, CoordinatorClient, Failed, asks_the_coordinator, confirm, failure_of
from holdfast.terminal.shown import say, say_json_line
from wire.operators.operator_answers import AppliedPlan, UnpublishedChanges
from wire.operators.operator_messages import ApplyRequest, ContentSummary

FILES_HELP = "A directory of YAML files, or one file; again for further ones."


@click.command()
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True, required=True,
              help=FILES_HELP)  # fmt: skip
@click.option("--prune", is_flag=True, help="Delete what is declared and not in these files.")
@click.option("--drop-endpoints", is_flag=True, help="Let endpoints of coordinators go that members still need.")
@click.option("--dry-run", is_flag=True, help="Show what would change, by the same code, and change nothing.")
@click.option("-m", "--message", default="", help="What the change is for; it is shown with it.")
@click.option("--wait", is_flag=True, help="Watch the change until it is over; exit 7 if it does not end done.")
@click.option(
    "--now",
    "now_reason",
    default="",
    metavar="REASON",
    help="To all nodes at once, after a vote of 5 s. The reason stays with the change.",
)
@click.option("--allow", default="", metavar="PLAN_HASH", help="Let exactly this plan pass the guards, once.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def apply(
    asked: CoordinatorClient,
    places: tuple[Path, ...],
    dry_run: bool,
    wait: bool,
    yes: bool,
    **how: Any,  # noqa: ANN401 - the options that go along as they are
) -> None:
    """Show what the files change, ask, and change it in one transaction.

    What was shown is what is done: if the state has moved meanwhile, nothing is. Exit 1 where it is done and nothing
    can be published now: it says what holds it back, and it goes out once that is gone. Exit 1 also where --wait has
    no change to wait for, since the coordinator guards none. Where nothing but lines have moved, there is nothing to
    ask: the coordinator notes where they stand now. With --json and --wait each line is an answer: what was done
    first, then how far it is.
    """
    body = ApplyRequest(*read_declaration(asked, places), **how)
    plan = asked.post(AppliedPlan, "apply", body=replace(body, dry_run=True))
    if dry_run:
        asked.show(plan, _render_with_refusals)
        return
    if not asked.as_json:
        _render(plan)
    if not plan.changes:
        if plan.moved:
            asked.post(AppliedPlan, "apply", body=replace(body, based_on=plan.based_on))
        asked.say(plan, "nothing to do")
        return
    if plan.refusals:
        raise failure_of(plan.refusals[0])
    confirm("Apply this?", yes=yes)
    done = asked.post(AppliedPlan, "apply", body=replace(body, based_on=plan.based_on))
    is_followed = wait and done.change is not None
    if asked.as_json and is_followed:
        say_json_line(done.to_value())
    else:
        asked.say(done, _outcome(done))
    if done.held_back:
        raise SystemExit(DIFFERENT)
    if not wait:
        return
    if done.change is None:
        say("holdfastctl: there is no change to wait for: this coordinator has guarded_changes = false", err=True)
        raise SystemExit(DIFFERENT)
    change_watch.watch(asked, done.change)


def _outcome(done: AppliedPlan) -> str:
    changes, nodes = len(done.changes), len(done.touched)
    if done.held_back:
        waiting = f"{nodes} nodes wait for their new configuration"
        return f"applied: {changes} changes, and held back, {waiting}: {done.held_back}; see holdfastctl status"
    by = f", by {done.change}" if done.change else ""
    how = f" (holdfastctl changes wait {done.change})" if done.change and nodes else ""
    return f"applied: {changes} changes, {nodes} nodes get new configuration{by}{how}"


@click.command()
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True, help=FILES_HELP)
@click.option("--prune", is_flag=True, help="Count what is declared and not in the files as deleted.")
@click.option("--node", "node_id", help="Without files: for this node alone.")
@click.option("--exit-code", is_flag=True, help=f"Exit with {DIFFERENT} where there is a difference.")
@asks_the_coordinator
def diff(asked: CoordinatorClient, places: tuple[Path, ...], prune: bool, node_id: str | None, exit_code: bool) -> None:
    """How files differ from what is declared; without files, how that differs from what is published."""
    if places:
        texts, contents = read_declaration(asked, places)
        # It shows, and judges not.
        body = ApplyRequest(texts, contents, prune=prune, drop_endpoints=True, dry_run=True)
        plan = asked.post(AppliedPlan, "apply", body=body)
        asked.show(plan, _render_with_refusals)
        differs = bool(plan.changes)
    else:
        answer = asked.get(UnpublishedChanges, "diff", node=node_id)
        asked.show(answer, _render_unpublished)
        differs = bool(answer.nodes)
    if exit_code and differs:
        raise SystemExit(DIFFERENT)


def read_declaration(
    asked: CoordinatorClient, places: tuple[Path, ...]
) -> tuple[dict[str, str], dict[str, ContentSummary] | None]:
    """What an apply says: the texts, and the contents that they name, which are uploaded where they are missing."""
    texts = read(places)
    contents = read_contents(texts)
    declared_contents.upload(asked, contents)
    return texts, {name: content.summary() for name, content in contents.items()} or None


def read_contents(texts: Mapping[str, str]) -> dict[str, ReadFile]:
    """The files that they name, by the names under which they are uploaded."""
    with saying():
        return declared_contents.read(texts)


def read(places: tuple[Path, ...]) -> dict[str, str]:
    """File name -> text, as problems will name them. Nobody is asked for anything before all of them are read."""
    with saying():
        texts = declared_contents.without_contents(declared_files.read(places))
    if not texts:
        raise click.UsageError(f"no {' or '.join(declared_files.SUFFIXES)} file in {', '.join(map(str, places))}")
    return texts


@contextmanager
def saying() -> Iterator[None]:
    """What is wrong with files ends the command."""
    try:
        yield
    except InvalidResources as invalid:
        first = f"{invalid.code}: {len(invalid.problems)} problems; nothing was changed"
        raise Failed(first, REFUSED, code=invalid.code, more=invalid.problems) from None


def _render(plan: AppliedPlan) -> None:
    for line in plan.lines:
        say(line)
    for warning in plan.warnings:
        say(f"warning: {warning}", fg="yellow", err=True)
    if plan.held_back:
        say(f"holdfastctl: it would be held back: {plan.held_back}", err=True)


def _render_with_refusals(plan: AppliedPlan) -> None:
    """Of a plan that is only shown."""
    _render(plan)
    for failure in map(failure_of, plan.refusals):
        say(f"warning: it would be refused: {failure.message}", *failure.more, fg="yellow", err=True)


def _render_unpublished(answer: UnpublishedChanges) -> None:
    rows = [
        (node, scope, section, change, answer.held_back.get(node, {}).get(scope) or "-")
        for node, scopes in answer.nodes.items()
        for scope, sections in scopes.items()
        for section, change in sections.items()
    ]
    columns = ("node", "scope", "section", "change", "held back")
    output.table(columns, rows, nothing="all that is declared is published")

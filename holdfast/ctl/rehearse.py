"""`holdfastctl test -f DIR`: what an apply of files would be refused for, said without a coordinator.

For whoever keeps the files in a repository: run there by each proposed change, so that it is wrong where it is written,
and not where it is applied. The code is the coordinator's own. What it cannot know here is who has joined, what nodes
have reported, and what is applied already: `--against` names the files of an earlier state in its place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.ctl.apply import FILES_HELP
from holdfast.ctl.socket import DIFFERENT, REFUSED, Failed, says_what_is_wrong
from holdfast.terminal.shown import say, say_json

if TYPE_CHECKING:
    from coordinator.declared.contents import ReadPart
    from coordinator.declared.resources import DeclaredProblem
    from coordinator.expected.expectations import UnmetExpectation
    from coordinator.expected.plan_guard import GuardFinding
    from coordinator.expected.rehearsal import Rehearsal
    from holdfast.ctl.declared_state import DeclaredState


@dataclass
class _Outcome:
    """What came of it; of files that do not hold together nothing but their problems."""

    problems: "Sequence[DeclaredProblem]" = ()
    code: str = ""
    state: "DeclaredState | None" = None
    rehearsal: "Rehearsal | None" = None
    warnings: list[str] = field(default_factory=list)

    @property
    def findings(self) -> "Sequence[GuardFinding]":
        return self.rehearsal.findings if self.rehearsal is not None else ()

    @property
    def word(self) -> str:
        return "refused" if self.problems else ("too_much_change" if self.findings else "passed")


@click.command()
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True, required=True,
              help=FILES_HELP)  # fmt: skip
@click.option("--against", "earlier", type=click.Path(path_type=Path, exists=True), multiple=True,
              help="The same of an earlier state: whether the change is more than a change usually is.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def test(places: tuple[Path, ...], earlier: tuple[Path, ...], as_json: bool) -> None:
    """Say what an apply of files would be refused for, without asking a coordinator.

    Their form, what they name, JSON Schemas, templates and Expectations, as if every declared node had joined; with
    --against the guard as well. Exit 6 where an apply would be refused, 1 where --allow would have to let it pass.
    """
    outcome = _rehearse(places, earlier)
    if as_json:
        say_json(_value(outcome))
    else:
        _show(outcome)
    if outcome.problems:
        first = f"{outcome.code}: {len(outcome.problems)} problems"
        raise Failed(first, REFUSED, code=outcome.code, more=outcome.problems)
    if outcome.findings:
        raise SystemExit(DIFFERENT)


def _rehearse(places: Sequence[Path], earlier: Sequence[Path]) -> _Outcome:
    from coordinator.declared.resources import InvalidResources  # noqa: PLC0415 - the readers of YAML: --help does not wait for them
    from coordinator.expected import rehearsal  # noqa: PLC0415 - as above
    from coordinator.runtime import schema_child  # noqa: PLC0415 - as above
    from holdfast.ctl import declared_state  # noqa: PLC0415 - as above

    try:
        before = declared_state.load(earlier) if earlier else None
        state = declared_state.load(places)
        schema_child.check(state.schema_checks())
    except InvalidResources as invalid:
        return _Outcome(invalid.problems, invalid.code.value)
    found = rehearsal.rehearse(state.model, before.model if before else None, _reader(state, before))
    problems = [_problem(state, unmet) for unmet in found.judged.refusing]
    warnings = [f"Expectation {unmet.words}" for unmet in found.judged.warning]
    warnings += [f"Expectation {idle.id} concerns no node" for idle in found.judged.idle]
    return _Outcome(problems, "expectation_failed" if problems else "", state, found, warnings)


def _reader(state: "DeclaredState", before: "DeclaredState | None") -> "ReadPart":
    """Of what the files of either hold."""

    def read(sha256: str) -> bytes:
        return before.read(sha256) if before is not None and sha256 not in state.read else state.read(sha256)

    return read


def _problem(state: "DeclaredState", unmet: "UnmetExpectation") -> "DeclaredProblem":
    from coordinator.declared.resources import DeclaredProblem  # noqa: PLC0415 - as above
    from coordinator.expected.expectations import REMEDY  # noqa: PLC0415 - as above

    entry = state.settled.declared[unmet.expectation.key]
    return DeclaredProblem(entry.file, entry.source.line(()), "spec.is", unmet.words, REMEDY)


def _value(outcome: _Outcome) -> dict[str, object]:
    problems = [{"code": outcome.code, **asdict(problem)} for problem in outcome.problems]
    unmet = list(_unmet_values(outcome)) if outcome.rehearsal is not None else []
    guard = [_finding_value(finding) for finding in outcome.findings]
    said = {"problems": problems, "unmet": unmet, "guard": guard, "warnings": outcome.warnings}
    return {"outcome": outcome.word, **_counts(outcome), **said}


def _unmet_values(outcome: _Outcome) -> Iterator[dict[str, object]]:
    assert outcome.rehearsal is not None and outcome.state is not None  # noqa: S101 - who asks has looked
    for unmet in outcome.rehearsal.judged.unmet:
        wanted, entry = unmet.expectation, outcome.state.settled.declared[unmet.expectation.key]
        place = {"file": entry.file, "line": entry.source.line(()), "scope": wanted.scope, "pointer": wanted.pointer}
        told = {"nodes": list(unmet.node_ids), "found": unmet.found, "expected": unmet.requirement}
        yield {"id": wanted.id, "action": wanted.action, **place, **told}


def _finding_value(finding: "GuardFinding") -> dict[str, object]:
    said = {"rule": finding.excess.rule.value, "found": finding.excess.found, "expected": finding.excess.expected}
    return {"scope": finding.scope, "nodes": finding.nodes, "example": finding.example, **said}


def _counts(outcome: _Outcome) -> dict[str, int]:
    if outcome.state is None:
        return {"resources": 0, "nodes": 0, "expectations": 0}
    kinds = [kind for kind, _ in outcome.state.settled.declared]
    nodes, expectations = len(outcome.state.model.subjects), kinds.count("Expectation")
    return {"resources": len(kinds), "nodes": nodes, "expectations": expectations}


def _show(outcome: _Outcome) -> None:
    for warning in outcome.warnings:
        say(f"warning: {warning}", fg="yellow", err=True)
    for finding in outcome.findings:
        say(f"too_much_change: {finding.words}", fg="yellow", err=True)
    counts = _counts(outcome)
    if outcome.problems:
        return
    said = f"{counts['resources']} resources, {counts['nodes']} nodes, {counts['expectations']} expectations"
    if outcome.findings:
        say(f"{said}; {len(outcome.findings)} things are more than a change usually does: apply will ask for --allow")
    else:
        say(f"passed: {said}")

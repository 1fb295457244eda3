"""Expectations, held against what nodes would be given: an apply that breaks one is refused, or warned of. Pure.

    judge(before, after, touched, read)     -> Judgement: what is not met, and what concerns nobody
    judge_all(before, after, read)          the same of every node and every Expectation (`holdfastctl test`)

They are judged on the compiled output, not on the files: whoever expects that an edge node has its table of limits does
not care by which selector, role or organization it failed to get there. And on each node by itself, since that is where
it is missing; nodes of which the same is found are told together.

An Expectation that is new or another is held against every node that it concerns, so that it cannot be passed by being
written last. One that stays is held against what the change touches: where neither the scope nor the node changes,
what was met is met. So the cost is that of the change, not of the fleet.

A declared node counts although it has not joined: it is what the files promise it, and nobody applies again when it
comes.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, field

from coordinator.declared import views
from coordinator.declared.change_impact import Touched, changed_resources
from coordinator.declared.compiler import compile_scope
from coordinator.declared.contents import ReadPart
from coordinator.declared.expected_place import ExpectedPlace, read_place
from coordinator.declared.kinds import Expectation, Node
from coordinator.declared.model import Key, Model, Subject, selects
from coordinator.expected.finding import Finding, look, nothing_there
from coordinator.expected.requirement import requirement_of

ENFORCE = "enforce"
_NAMED = 3  # nodes in a sentence
REMEDY = "correct what is declared, or the Expectation"


@dataclass(frozen=True)
class UnmetExpectation:
    """What was found on some nodes, the same on each, and is not what is expected there."""

    expectation: Expectation
    found: str
    node_ids: tuple[str, ...]

    @property
    def requirement(self) -> str:
        return requirement_of(self.expectation.is_).words

    @property
    def words(self) -> str:
        wanted = self.expectation
        why = f" ({wanted.description})" if wanted.description else ""
        place = f"{wanted.scope} {wanted.pointer} of {_some(self.node_ids)}"
        return f"{wanted.id}: {place}: found {self.found}, expected {self.requirement}{why}"


@dataclass
class Judgement:
    """`idle`: Expectations that concern nobody."""

    unmet: list[UnmetExpectation] = field(default_factory=list)
    idle: list[Expectation] = field(default_factory=list)

    @property
    def refusing(self) -> list[UnmetExpectation]:
        return [found for found in self.unmet if found.expectation.action == ENFORCE]

    @property
    def warning(self) -> list[UnmetExpectation]:
        return [found for found in self.unmet if found.expectation.action != ENFORCE]


def judge(before: Model, after: Model, touched: Iterable[Touched], read: ReadPart) -> Judgement:
    """`touched`: of these two models. `read`: what files hold."""
    expectations = after.of(Expectation)
    changed = changed_resources(before, after) if expectations else set()
    nodes = {id_ for kind, id_ in changed if kind == Node.KIND}
    by_scope: dict[str, set[str]] = {}
    for node_id, scope in touched if expectations else ():
        by_scope.setdefault(scope.name, set()).add(node_id)
    judged = Judgement()
    for expectation in expectations:
        looked_at = _nodes_to_look_at(expectation, after, changed, nodes | by_scope.get(expectation.scope, set()))
        _judge_one(_Case(expectation, before, after, read), looked_at, judged)
    return judged


def judge_all(before: Model, after: Model, read: ReadPart) -> Judgement:
    """`before`: `after` itself where nothing was before it."""
    judged = Judgement()
    for expectation in after.of(Expectation):
        _judge_one(_Case(expectation, before, after, read), after.subjects.values(), judged)
    return judged


def _nodes_to_look_at(
    expectation: Expectation, after: Model, changed: Set[Key], touched: Set[str]
) -> Iterable[Subject]:
    if expectation.key in changed:
        return after.subjects.values()
    return [after.subjects[node_id] for node_id in sorted(touched & after.subjects.keys())]


class _Case:
    """One Expectation, and what was found of contents that were looked at: nodes share them."""

    def __init__(self, expectation: Expectation, before: Model, after: Model, read: ReadPart) -> None:
        self.expectation, self.before, self.after, self.read = expectation, before, after, read
        self.place = read_place(expectation.scope, expectation.pointer)
        self.requirement = requirement_of(expectation.is_)
        self._found: dict[str, Finding] = {}

    def concerns(self, subject: Subject) -> bool:
        if not self.expectation.of.is_empty:
            return selects(self.expectation.of, subject)
        return _is_held(self.after, subject, self.place) or _is_held(
            self.before, self.before.subjects.get(subject.node_id), self.place
        )

    def look(self, subject: Subject) -> Finding:
        scope = self.place.scope
        if not views.holds(self.after, subject, scope):
            return nothing_there(self.requirement, f"no scope {scope.name}")
        content = compile_scope(self.after, subject.node_id, scope, self.read)
        if content.content_hash not in self._found:
            self._found[content.content_hash] = look(content, self.place, self.requirement)
        return self._found[content.content_hash]


def _judge_one(case: _Case, subjects: Iterable[Subject], judged: Judgement) -> None:
    looked_at = list(subjects)
    concerned = [subject for subject in looked_at if case.concerns(subject)]
    if looked_at and not concerned and not any(map(case.concerns, case.after.subjects.values())):
        judged.idle.append(case.expectation)
    groups: dict[str, list[str]] = {}
    for subject in concerned:
        finding = case.look(subject)
        if not finding.is_met:
            groups.setdefault(finding.found, []).append(subject.node_id)
    judged.unmet += [UnmetExpectation(case.expectation, found, tuple(ids)) for found, ids in sorted(groups.items())]


def _is_held(model: Model, subject: Subject | None, place: ExpectedPlace) -> bool:
    return subject is not None and views.holds(model, subject, place.scope)


def _some(node_ids: tuple[str, ...]) -> str:
    more = f" and {len(node_ids) - _NAMED} more" if len(node_ids) > _NAMED else ""
    return ", ".join(node_ids[:_NAMED]) + more

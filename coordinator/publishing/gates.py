"""What stands between the declared state and what each node is told of it: the changes that keep it back.

    Gates.read(transaction, declared, node_ids, models)    of the nodes of one batch
    gates.of(node_id, listed)                              -> NodeGate: what its head lists is compiled from, what it is
                                                              offered, and by which change it has got what it has

A node's model is the declared one with every change undone that holds it back still, and what follows those. Its scopes
are compiled from that as ever, so it is renewed, told of revocations, of who joins and of new addresses whatever stands
halted, and nothing that it has runs into its end. What it is offered is compiled from the same with one change more.

Who comes new in the middle of a change, or is given a scope for the first time by another one, has no row. What is not
proven is not for it, either: where the scope would be another without the change, it gets what that gives, and a row
from then on (`NodeGate.rows`, written with its head), so it is among the last to get the change.

Rejected: keeping for each node what it was published with, as bytes, while a change is open. It would have to be looked
through for what was revoked, and each join, new address or other change would not reach the node for as long as that.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property

from coordinator.changes import records
from coordinator.changes.order import changes_before, is_behind
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.rollout_policy import rollouts
from coordinator.changes.states import Step
from coordinator.changes.undoing import UndoneModels, with_followers
from coordinator.configs.compiled_pairs import compiled_pairs
from coordinator.database import catalog
from coordinator.database.database import Transaction
from coordinator.declared import views
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Model
from snapshot.identifiers import Scope


@dataclass(frozen=True)
class ChangeMark:
    """How an entry of a head names the change by which it came (format.md 5)."""

    change: str
    probation_s: int
    allowed: str | None = None

    def members(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class CandidateOffer:
    """What comes to a node with one change: these of its scopes, compiled from the model."""

    mark: ChangeMark
    model: Model
    scopes: tuple[Scope, ...]


@dataclass(frozen=True)
class NodeGate:
    """`otherwise`: scopes in which the model may say another thing than the declared one. `marks`: by scope. `rows`:
    those that the node is to have from now on.
    """

    model: Model
    otherwise: frozenset[Scope] = frozenset()
    offers: tuple[CandidateOffer, ...] = ()
    marks: Mapping[str, ChangeMark] = field(default_factory=dict)
    rows: tuple[ChangeNode, ...] = ()


@dataclass
class Gates:
    """Of one batch, from one consistent reading."""

    transaction: Transaction
    declared: Model
    models: UndoneModels
    read_part: ReadPart
    _standing: Mapping[int, ChangeRecord]
    _rows: Mapping[str, Sequence[ChangeNode]]
    _node_ids: Sequence[str]
    _given: dict[tuple[tuple[int, int, tuple[str, ...]], ...], NodeGate] = field(default_factory=dict)
    _otherwise: dict[tuple[frozenset[int], frozenset[int]], Mapping[str, frozenset[Scope]]] = field(
        default_factory=dict
    )

    @classmethod
    def read(
        cls,
        transaction: Transaction,
        declared: Model,
        node_ids: Sequence[str],
        models: UndoneModels,
        read_part: ReadPart,
    ) -> "Gates":
        standing = {record.change_id: record for record in records.standing_changes(transaction)}
        rows = records.holding(transaction, node_ids) if standing else {}
        return cls(transaction, declared, models, read_part, standing, rows, node_ids)

    def of(self, node_id: str, listed: Collection[str]) -> NodeGate:
        """`listed`: the scopes that its head lists now."""
        if not self._standing or node_id not in self.declared.subjects:
            return NodeGate(self.declared)
        rows = self._rows.get(node_id, ())
        if all(row.step is Step.RELEASED for row in rows) and self._standing.keys() <= self._find_changes(rows):
            return self._gate_of_ring(rows)
        held = frozenset(row.change_id for row in rows if row.step is not Step.RELEASED)
        new = tuple(self._rows_of_newcomer(node_id, self._find_changes(rows), held, listed))
        undone = self._with_followers(held | {row.change_id for row in new})
        return NodeGate(
            self._model(undone),
            self._differing(frozenset(), undone).get(node_id, frozenset()),
            tuple(self._offers(node_id, rows, held, listed)),
            self._marks(rows),
            new,
        )

    def _gate_of_ring(self, rows: Sequence[ChangeNode]) -> NodeGate:
        """Of a node that was given all changes that there are: the same for a whole ring."""
        alike = tuple([(row.change_id, row.group, row.scopes) for row in rows])
        if alike not in self._given:
            self._given[alike] = NodeGate(self.declared, marks=self._marks(rows))
        return self._given[alike]

    @cached_property
    def _join_times(self) -> Mapping[str, float]:
        """Of the nodes of the batch: asked where one of them has no row of a change."""
        return catalog.joined_at(self.transaction, self._node_ids)

    def _offers(
        self, node_id: str, rows: Sequence[ChangeNode], held: Set[int], listed: Collection[str]
    ) -> Iterator[CandidateOffer]:
        """What comes new with a change is offered as it will be given: without what is not proven of it."""
        for row in rows:
            record = self._standing[row.change_id]
            if row.step is not Step.OFFERED or record.settled_at is not None or self._is_behind(row, rows):
                continue
            given = self._with_predecessors([record.change_id])
            left = held - given
            new = {row.change_id for row in self._rows_of_newcomer(node_id, self._find_changes(rows), left, listed)}
            model = self._model(self._with_followers(left | new) - given)
            scopes, named = views.scopes(model, model.subjects[node_id]), set(row.scopes)
            yield CandidateOffer(_mark(record, row), model, tuple(scope for scope in scopes if scope.name in named))

    def _marks(self, rows: Sequence[ChangeNode]) -> dict[str, ChangeMark]:
        """By scope, of the newest that the node was given and that is not over."""
        given = [(self._standing[row.change_id], row) for row in rows if row.step is Step.RELEASED]
        return {scope: _mark(record, row) for record, row in given if record.settled_at is None for scope in row.scopes}

    def _find_changes(self, rows: Sequence[ChangeNode]) -> set[int]:
        """The changes of which it is a node, or was one until it was given what stands in their place."""
        return self._with_predecessors([row.change_id for row in rows])

    def _rows_of_newcomer(
        self, node_id: str, known: Set[int], held: Set[int], listed: Collection[str]
    ) -> Iterator[ChangeNode]:
        """The newest change first: each without which a scope that the node has nothing of would be another; or any of
        its scopes, where it has joined since, perhaps once more.
        """
        if self._standing.keys() <= known:
            return
        held, model = set(held), self._model(self._with_followers(held))
        scopes = set(views.scopes(model, model.subjects[node_id]))
        first = {scope for scope in scopes if scope.name not in listed}
        for change_id in sorted(self._standing.keys() - known, reverse=True):
            is_older = self._join_times[node_id] < self._standing[change_id].at
            with_it, without = self._with_followers(held), self._with_followers(held | {change_id})
            differing = self._differing(without, with_it).get(node_id, frozenset())
            touched = differing & (first if is_older else scopes)
            pairs = compiled_pairs(
                lambda _, undone=without: self._model(undone),  # type: ignore[misc]
                lambda _, undone=with_it: self._model(undone),  # type: ignore[misc]
                [(node_id, scope) for scope in touched],
                self.read_part,
            )
            names = tuple(sorted(pair.scope.name for pair in pairs))
            if names:
                held.add(change_id)
                yield ChangeNode(change_id, node_id, names, self._group(node_id, change_id))

    def _group(self, node_id: str, change_id: int) -> int:
        """By the policy that is the node's now, where the change knows that; else among the first."""
        (policy,) = rollouts(self.declared, [self.declared.subjects[node_id]])
        policies = [group.policy for group in self._standing[change_id].groups]
        return policies.index(policy) if policy in policies else 0

    def _differing(self, without: frozenset[int], with_it: frozenset[int]) -> Mapping[str, frozenset[Scope]]:
        """By node, the scopes in which two models may differ, of which these changes are undone."""
        if without == with_it:
            return {}
        pair = (without, with_it)
        if pair not in self._otherwise:
            found: dict[str, set[Scope]] = defaultdict(set)
            for node_id, scope in affected_scopes(self._model(without), self._model(with_it)):
                found[node_id].add(scope)
            self._otherwise[pair] = {node_id: frozenset(scopes) for node_id, scopes in found.items()}
        return self._otherwise[pair]

    def _is_behind(self, row: ChangeNode, rows: Sequence[ChangeNode]) -> bool:
        open_ = [record for record in self._standing.values() if record.settled_at is None]
        return len(open_) > 1 and is_behind(row, rows, changes_before(row.change_id, open_))

    def _model(self, undone: Set[int]) -> Model:
        return self.models.model(self.transaction, self.declared, undone)

    def _with_followers(self, held: Set[int]) -> frozenset[int]:
        return with_followers(held, {change_id: record.follows for change_id, record in self._standing.items()})

    def _with_predecessors(self, change_ids: Iterable[int]) -> set[int]:
        """These, and those in whose place they stand."""
        found: set[int] = set()
        left = list(change_ids)
        while left:
            if (change_id := left.pop()) not in found:
                found.add(change_id)
                left += self._direct_predecessors.get(change_id, ())
        return found

    @cached_property
    def _direct_predecessors(self) -> Mapping[int, Sequence[int]]:
        """By change, those in whose place it was put."""
        found: dict[int, list[int]] = defaultdict(list)
        for change_id, record in self._standing.items():
            if record.superseded_by is not None:
                found[record.superseded_by].append(change_id)
        return found


def _mark(record: ChangeRecord, row: ChangeNode) -> ChangeMark:
    allowed = record.plan_hash if record.allowed else None
    return ChangeMark(record.name, record.groups[row.group].rollout.bake_s, allowed)

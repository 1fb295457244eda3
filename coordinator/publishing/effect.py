"""What a proposal would change of what nodes are told, compiled before and after (rules K21).

    weigh(database, proposal)    whom it is held back from, and how it stands to open changes

What it can touch is compiled (compiled_pairs.py), since who is held back is asked, offered a candidate and waited for:
for nothing, where nothing is another. A node has to be told of
something that it has before; what it is given for the first time replaces nothing, and a policy of degraded mode that
only gives more time takes nothing away. Whoever has one scope changed is held back with all of the change, also with
what comes new: consumers judge it as a whole, and documents for another role come with the role.

Of changes that are open, a new one

- supersedes those that stand halted, where both touch the same resource or the same scope of a node: it goes on from
  what nodes have, and takes over whom they have held back. What waits for them has not begun, and goes with them.
- follows the others of that kind, and those without which it would not hold together: it waits until they are over.
- goes beside all the rest.

It is seconds of work for a large fleet, so it is done before anything is locked (proposals.py), and what it was made
from is named: whoever carries the proposal out sees whether it is still so.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from operator import ge, itemgetter

from coordinator.changes import records
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.changes.undoing import UndoneModels, with_followers
from coordinator.configs.compiled_pairs import CompiledPair, ModelOf, compiled_pairs, is_given_scope
from coordinator.database.database import Transaction
from coordinator.declared.change_impact import Touched, affected_scopes
from coordinator.declared.compiler import ScopeContent
from coordinator.declared.contents import ReadPart
from coordinator.declared.model import Key, Model
from coordinator.declared.references import faults_of
from snapshot.grants import POLICY_SCOPE, POLICY_SECTION, parse_policy


@dataclass(frozen=True)
class Effect:
    """`held`: by node, the scopes that it is not told of yet. `stands_on`: what it was made from of the changes that
    were open: the halted ones.
    """

    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    supersedes: tuple[int, ...] = ()
    follows: tuple[int, ...] = ()
    stands_on: frozenset[int] = frozenset()


def is_held_back(pair: CompiledPair) -> bool:
    """Whether a node waits for it. Not for a policy of degraded mode that allows the same for longer."""
    return pair.scope.name != POLICY_SCOPE or pair.after is None or not _only_widens(pair.before, pair.after)


def weigh(
    transaction: Transaction,
    before: Model,
    after: Model,
    touched: Collection[Touched],
    changed: Collection[Key],
    read: ReadPart,
    *,
    reverts: int | None = None,
    look: Callable[[CompiledPair], None] | None = None,
) -> Effect:
    """Of a change of these resources. `reverts`: the change that it takes back, and supersedes if that is open. `look`
    is shown each pair, once.
    """
    standing = _read_standing(transaction)
    case = _Weighing(transaction, before, after, touched, frozenset(changed), read, standing)
    related = case.related_changes()
    superseded = case.superseded_changes(related, reverts)
    behind = case.with_followers(superseded) - superseded  # they wait for what they waited for, so for this one
    held, met = case.held_scopes(superseded, look or _ignore)
    inherited = {earlier for change_id in superseded for earlier in standing[change_id].record.follows}
    follows = ((related | met | inherited) & case.open.keys()) - superseded - behind
    return Effect(held, tuple(sorted(superseded)), tuple(sorted(follows)), case.halted_ids)


@dataclass(frozen=True)
class _StandingChange:
    """One that is open, or that holds nodes back still in the place of another. `scopes`: by node, those of its rows;
    `holds`: the nodes that it keeps from them still.
    """

    record: ChangeRecord
    keys: frozenset[Key]
    scopes: Mapping[str, frozenset[str]]
    holds: frozenset[str]


def halted_changes(changes: Iterable[ChangeRecord]) -> frozenset[int]:
    return frozenset(change.change_id for change in changes if change.state is ChangeState.HALTED)


def _read_standing(transaction: Transaction) -> dict[int, _StandingChange]:
    found = {}
    for record in records.standing_changes(transaction):
        nodes = records.nodes_of(transaction, record.change_id)
        found[record.change_id] = _StandingChange(
            record,
            frozenset(change.key for change in records.plan_of(transaction, record.change_id)),
            {node.node_id: frozenset(node.scopes) for node in nodes},
            frozenset(node.node_id for node in nodes if node.step is not Step.RELEASED),
        )
    return found


def _ignore(_pair: CompiledPair) -> None:
    """For who wants to know the sum alone."""


@dataclass(frozen=True)
class _Weighing:
    """One proposal, and the changes that stand while it is weighed."""

    transaction: Transaction
    before: Model
    after: Model
    touched: Collection[Touched]
    changed: frozenset[Key]
    read: ReadPart
    standing: Mapping[int, _StandingChange]
    _undone: tuple[UndoneModels, UndoneModels] = field(default_factory=lambda: (UndoneModels(), UndoneModels()))

    @cached_property
    def open(self) -> Mapping[int, _StandingChange]:
        return {id_: change for id_, change in self.standing.items() if change.record.settled_at is None}

    def with_followers(self, of: Set[int]) -> frozenset[int]:
        follows = {change_id: change.record.follows for change_id, change in self.standing.items()}
        return with_followers(of, follows)

    @property
    def halted_ids(self) -> frozenset[int]:
        return halted_changes(change.record for change in self.open.values())

    def related_changes(self) -> frozenset[int]:
        """Those that touch the same resource, or without which this one does not hold together."""
        return frozenset(change_id for change_id in self.open if self._builds_on(change_id))

    def _builds_on(self, change_id: int) -> bool:
        """Or on what it stands in the place of."""
        both = self._with_predecessors({change_id})
        if any(not self.changed.isdisjoint(self.standing[id_].keys) for id_ in both):
            return True
        without = self._model(1, both)
        return next(iter(faults_of(without)), None) is not None

    def superseded_changes(self, related: Set[int], reverts: int | None) -> frozenset[int]:
        """What waits for them has not begun and goes with them, but what waits for approval: nobody has seen it. Where
        this one builds on that, it cannot go past it, and waits itself. A revert takes nothing with it, and what a
        revert was taking back is over with that.
        """
        if reverts is not None:
            return self._with_predecessors({reverts}) & self.open.keys() if reverts in self.open else frozenset()
        found = frozenset(change_id for change_id in self.halted_ids if change_id in related or self._meets(change_id))
        behind = (self.with_followers(found) - found) & self.open.keys()
        unseen = {later for later in behind if self.open[later].record.state is ChangeState.PROPOSED}
        if unseen & related:
            return frozenset()
        return self._with_predecessors(found | (behind - unseen)) & self.open.keys()

    def _meets(self, change_id: int) -> bool:
        """Whether both change the same scope of a node."""
        scopes = self.open[change_id].scopes
        shared = [(node_id, scope) for node_id, scope in self.touched if scope.name in scopes.get(node_id, ())]
        pairs = compiled_pairs(lambda _: self.before, lambda _: self.after, shared, self.read)
        return next(pairs, None) is not None

    def held_scopes(
        self, superseded: Set[int], look: Callable[[CompiledPair], None]
    ) -> tuple[dict[str, tuple[str, ...]], set[int]]:
        """By node; and the changes that stand at one of these scopes."""
        replaced = self._with_predecessors(superseded)
        bases = {
            node_id: frozenset(change_id for change_id in replaced if node_id in self.standing[change_id].holds)
            for change_id in replaced
            for node_id in self.standing[change_id].holds
        }

        def before_of(node_id: str) -> Model:
            return self._model(0, bases[node_id]) if node_id in bases else self.before

        def after_of(node_id: str) -> Model:
            return self._model(1, self.with_followers(bases[node_id]) - replaced) if node_id in bases else self.after

        touched = self._touched_scopes(bases, before_of, after_of)
        changed: dict[str, set[str]] = {}
        pairs = compiled_pairs(before_of, after_of, touched, self.read)
        for node_id, of_node in groupby(pairs, key=itemgetter(0)):
            found = []
            for pair in of_node:
                look(pair)
                found.append(pair)
            if any(map(is_held_back, found)):
                changed[node_id] = {pair.scope.name for pair in found}
        unseen = ((id_, scope) for id_, scope in touched if id_ in changed and scope.name not in changed[id_])
        first = _first_scopes(before_of, after_of, unseen)
        held = {node_id: tuple(sorted(scopes | first.get(node_id, set()))) for node_id, scopes in changed.items()}
        return held, {change_id for change_id in self.open if self._is_met(change_id, held)}

    def _touched_scopes(
        self, bases: Mapping[str, frozenset[int]], before_of: ModelOf, after_of: ModelOf
    ) -> Collection[Touched]:
        """Of who goes on from another state than the declared one, what differs between that and what comes."""
        if not bases:
            return self.touched
        found = {(node_id, scope) for node_id, scope in self.touched if node_id not in bases}
        by_base: dict[frozenset[int], list[str]] = defaultdict(list)
        for node_id, base in bases.items():
            by_base[base].append(node_id)
        for node_ids in by_base.values():
            wanted = set(node_ids)
            between = affected_scopes(before_of(node_ids[0]), after_of(node_ids[0]))
            found |= {(node_id, scope) for node_id, scope in between if node_id in wanted}
        return found

    def _is_met(self, change_id: int, held: Mapping[str, Collection[str]]) -> bool:
        scopes = self.open[change_id].scopes
        return any(not scopes.get(node_id, frozenset()).isdisjoint(held[node_id]) for node_id in scopes.keys() & held)

    def _model(self, side: int, undone: Set[int]) -> Model:
        """Of the state before (0) or after (1): without these, and what follows them."""
        declared = (self.before, self.after)[side]
        return self._undone[side].model(self.transaction, declared, self.with_followers(undone))

    def _with_predecessors(self, superseded: Set[int]) -> frozenset[int]:
        """And those in whose place these stand already."""
        found = set(superseded)
        for change_id in sorted(self.standing, reverse=True):
            if self.standing[change_id].record.superseded_by in found:
                found.add(change_id)
        return frozenset(found)


def _first_scopes(before_of: ModelOf, after_of: ModelOf, touched: Iterable[Touched]) -> dict[str, set[str]]:
    """By node, those that it has nothing of yet."""
    found: dict[str, set[str]] = defaultdict(set)
    for node_id, scope in touched:
        if not is_given_scope(before_of(node_id), node_id, scope) and is_given_scope(after_of(node_id), node_id, scope):
            found[node_id].add(scope.name)
    return found


def _only_widens(before: ScopeContent, after: ScopeContent) -> bool:
    is_told = POLICY_SECTION in before.sections and POLICY_SECTION in after.sections
    is_for_the_same = is_told and before.audience == after.audience
    return is_for_the_same and _is_wider(before.section(POLICY_SECTION), after.section(POLICY_SECTION))


@lru_cache(maxsize=64)
def _is_wider(before: bytes, after: bytes) -> bool:
    """One policy than another one. A whole fleet goes from the one to the other: they are read once."""
    old, new = parse_policy(before), parse_policy(after)
    if old is None or new is None:
        return False
    as_before = replace(
        new, max_duration_s=old.max_duration_s, route_ttl_s=old.route_ttl_s, session_ttl_s=old.session_ttl_s
    )
    longer = (new.max_duration_s, new.route_ttl_s, new.session_ttl_s)
    return as_before == old and all(map(ge, longer, (old.max_duration_s, old.route_ttl_s, old.session_ttl_s)))

"""The declared state with some of its changes undone: what a node goes by that they still keep back.

    undo(model, plan)              each resource of one change as it was before it
    with_followers(held, follows)  what has to be undone with them, so that what is left holds together
    UndoneModels                   the same of changes by their numbers, each model made once
    parts_before(transaction, ...) the contents of files that what is undone names, so that they are kept

What is undone is undone the newest first. Changes that share a resource, or of which one would not hold together
without the other, never go side by side: the later follows the earlier (ChangeRecord.follows) and is held as a whole
while that is open. So what is undone is always the end of a row: a resource gets the very state that it had before.

Members are as they are: who has joined, or was revoked, stands in every model.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from coordinator.base.releasing import let_go
from coordinator.changes import records
from coordinator.changes.records import ChangedResource
from coordinator.database.database import Transaction
from coordinator.declared import kinds
from coordinator.declared.kinds import Config, Resource
from coordinator.declared.model import Key, Model
from coordinator.declared.next_model import next_model

MOST_MODELS = 8

Before = tuple[tuple[Key, Resource | None], ...]


def read_before(plan: Iterable[ChangedResource]) -> Before:
    """Each resource as it was before; None where it was not."""
    return tuple(
        (change.key, None if change.before is None else kinds.restore(change.kind, change.id, change.before))
        for change in plan
    )


def undo(model: Model, before: Before) -> Model:
    return next_model(model, dict(before))


def parts_before(transaction: Transaction, since: float) -> set[str]:
    """Parts of files, by their SHA-256, that were declared before changes that keep somebody back still, or that may be
    taken back: those that are over since this time, in Unix seconds. Nodes that wait are told what these hold, and it
    is compiled for them: no document has the text of a template.
    """
    changes = records.undoable_changes(transaction, since)
    before = (read_before(records.plan_of(transaction, change_id)) for change_id in changes)
    configs = (resource for plan in before for _, resource in plan if isinstance(resource, Config))
    return {part for config in configs for part in config.parts}


def with_followers(held: Iterable[int], follows: Mapping[int, Sequence[int]]) -> frozenset[int]:
    """`follows`: of each change that is not settled, those that it comes after; newer ones, too (order.py)."""
    found = set(held)
    while behind := {id_ for id_, earlier in follows.items() if id_ not in found and not found.isdisjoint(earlier)}:
        found |= behind
    return frozenset(found)


@dataclass
class UndoneModels:
    """What was read and made stays as long as the declared state is the same; of plans, which never change, longer."""

    _declared: Model | None = None
    _plans: "OrderedDict[int, Before]" = field(default_factory=OrderedDict)
    _made: "OrderedDict[frozenset[int], Model]" = field(default_factory=OrderedDict)

    def model(self, transaction: Transaction, declared: Model, undone: Set[int]) -> Model:
        """`declared` without these changes."""
        if self._declared is not declared:
            self._declared = declared
            self._made.clear()
        key = frozenset(undone)
        if not key:
            return declared
        if key not in self._made:
            made = declared
            for change_id in sorted(key, reverse=True):
                made = undo(made, self._plan(transaction, change_id))
            self._made[key] = made
        self._made.move_to_end(key)
        while len(self._made) > MOST_MODELS:
            self._made.popitem(last=False)
        return self._made[key]

    def _plan(self, transaction: Transaction, change_id: int) -> Before:
        if change_id not in self._plans:
            self._plans[change_id] = read_before(records.plan_of(transaction, change_id))
        self._plans.move_to_end(change_id)
        while len(self._plans) > MOST_MODELS:
            self._forget_oldest()
        return self._plans[change_id]

    def _forget_oldest(self) -> None:
        """Of a whole fleet it is ten thousand resources."""
        let_go([self._plans.popitem(last=False)[1]])

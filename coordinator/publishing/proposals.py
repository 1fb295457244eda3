"""What an apply would make of one state, worked out while nothing is locked: carrying it out only compares and writes.

    propose(database, declared)     from the state as it stands
    work_out(before, declared)      from a state that was read already

For a large fleet it is seconds of work, and every report of a node waits for the one writer. So a proposal names the
state that it was made from; where that has moved on meanwhile it is worked out again, under the lock (declarations.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from coordinator.base.refusal import Code, Refused
from coordinator.database import catalog, cluster_state
from coordinator.database.database import Database
from coordinator.declared import plans, resources
from coordinator.declared.change_impact import Touched, affected_scopes
from coordinator.declared.model import Key, Model
from coordinator.declared.plans import ResourceChange
from coordinator.declared.resources import Declared
from snapshot import canonical


@dataclass(frozen=True)
class Proposal:
    """Changes of one state, which hold together. `bodies`: what is written of each resource that is new or changed."""

    declared: Mapping[Key, Declared]
    prune: bool
    before: Model
    after: Model
    changes: tuple[ResourceChange, ...]
    bodies: Mapping[Key, str]
    touched: frozenset[Touched]
    state_id: str

    @property
    def unchanged_count(self) -> int:
        return len(self.after.resources) - len(self.bodies)


def propose(
    database: Database, declared: Mapping[Key, Declared], *, prune: bool = False, based_on: str | None = None
) -> Proposal:
    """InvalidResources where they do not hold together; `concurrent_update` as `check_base` has it."""
    with database.read() as transaction:
        state_id = cluster_state.standing(transaction).state_id
        check_base(based_on, state_id)
        before = catalog.load(transaction)
    return work_out(before, declared, prune=prune, state_id=state_id)


def work_out(before: Model, declared: Mapping[Key, Declared], *, prune: bool, state_id: str) -> Proposal:
    """The changes to the state `before`, with what they touch; InvalidResources where they do not hold together."""
    wanted = {key: entry.resource for key, entry in declared.items()}
    made = plans.changes(before.resources, wanted, prune=prune)
    kept = plans.result(before.resources, made)
    staying = {key: resource for key, resource in kept.items() if key not in declared}
    resources.check(declared, staying, before.cluster_id)
    after = replace(before, resources=kept)
    bodies = {change.key: canonical.dumps(change.specs[1]).decode() for change in made if change.after is not None}
    touched = affected_scopes(before, after) if made else frozenset()
    return Proposal(declared, prune, before, after, made, bodies, touched, state_id)


def check_base(based_on: str | None, state_id: str) -> None:
    """`concurrent_update` when the state is no longer the one that a plan was made from (rules H38)."""
    if based_on is not None and based_on != state_id:
        raise Refused(Code.CONCURRENT_UPDATE, "the state has changed since this plan was made", remedy="diff again")

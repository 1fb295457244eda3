"""Changes in numbers, for metrics: how many are how, since when, and how many nodes wait for them.

    figures(database)    from one consistent read

Read when somebody scrapes, by the index over the ends of changes: no plan, and no row of a change that is over.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from coordinator.changes import records
from coordinator.changes.groups import ChangeGroup
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState, GroupPhase, Step
from coordinator.changes.undoing import with_followers
from coordinator.database import schema
from coordinator.database.database import Database, Transaction

MOVING = (ChangeState.PREPARING, ChangeState.ROLLING)


@dataclass(frozen=True)
class ChangeFigures:
    """`states`: all changes that are kept. `oldest`: of the open ones, by state, when the first was applied. `due_at`:
    when the one that is longest overdue was to go on. Times in Unix seconds.
    """

    states: Mapping[str, int]
    oldest: Mapping[str, float]
    due_at: float | None
    held_nodes: int
    nodes_behind_halted: int


def figures(database: Database) -> ChangeFigures:
    with database.read() as transaction:
        changes = records.open_changes(transaction)
        states = Counter(records.count_ends(transaction))
        states.update(change.state.value for change in changes)
        moving = [change for change in changes if change.state in MOVING and change.waits_for is None]
        return ChangeFigures(
            states=states,
            oldest=_oldest(changes),
            due_at=min((_due_at(group) for change in moving for group in _under_way(change)), default=None),
            held_nodes=_count_nodes(transaction, {change.change_id for change in changes}),
            nodes_behind_halted=_count_nodes(transaction, _standstill(changes)),
        )


def _oldest(changes: Sequence[ChangeRecord]) -> dict[str, float]:
    found: dict[str, float] = {}
    for change in changes:
        found[change.state.value] = min(change.at, found.get(change.state.value, change.at))
    return found


def _under_way(change: ChangeRecord) -> list[ChangeGroup]:
    return [group for group in change.groups if group.phase is not GroupPhase.PASSED]


def _due_at(group: ChangeGroup) -> float:
    """A bake is no standstill, however long it was declared."""
    return group.since + (group.rollout.bake_s if group.phase is GroupPhase.BAKING else 0)


def _standstill(changes: Sequence[ChangeRecord]) -> frozenset[int]:
    """Those that are halted, and what comes after them."""
    halted = [change.change_id for change in changes if change.state is ChangeState.HALTED]
    return with_followers(halted, {change.change_id: change.follows for change in changes})


def _count_nodes(transaction: Transaction, change_ids: Collection[int]) -> int:
    """Nodes that have not been given one of these."""
    if not change_ids:
        return 0
    table = schema.change_nodes
    counted = select(func.count(table.c.node_id.distinct()))
    return transaction.number(
        counted.where(table.c.change_id.in_(sorted(change_ids)), table.c.step != Step.RELEASED.value)
    )

"""Which of the changes that are open comes first, where two are about the same. Pure.

    in_order(changes)                their ids: the oldest first, but none before what it follows
    changes_before(id, changes)      those that go first where they meet this one
    is_behind(row, rows, before)     whether one of these keeps a scope of this node from it still

That a change follows another is known when it begins, of the nodes that there are then (effect.py), and it waits as a
whole. Of two that were independent a node may join later at which they meet, in a scope to which both contribute. There
it is offered the second one once it was given the first: a head announces one document of a scope, and what a node
votes on is what it is given then. Everywhere else they go side by side.

A change that stands in the place of another is followed by whoever followed that, so an older change may follow a newer
one. There is one order of them all, so no two ever wait for each other.

Rejected: letting the later one follow the earlier once they meet. It may have been given to other nodes already, which
would have to give it back.
"""

import heapq
from collections.abc import Collection, Iterable, Set

from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import Step


def in_order(changes: Iterable[ChangeRecord]) -> list[int]:
    """Of all that are open."""
    every = {change.change_id: change for change in changes}
    left = {change_id: every.keys() & change.follows for change_id, change in every.items()}
    ready = [change_id for change_id, follows in left.items() if not follows]
    heapq.heapify(ready)
    found: list[int] = []
    while ready:
        found.append(heapq.heappop(ready))
        for change_id, follows in left.items():
            if found[-1] in follows:
                follows.remove(found[-1])
                if not follows:
                    heapq.heappush(ready, change_id)
    return found


def changes_before(change_id: int, changes: Collection[ChangeRecord]) -> frozenset[int]:
    """Of all that are open. One in whose place another stands is in nobody's way: it goes no further."""
    ordered = in_order(changes)
    leading = {change.change_id for change in changes if change.superseded_by is None}
    return frozenset(leading).intersection(ordered[: ordered.index(change_id)])


def is_behind(row: ChangeNode, rows: Iterable[ChangeNode], before: Set[int]) -> bool:
    """`rows`: of the same node."""
    return any(
        other.change_id in before and other.step is not Step.RELEASED and not set(other.scopes).isdisjoint(row.scopes)
        for other in rows
    )

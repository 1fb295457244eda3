"""Which nodes are next to get a change: the rings of one group, and the order inside a ring. Pure.

    next_ring(change_id, rollout, after, nodes)    the first ring after `after` that still wants nodes, and which

The sizes of rings are of all so far: a ring takes as many as it wants beyond those that have the change already, so one
whose size is reached is passed over. A ring with `of` counts the nodes of its cohort alone.

The order is by hash(change, node): no node is always the first to be tried, and nobody can arrange by its name to be
the last. The first ring prefers nodes of which much is heard: active, fresh, with validators and checks of their
services. A canary that cannot say no is none.

Rejected: an order by names or by time of joining, which makes the same few nodes the canaries of every change; and
choosing all rings at the start, since who is away by then would be in a ring that waits for it.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.changes.rollout_policy import Rollout
from coordinator.declared.kinds import RolloutRing


class RingPlace(NamedTuple):
    """Where one node of a group stands. `cohorts`: the rings, by their numbers from 1, whose `of` selects it."""

    node_id: str
    is_ready: bool  # it may get the change now
    has_it: bool  # it got it in one of the rings
    is_telling: bool = True  # active, fresh, and its services can say no
    cohorts: frozenset[int] = frozenset()


@dataclass(frozen=True)
class NextRing:
    """`number` from 1."""

    number: int
    node_ids: tuple[str, ...]


def next_ring(change_id: int, rollout: Rollout, after: int, nodes: Sequence[RingPlace]) -> NextRing | None:
    """None where no later ring takes a node: all that can get it have it."""
    for number, ring in enumerate(rollout.rings[after:], after + 1):
        cohort = [node for node in nodes if ring.of.is_empty or number in node.cohorts]
        lacking = size_of(ring, len(cohort)) - sum(node.has_it for node in cohort)
        ready = _in_order(change_id, (node for node in cohort if node.is_ready), is_first=number == 1)
        if chosen := ready[: max(0, lacking)]:
            return NextRing(number, tuple(chosen))
    return None


def size_of(ring: RolloutRing, count: int) -> int:
    """Of so many nodes; of a share the next whole number, so that a tenth of nine is one."""
    if ring.percent is not None:
        return -(-count * ring.percent // 100)
    return min(ring.nodes or 0, count)


def _in_order(change_id: int, nodes: Iterable[RingPlace], *, is_first: bool) -> list[str]:
    def rank(node: RingPlace) -> tuple[bool, bytes]:
        return is_first and not node.is_telling, _hash(change_id, node.node_id)

    return [node.node_id for node in sorted(nodes, key=rank)]


def _hash(change_id: int, node_id: str) -> bytes:
    return hashlib.sha256(f"{change_id}/{node_id}".encode()).digest()

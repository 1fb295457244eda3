"""By which steps a change goes: what is declared, and what holds where nobody has declared anything."""

import pytest

from coordinator.changes.rollout_policy import Rollout, parse_rollout, rollout_of, rollouts
from coordinator.declared.kinds import Node, RolloutPolicy, RolloutRing, Selector
from tests.coordinator.models import model

SAFE = (RolloutRing(nodes=1), RolloutRing(percent=10), RolloutRing(percent=100))
NODES = tuple(Node(f"n{number}", labels={"tier": "edge" if number < 2 else "core"}) for number in range(4))


@pytest.mark.parametrize(("touched", "rings"), [(1, SAFE[2:]), (2, SAFE[2:]), (3, SAFE), (10_000, SAFE)])
def test_without_a_policy_the_safe_one_holds(touched: int, rings: tuple[RolloutRing, ...]) -> None:
    """All are asked, one has it, then a tenth; where it fails a person looks. Of fewer than three nodes the vote."""
    state = model(*NODES)
    assert rollouts(state, state.subjects.values()) == {"": ["n0", "n1", "n2", "n3"]}
    found = rollout_of(state, "", touched)
    assert (found.prepare, found.rings, found.bake_s) == ("all", rings, 30)
    assert (found.success_percent, found.on_failure, found.approvals) == (99, "halt", 0)


def test_the_highest_priority_is_a_nodes_then_the_lowest_id() -> None:
    edge = Selector(labels={"tier": "edge"})
    policies = (
        RolloutPolicy("z-edge", applies_to=edge, priority=2, bake_s=7),
        RolloutPolicy("b-edge", applies_to=edge, priority=2, bake_s=8),
        RolloutPolicy("rest", priority=1),
    )
    state = model(*NODES, *policies)
    assert rollouts(state, state.subjects.values()) == {"b-edge": ["n0", "n1"], "rest": ["n2", "n3"]}
    assert rollout_of(state, "b-edge", 2) == Rollout(rings=SAFE, bake_s=8), "what is declared holds for few nodes, too"


def test_at_once_is_after_the_vote() -> None:
    found = Rollout(prepare="none", bake_s=600, approvals=2).at_once
    assert (found.prepare, found.rings, found.bake_s, found.approvals) == ("all", SAFE[2:], 0, 2)


def test_it_is_read_as_it_was_written() -> None:
    one = Rollout(
        "ring", (RolloutRing(nodes=2, of=Selector(nodes=("n1",))), RolloutRing(percent=100)), 5, 70, "revert", 1
    )
    assert parse_rollout(one.to_value()) == one

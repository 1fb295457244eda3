"""Which nodes are next to get a change, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.changes.rings import RingPlace, next_ring, size_of
from coordinator.changes.rollout_policy import EVERYBODY, Rollout
from coordinator.declared.kinds import RolloutRing, Selector
from tests.examples import examples

THREE = Rollout()
LAB = Selector(labels={"stage": "lab"})


def places(count: int, *, has_it: int = 0, ready: bool = True) -> list[RingPlace]:
    return [
        RingPlace(f"n{number}", is_ready=ready and number >= has_it, has_it=number < has_it) for number in range(count)
    ]


def chosen(change_id: int, rollout: Rollout, after: int, nodes: list[RingPlace]) -> tuple[int, set[str]]:
    ring = next_ring(change_id, rollout, after, nodes)
    return (0, set()) if ring is None else (ring.number, set(ring.node_ids))


def test_sizes_are_of_all_so_far() -> None:
    assert [size_of(ring, 25) for ring in THREE.rings] == [1, 3, 25]
    assert [len(chosen(7, THREE, after, places(25, has_it=count))[1]) for after, count in ((0, 0), (1, 1), (2, 3))] == [
        1,
        2,
        22,
    ]


def test_a_ring_that_is_full_is_passed_over() -> None:
    """A tenth of six is one, which the first ring was."""
    assert chosen(7, THREE, 1, places(6, has_it=1)) == (3, {"n1", "n2", "n3", "n4", "n5"})
    assert next_ring(7, THREE, 3, places(6, has_it=6)) is None
    assert next_ring(7, THREE, 0, places(6, ready=False)) is None


def test_the_order_is_by_change_and_node_and_never_by_name() -> None:
    first = [next(iter(chosen(change_id, THREE, 0, places(30))[1])) for change_id in range(60)]
    assert len(set(first)) > 20, "each change has another canary"
    assert chosen(7, THREE, 0, places(30)) == chosen(7, THREE, 0, places(30)[::-1])


def test_the_first_ring_prefers_nodes_of_which_much_is_heard() -> None:
    nodes = [RingPlace(f"n{number}", is_ready=True, has_it=False, is_telling=number == 17) for number in range(30)]
    assert all(chosen(change_id, THREE, 0, nodes) == (1, {"n17"}) for change_id in range(20))
    second = [chosen(change_id, Rollout(rings=THREE.rings[1:]), 1, nodes)[1] for change_id in range(20)]
    assert any("n17" not in ring for ring in second[1:]) or len(second[0]) == 30


def test_a_cohort_is_counted_by_itself() -> None:
    rollout = Rollout(rings=(RolloutRing(percent=100, of=LAB), RolloutRing(percent=50), *EVERYBODY))
    nodes = [RingPlace(f"n{number}", True, False, cohorts=frozenset({1} if number < 3 else ())) for number in range(10)]
    assert chosen(7, rollout, 0, nodes) == (1, {"n0", "n1", "n2"})
    after = [RingPlace(node.node_id, 1 not in node.cohorts, 1 in node.cohorts, cohorts=node.cohorts) for node in nodes]
    number, more = chosen(7, rollout, 1, after)
    assert (number, len(more)) == (2, 2), "half of all, the lab included"


@given(st.integers(0, 60), st.lists(st.integers(1, 100), max_size=4), st.integers(1, 99), st.sets(st.integers(0, 59)))
@examples(200)
def test_every_node_that_may_have_it_gets_it_once(
    count: int, percents: list[int], change_id: int, away: set[int]
) -> None:
    rollout = Rollout(rings=(*(RolloutRing(percent=percent) for percent in sorted(percents)), *EVERYBODY))
    given_to: list[str] = []
    after = 0
    while True:
        nodes = [
            RingPlace(f"n{number}", f"n{number}" not in given_to and number not in away, f"n{number}" in given_to)
            for number in range(count)
        ]
        ring = next_ring(change_id, rollout, after, nodes)
        if ring is None:
            break
        assert ring.number > after and ring.node_ids
        given_to += ring.node_ids
        after = ring.number
    assert sorted(given_to) == sorted(f"n{number}" for number in range(count) if number not in away)

"""How much is compiled and published at once (backlog.py)."""

import pytest

from coordinator.publishing.backlog import MOST_SCOPES, SCOPES_OF_NODE, Backlog
from snapshot.identifiers import parse_scope

NODES = [f"n{number}" for number in range(MOST_SCOPES)]
MANY = {parse_scope(f"route_policy/s{number}") for number in range(MOST_SCOPES + 1)}
ONE = {parse_scope("route_policy/berlin")}


@pytest.mark.parametrize(
    ("known", "changed", "count"),
    [
        (set(), {}, MOST_SCOPES // SCOPES_OF_NODE),  # compiled whole
        (set(NODES), {}, len(NODES)),  # heads alone
        (set(NODES), dict.fromkeys(NODES, ONE), len(NODES)),
        (set(NODES), {"n0": MANY}, 1),  # more than there should be of one: it goes out all the same
        (set(NODES), {"n7": MANY}, 7),
    ],
)
def test_a_batch_is_bounded_by_what_is_compiled_anew(known: set, changed: dict, count: int) -> None:
    kept = Backlog(known=known, changed=changed)
    assert kept.first_of(NODES) == NODES[:count]

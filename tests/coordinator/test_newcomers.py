"""Who is only to be told of newcomers waits a little, and for nothing else (rules K21, K22)."""

from copy import copy, deepcopy

import pytest

from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.membership import membership, revocation
from coordinator.membership.enrolment import GrantReader
from coordinator.publishing.newcomers import MOST_S, QUIET_S, Newcomers
from tests.coordinator import copies
from tests.coordinator.candidates import NOW, admit, join, remove_node
from tests.coordinator.publishing import Press

NODE = "{{kind: Node, id: {id}, spec: {{roles: [core_mesh], organizations: [acme], addresses: ['h:{port}']}}}}"
STATE = "\n---\n".join(
    [
        "{kind: Cluster, id: prod, spec: {coordinators: ['https://localhost:7443']}}",
        "{kind: Organization, id: acme}",
        *(NODE.format(id=id_, port=1) for id_ in ("a", "b", "c", "d")),
    ]
)


class Fleet:
    """Two members who know each other, and have what is declared."""

    def __init__(self, database: Database) -> None:
        self.press = Press.founded(database)
        self.press.apply(STATE)
        for node_id in ("a", "b"):
            self.admit(node_id)
        self.newcomers, self.time = Newcomers(), 100.0
        assert self.choose() == ["a", "b"]
        self.publish()

    def over(self, database: Database) -> "Fleet":
        made = copy(self)
        made.press, made.newcomers = self.press.over(database), deepcopy(self.newcomers)
        return made

    def admit(self, node_id: str) -> None:
        self.members = {**getattr(self, "members", {}), node_id: admit(self.press.database, node_id)}

    def choose(self, later: float = 0.0, *asked_for: str) -> list[str]:
        """After so many seconds; in the order of their ids."""
        self.time += later
        return sorted(self.newcomers.choose(self.press.database, self.press.due(), self.time, asked_for))

    def publish(self, *node_ids: str) -> None:
        for draft in self.press.publish(*node_ids).drafts:
            self.newcomers.note_attempt(draft.publication.node_id)


@pytest.fixture
def fleet(database: Database) -> Fleet:
    return copies.made(database, "two who know each other", lambda new: Fleet(new).over(new)).over(database)


def test_a_newcomer_is_published_at_once_and_others_are_told_of_many_together(fleet: Fleet) -> None:
    fleet.admit("c")
    assert sorted(fleet.press.due()) == ["a", "b", "c"] and fleet.choose() == ["c"]
    fleet.publish("c")
    assert fleet.choose(QUIET_S - 1) == []
    fleet.admit("d")
    assert fleet.choose() == ["d"]
    fleet.publish("d")
    assert fleet.choose(QUIET_S - 1) == []
    assert fleet.choose(1) == ["a", "b", "c"]
    fleet.publish()
    assert fleet.choose(60) == [] == fleet.press.due()


def test_nobody_waits_for_ever_where_somebody_always_joins(fleet: Fleet) -> None:
    fleet.admit("c")
    assert fleet.choose() == ["c"]
    fleet.publish("c")
    fleet.admit("d")
    assert fleet.choose(MOST_S - 1) == ["d"]
    assert fleet.choose(1) == ["a", "b", "d"]  # c has waited for less


@pytest.mark.parametrize("what", ["declared", "renewed", "removed", "key", "everybody"])
def test_what_else_happens_is_told_at_once_with_the_newcomers(fleet: Fleet, what: str) -> None:
    """Before it is looked at again, and after."""
    for node_id in ("c", "d"):
        fleet.admit(node_id)
        assert node_id in fleet.choose() and "a" not in fleet.choose()
        fleet.publish(node_id)
        happen(fleet, what, node_id)
        assert "a" in fleet.choose()
        fleet.publish()


def happen(fleet: Fleet, what: str, of: str) -> None:
    database = fleet.press.database
    acts = {"reason": "x", "actor": "root", "now": NOW}
    match what:
        case "declared":
            fleet.press.apply(NODE.format(id="b", port=2 if of == "c" else 3))
        case "renewed":
            new = fleet.members["b"].renewed()
            join(database, new, connection=fleet.members["b"].pin)
            assert membership.confirm_pin(database, new.pin, now=NOW)
            fleet.members["b"] = new
        case "removed":
            remove_node(database, of, **acts)
        case "key":
            revocation.revoke(database, "service_ids", f"gone-{of}", unknown=True, **acts)
        case "everybody":
            fleet.press.add_bundle()


def test_who_is_due_already_does_not_wait(fleet: Fleet) -> None:
    fleet.press.apply(NODE.format(id="b", port=2))
    assert fleet.choose() == ["a", "b"]
    fleet.admit("c")
    assert fleet.choose() == ["a", "b", "c"]


def test_a_newcomer_whose_head_was_refused_does_not_wait(fleet: Fleet) -> None:
    """Who joined in between touched its directory; its join is answered by that head."""
    fleet.admit("c")
    assert fleet.choose() == ["c"]
    fleet.newcomers.note_attempt("c")
    fleet.admit("d")
    assert fleet.choose() == ["c", "d"]


def test_whose_head_somebody_waits_for_does_not_wait(fleet: Fleet) -> None:
    """A node whose answer was lost asks again, and is told of who has joined since."""
    fleet.admit("c")
    assert fleet.choose() == ["c"]
    fleet.publish("c")
    fleet.admit("d")
    assert fleet.choose(0, "c") == ["c", "d"]
    fleet.publish("c", "d")
    assert fleet.choose(QUIET_S - 1) == []


def test_who_is_touched_by_one_more_while_it_is_published_may_wait_again(fleet: Fleet) -> None:
    fleet.admit("c")
    assert fleet.choose() == ["c"]
    fleet.publish("c")
    assert fleet.choose(QUIET_S) == ["a", "b"]
    fleet.admit("d")
    fleet.newcomers.note_attempt("a")  # which was refused
    assert fleet.choose() == ["b", "d"]


def test_after_a_start_nobody_waits(fleet: Fleet) -> None:
    fleet.admit("c")
    fleet.newcomers = Newcomers()
    assert fleet.choose() == ["a", "b", "c"]


def test_the_grant_of_a_newcomer_is_read_although_another_one_has_joined_since(fleet: Fleet) -> None:
    """rules J9: its own join is answered by its first head, and by none before that."""
    fleet.admit("c")
    with fleet.press.database.read() as transaction:
        (_, joined_with) = catalog.members(transaction, ["c"])["c"]
    reader = GrantReader()
    assert reader.read(fleet.press.database, "c", joined_with) is None
    fleet.choose()
    fleet.publish("c")
    fleet.admit("d")
    assert "c" in fleet.press.due()
    given = reader.read(fleet.press.database, "c", joined_with)
    assert given is not None and len(given) == 2
    assert reader.read(fleet.press.database, "c", 1 << 40) is None

"""How much is compiled and published at once (backlog.py)."""

from types import SimpleNamespace

import pytest
from hypothesis import given

from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import views
from coordinator.declared.model import Model
from coordinator.publishing import backlog, heads, published_state
from coordinator.publishing.backlog import MOST_SCOPES, SCOPES_OF_NODE, Backlog
from coordinator.publishing.gates import NodeGate
from coordinator.reports import features
from snapshot.identifiers import Scope, parse_scope
from tests.coordinator.models import changes
from tests.coordinator.publishing import STATE, Press
from tests.examples import examples

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
    kept = Backlog(known=dict.fromkeys(known, (1, 1_000)), changed=changed)
    assert kept.first_of(NODES) == NODES[:count]


def test_what_another_coordinator_has_published_from_a_state_never_seen_here_is_taken_back(database: Database) -> None:
    """rules K21, X16: declared, published over there, and taken back: nothing has changed here since the last look,
    and yet the node does not go on with what was taken back.
    """
    here = Press.founded(database, "node-a", "node-b")
    here.publish()
    first = here.reader().follow()
    there = Press(database, bundles=here.bundles)
    here.apply(STATE.replace("workers: 4", "workers: 5"))
    there.publish()
    other = here.reader().follow()
    (scope,) = (scope for scope in other.holder.active if other.text(scope) != first.text(scope))
    here.apply(STATE)
    here.publish()
    assert here.reader().follow().text(scope) == first.text(scope)


def test_who_lost_its_swap_to_a_change_is_not_compiled_whole_again(database: Database) -> None:
    press = Press.founded(database, "node-a", "node-b")
    press.publish()
    press.apply(STATE.replace("workers: 4", "workers: 5"))
    late = press.prepare()
    press.apply(STATE.replace("workers: 4", "workers: 6"))
    publications = [draft.publication for draft in late.drafts]
    refused = heads.publish(database, publications, actor="coordinator", now=press.now)
    assert refused.keys() == {"node-a"}
    with database.read() as transaction:
        (situation,) = published_state.read_situations(transaction, ["node-a"]).values()
        model = catalog.load(transaction)
    press.kept.follow(model)
    scopes, changed = press.kept.scopes(NodeGate(model), situation)
    assert 0 < len(changed.intersection(scopes)) < len(scopes)


def held(kept: Backlog, model: Model) -> dict[str, set[Scope]]:
    known = {node_id: SimpleNamespace(node_id=node_id, head=(0, 0), features=None) for node_id in model.members}
    return {node_id: set(kept.scopes(NodeGate(model), situation)[0]) for node_id, situation in known.items()}


def held_anew(model: Model) -> dict[str, set[Scope]]:
    scopes = {node_id: views.scopes(model, subject) for node_id, subject in model.subjects.items()}
    return {node_id: set(found) - set(features.unreadable_scopes(found, None)) for node_id, found in scopes.items()}


@given(changes())
@examples(300)
def test_what_a_node_holds_is_followed_from_state_to_state(change: tuple[Model, Model]) -> None:
    """rules K21: what comes or goes with a change, and what stays, also where the change is taken back."""
    kept, (before, after) = Backlog(), change
    for model in (before, after, before):
        kept.follow(model)
        assert held(kept, model) == held_anew(model)


def test_what_nodes_hold_is_gone_through_again_only_once_much_of_it_may_be_over(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a fleet whose nodes all hold other scopes it would be all of it, with each batch."""
    monkeypatch.setattr(backlog, "MOST_EQUAL", 2)
    press = Press.published(database, "node-a", "node-b")
    kept, model = press.kept, press.kept.followed
    kept._held = {f"n{number}": (Scope("config", (f"c{number}",)),) for number in range(5)}
    kept._equal = {held: held for held in kept._held.values()}
    before = kept._equal
    kept.follow(model)
    assert kept._equal is before
    kept._equal |= {(Scope("config", (f"old{number}",)),): () for number in range(3)}
    kept.follow(model)
    assert kept._equal == {held: held for held in kept._held.values()}

"""That a change keeps a scope back from a node is said wherever an operator asks about that node."""

import pytest

from coordinator.base.settings import CoordinatorSettings
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.fleet import explain, roster
from coordinator.fleet.explain_scope import explain_scope
from tests.coordinator.guarded import GuardedFleet
from tests.coordinator.publishing import Press

WEB = "service_assignment/web"
WEB_9 = "kind: Service\nid: web\nspec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {workers: 9}}"
CONFIG = "kind: Config\nid: edge\nspec: {{to: {{nodes: [node-a, node-b]}}, files: {{motd: {{text: {}}}}}}}"


@pytest.fixture
def fleet(database: Database) -> GuardedFleet:
    made = GuardedFleet.founded(database, "node-a", "node-b")
    made.press.apply(CONFIG.format("one"))
    made.press.publish()
    made.hear()
    return made


def words(press: Press, node_id: str = "node-a") -> dict[str, str]:
    """Each view says the same."""
    settings = CoordinatorSettings()
    shown = roster.show(press.database, node_id, now=press.now, settings=settings).held_back
    told = {each.scope: each.held_back for each in explain.explain(press.database, node_id) if each.held_back}
    assert told == shown
    for scope, why in told.items():
        assert f"held back {why}" in explain_scope(press.database, node_id, scope, now=press.now).notes
    return told


def test_from_the_apply_until_it_is_its_turn(fleet: GuardedFleet) -> None:
    press = fleet.press
    assert words(press) == {}
    press.change(CONFIG.format("two"))
    assert words(press) == {"config/edge": "by c-1, which is preparing"}
    press.change(CONFIG.format("three"))
    fleet.go_on(2)
    (later,) = (node_id for node_id, row in fleet.rows(1).items() if row.step is Step.OFFERED)
    assert words(press, later) == {"config/edge": "by c-2, which waits for c-1"}
    fleet.go_on(6)
    assert fleet.record(1).state is ChangeState.DONE
    waits = [words(press, node_id).get("config/edge") for node_id in fleet.nodes]
    assert sorted(waits, key=str) == [None, "by c-2, which waits for ring 2 of 2"]
    fleet.go_on(20)
    assert words(press) == words(press, "node-b") == {}


def test_a_halted_one_is_named_with_its_reason_and_so_is_what_stands_in_its_place(fleet: GuardedFleet) -> None:
    press = fleet.press
    fleet.nodes["node-a"].is_content = False
    press.change(WEB_9)
    fleet.go_on(3)
    why = "1 of 1 nodes that were asked did not accept it"
    assert words(press)[WEB].startswith(f"by c-1, which is halted: {why}: node-a refused")
    press.change(WEB_9.replace("9", "10"))
    assert words(press) == {WEB: "by c-2, which is preparing"}


def test_what_is_to_be_withdrawn_is_said_to_wait(fleet: GuardedFleet) -> None:
    press = fleet.press
    press.change(WEB_9.replace("{nodes: [node-a]}", "{labels: {a: b}}"))
    assert words(press) == {WEB: "by c-1, which is preparing"}
    assert explain_scope(press.database, "node-a", WEB, now=press.now).notes == (
        "held back by c-1, which is preparing",
    )

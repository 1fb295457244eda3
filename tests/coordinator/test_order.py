"""Two changes of the same scope of the same node go one after the other, whatever becomes of the first."""

from dataclasses import replace

import pytest

from coordinator.changes import order, records
from coordinator.changes.records import ChangeNode, ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.database.database import Database
from coordinator.rollout import commands
from tests.coordinator.candidates import NOW, admit
from tests.coordinator.guarded import GuardedFleet
from tests.coordinator.publishing import Press

ROUTE = "kind: Route\nid: {id}\nspec: {{organization: {of}, service: {service}, match: {{hosts: [{host}]}}}}"
FRONT, BACK, ROUTES = "front", "back", "route_policy"
WEB = "service_assignment/web"
SERVICE = (
    "kind: Service\nid: {id}\nspec: {{organization: acme, runs_on: {{nodes: [{nodes}]}}, settings: {{workers: {n}}}}}"
)
WEB_9 = SERVICE.format(id="web", nodes="node-a", n=9)


def route(id_: str, host: str, *, of: str = "acme", service: str = "web") -> str:
    return ROUTE.format(id=id_, host=host, of=of, service=service)


@pytest.fixture
def fleet(database: Database) -> GuardedFleet:
    """Both nodes are told of routes."""
    made = GuardedFleet.founded(database, "node-a", "node-b")
    made.press.apply(route(BACK, "back.example"))
    made.press.publish()
    made.hear()
    return made


def propose(press: Press, change_id: int) -> None:
    """It waits for approvals from now on."""
    with press.database.change(actor="x", now=press.now) as transaction:
        transaction.audit("x", "y")
        record = records.get(transaction, change_id)
        records.save(transaction, replace(record, state=ChangeState.PROPOSED))


# ---- pure


def change(number: int, *follows: int, **values: object) -> ChangeRecord:
    return ChangeRecord(number, NOW, "x", "", ChangeState.PREPARING, "", "", (), follows=follows, **values)


def row(number: int, step: Step, *scopes: str) -> ChangeNode:
    return ChangeNode(number, "n1", scopes, step=step)


def test_the_oldest_first_but_none_before_what_it_follows() -> None:
    """c-3 follows c-8, which stands in the place of what it waited for."""
    changes = [change(6), change(8, 6), change(3, 1, 8), change(9)]
    assert order.in_order(changes) == [6, 8, 3, 9]
    assert order.in_order([change(2, 1), change(1)]) == [1, 2]


def test_who_keeps_a_scope_of_a_node_from_whom() -> None:
    changes = [change(1), change(2), change(3, 1)]
    rows = [row(1, Step.OFFERED, "a"), row(2, Step.HELD, "a", "b"), row(3, Step.HELD, "b")]
    assert who_is_behind(changes, rows) == [2, 3]
    assert who_is_behind(changes, [row(1, Step.RELEASED, "a"), *rows[1:]]) == [3]


def test_what_is_taken_back_is_in_nobodys_way() -> None:
    changes = [change(1, superseded_by=2), change(2)]
    assert who_is_behind(changes, [row(1, Step.HELD, "a"), row(2, Step.HELD, "a")]) == []


def who_is_behind(changes: list[ChangeRecord], rows: list[ChangeNode]) -> list[int]:
    before = {one.change_id: order.changes_before(one.change_id, changes) for one in changes}
    return [one.change_id for one in rows if order.is_behind(one, rows, before[one.change_id])]


# ---- what comes in the place of another


def test_who_waited_for_one_waits_for_what_stands_in_its_place(fleet: GuardedFleet) -> None:
    """c-2 was not approved yet, so c-3 does not take it along; approved, nobody is asked before c-3 is over."""
    press = fleet.press
    press.change(route(FRONT, "one.example"))
    press.change(route(BACK, "two.example"))
    propose(press, 2)
    press.become(1, ChangeState.HALTED)
    third = press.change(route(FRONT, "three.example")).record
    assert (fleet.record(1).superseded_by, third.follows, fleet.record(2).follows) == (3, (), (1, 3))
    press.become(2, ChangeState.PREPARING)
    fleet.go_on(2)
    assert fleet.record(2).waits_for == 3
    assert {one.step for one in fleet.rows(2).values()} == {Step.HELD}
    assert b"three.example" in press.reader().follow().judge()[ROUTES]
    assert b"two.example" not in press.reader().follow().judge()[ROUTES]
    fleet.go_on(20)
    states = [fleet.record(number).state for number in (1, 2, 3)]
    assert states == [ChangeState.SUPERSEDED, ChangeState.DONE, ChangeState.DONE]
    assert fleet.record(2).settled_at > fleet.record(3).settled_at
    text = press.reader().follow().text(ROUTES)
    assert b"two.example" in text and b"three.example" in text


def test_a_change_of_what_a_superseded_one_changed_comes_after_its_successor(fleet: GuardedFleet) -> None:
    """c-1 changed two resources, c-2 one of them again; c-3 is about the other, at a node that c-2 does not touch."""
    press = fleet.press
    config = "kind: Config\nid: edge\nspec: {{to: {{nodes: [{to}]}}, files: {{motd: {{text: {text}}}}}}}"
    press.apply(config.format(to="node-a, node-b", text="one"))
    press.publish()
    press.change(f"{config.format(to='node-a, node-b', text='two')}\n---\n{WEB_9}")
    press.move(1, Step.RELEASED, "node-b", ring=1)
    press.become(1, ChangeState.HALTED)
    second = press.change(WEB_9.replace("9", "10"))
    assert list(second.held) == ["node-a"]
    third = press.change(config.format(to="node-a", text="two"))
    assert (list(third.held), third.record.follows) == (["node-b"], (2,))


@pytest.mark.parametrize("end", ["superseded", "reverted"])
def test_a_halted_one_in_whose_place_another_halts_lets_nobody_skip(fleet: GuardedFleet, end: str) -> None:
    """node-b has had nothing of either; whatever comes next is what it votes on, before it has it. What takes c-2 back
    goes back behind both, and there nobody waits for anything.
    """
    press = fleet.press
    before = press.listing("node-b")[ROUTES]
    for host in ("one.example", "two.example"):
        press.change(route(FRONT, host))
        fleet.nodes["node-b"].is_content = False
        fleet.go_on(3)
        fleet.nodes["node-b"].is_content = True
    assert [fleet.record(number).state for number in (1, 2)] == [ChangeState.SUPERSEDED, ChangeState.HALTED]
    assert press.listing("node-b")[ROUTES].content_hash == before.content_hash
    if end == "reverted":
        commands.revert(press.database, 2, actor="operator:ann", now=press.now)
        assert fleet.record(3).state is ChangeState.DONE
        fleet.go_on(5)
        assert press.listing("node-b")[ROUTES].content_hash == before.content_hash
    last = press.change(route(FRONT, "three.example")).record.change_id
    fleet.go_on(20)
    assert fleet.record(last).state is ChangeState.DONE
    assert not [one for number in range(1, last + 1) for one in fleet.rows(number)]
    assert b"three.example" in press.reader("node-b").follow().text(ROUTES)
    assert fleet.nodes["node-b"].active[ROUTES] == press.listing("node-b")[ROUTES]


# ---- who comes meanwhile


def test_two_that_were_independent_go_one_after_the_other_where_they_meet(database: Database) -> None:
    """node-c joins later, and is told of the routes of both organizations in one scope."""
    fleet = GuardedFleet.founded(database, "node-a", "node-b")
    press = fleet.press
    press.apply(
        "kind: Service\nid: site\nspec: {organization: wayne, runs_on: {nodes: [node-b]}, settings: {}}\n---\n"
        "kind: Node\nid: node-b\nspec: {roles: [egress_service, ingress], organizations: [wayne]}\n---\n"
        "kind: Node\nid: node-c\nspec: {roles: [egress_service, ingress], organizations: [acme, wayne]}\n---\n"
        + route("cave", "cave.example", of="wayne", service="site")
    )
    press.publish()
    fleet.hear()
    first = press.change(route(FRONT, "one.example")).record
    second = press.change(route("cave", "two.example", of="wayne", service="site")).record
    assert (first.follows, second.follows) == ((), ())
    admit(database, "node-c")
    press.publish()
    fleet.join("node-c")
    fleet.hear()
    assert {number for number in (1, 2) if "node-c" in fleet.rows(number)} == {1, 2}
    seen = []
    for _ in range(40):
        fleet.go_on(1)
        seen.append(tuple(one.step if (one := fleet.rows(number).get("node-c")) else None for number in (1, 2)))
    assert [pair for number, pair in enumerate(seen) if pair != seen[number - 1]] == [
        (Step.OFFERED, Step.HELD),
        (Step.RELEASED, Step.OFFERED),
        (Step.RELEASED, Step.RELEASED),
        (None, Step.RELEASED),
        (None, None),
    ]
    assert fleet.record(1).settled_at < fleet.record(2).settled_at
    told = press.reader("node-c").follow().text(ROUTES)
    assert b"one.example" in told and b"two.example" in told


def test_what_comes_new_with_a_change_is_offered_as_it_will_be_given(fleet: GuardedFleet) -> None:
    """c-1 stands halted at a service that c-2 brings to node-b: it is offered, and gets, what is proven of it."""
    press = fleet.press
    db = SERVICE.format(id="db", nodes="node-a", n="{n}").replace("{nodes: [node-a]}", "{labels: {tier: x}}")
    db_1, db_2 = (db.replace("{n}", number) for number in "12")
    press.apply(
        "kind: Node\nid: node-a\nspec: {roles: [core_mesh, egress_service], organizations: [acme], labels: {tier: x}}"
    )
    press.apply(db_1)
    press.publish()
    fleet.hear()
    press.change(db_2)
    press.become(1, ChangeState.HALTED)
    started = press.change(
        "kind: Node\nid: node-b\nspec: {roles: [egress_service, ingress], organizations: [acme], labels: {tier: x}}"
    )
    assert (started.record.follows, started.superseded) == ((), ())
    press.move(2, Step.OFFERED, "node-b")
    press.publish()
    reader = press.reader("node-b").follow()
    assert b'"workers":1' in reader.judge()["service_assignment/db"]
    coming = press.candidates("node-b")["service_assignment/db"]
    press.move(2, Step.RELEASED, "node-b", ring=1)
    press.publish()
    assert press.listing("node-b")["service_assignment/db"] == coming
    assert fleet.rows(1)["node-b"].step is Step.HELD

"""Whom a change is held back from: what is compiled for each node before it and after it."""

from dataclasses import replace

import pytest

from coordinator.base.refusal import Refused
from coordinator.changes import records
from coordinator.changes.records import ChangeRecord
from coordinator.changes.states import ChangeState, Step
from coordinator.configs import compiled_contents
from coordinator.configs.compiled_pairs import CompiledPair
from coordinator.database import catalog
from coordinator.database.database import Database
from coordinator.declared import compiler
from coordinator.publishing import declarations, proposals
from coordinator.publishing.declarations import OutdatedProposal
from coordinator.publishing.effect import Effect
from tests.coordinator.candidates import admit
from tests.coordinator.publishing import Press

SERVICE = (
    "kind: Service\nid: {id}\nspec: {{organization: acme, runs_on: {{nodes: [{nodes}]}}, settings: {{workers: {n}}}}}"
)
POLICY = "kind: DegradedModePolicy\nid: standard\nspec: {{allow: [continue_services], max_duration_s: {max}{more}}}"
WEB_9 = SERVICE.format(id="web", nodes="node-a", n=9)


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b")


def effect_of(press: Press, text: str, **flags: object) -> Effect:
    found = proposals.weigh(press.database, press.propose(text, **flags)).effect
    assert found is not None
    return found


# ---- whom


def test_a_node_waits_for_what_it_is_told_otherwise(press: Press) -> None:
    assert effect_of(press, WEB_9).held == {"node-a": ("service_assignment/web",)}


def test_what_replaces_nothing_is_not_waited_for(press: Press) -> None:
    """A new service is a new scope; whoever has a changed one beside it waits for both."""
    new = SERVICE.format(id="db", nodes="node-a", n=1)
    assert effect_of(press, new).held == {}
    assert effect_of(press, f"{new}\n---\n{WEB_9}").held == {
        "node-a": ("service_assignment/db", "service_assignment/web")
    }


def test_what_is_withdrawn_is_waited_for(press: Press) -> None:
    """The node has it, and goes by it."""
    pairs: list[CompiledPair] = []
    moved = WEB_9.replace("{nodes: [node-a]}", "{labels: {a: b}}")
    found = proposals.weigh(press.database, press.propose(moved), look=pairs.append)
    assert found.effect == Effect({"node-a": ("service_assignment/web",)})
    assert [(pair.node_id, pair.scope.name, pair.after) for pair in pairs] == [
        ("node-a", "service_assignment/web", None)
    ]


def test_equal_content_for_another_audience_is_something_else(press: Press) -> None:
    """A role more stands in the envelopes: the document comes with the role."""
    pairs: list[CompiledPair] = []
    more = "kind: Node\nid: node-b\nspec: {roles: [egress_service, ingress], organizations: [acme]}"
    found = proposals.weigh(press.database, press.propose(more), look=pairs.append).effect
    assert found is not None and {"node_runtime", "storage_directory"} <= set(found.held["node-b"])
    (pair,) = (pair for pair in pairs if (pair.node_id, pair.scope.name) == ("node-b", "storage_directory"))
    assert pair.after is not None and pair.before.content_hash == pair.after.content_hash
    assert (pair.before.audience.roles, pair.after.audience.roles) == (("ingress",), ("egress_service", "ingress"))


def test_what_only_might_be_another_is_compiled_and_let_be(press: Press) -> None:
    """change_impact.py names a scope too many; nobody is asked for nothing."""
    proposal = press.propose("kind: PeerPolicy\nid: few\nspec: {priority: 1, most: 19}")
    assert proposal.touched and proposals.weigh(press.database, proposal).effect == Effect()


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        (POLICY.format(max=100_000, more=""), False),
        (POLICY.format(max=100_000, more=", route_ttl_s: 7200, session_ttl_s: 900"), False),
        (POLICY.format(max=100_000, more=", route_ttl_s: 60"), True),
        (POLICY.format(max=60, more=""), True),
        (POLICY.format(max=86_400, more=", allow_unconfirmed_start: true"), True),
        (POLICY.format(max=100_000, more="").replace("continue_services", "preserve_routes"), True),
        (POLICY.format(max=100_000, more="").replace("continue_services", "continue_services, preserve_routes"), True),
    ],
)
def test_a_policy_that_only_gives_more_time_is_not_waited_for(press: Press, text: str, waits: bool) -> None:
    assert bool(effect_of(press, text).held) is waits


def test_nothing_is_compiled_for_who_has_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first apply of a large fleet: of each node what it has as a member, before and after."""
    press = Press.founded(database)
    for number in range(8):
        admit(database, f"m{number}")
    compiled: list[str] = []

    def compile_scope(model, node_id, scope, read):
        compiled.append(scope.name)
        return compiler.compile_scope(model, node_id, scope, read)

    monkeypatch.setattr(compiled_contents, "compile_scope", compile_scope)
    fleet = "\n---\n".join(
        f"kind: Node\nid: m{n}\nspec: {{roles: [core_mesh], organizations: [acme]}}" for n in range(8)
    )
    found = effect_of(press, fleet)
    assert len(found.held) == 8 and "route_policy" in found.held["m7"]
    assert set(compiled) == {"node_runtime", "degraded_mode_policy", "node_bootstrap"} & set(compiled)
    assert len(compiled) <= 2 * 8 * 3


def test_what_many_share_is_compiled_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    press = Press.founded(database, *(f"m{number}" for number in range(6)))
    nodes = "\n---\n".join(f"kind: Node\nid: m{n}\nspec: {{labels: {{tier: edge}}}}" for n in range(6))
    config = "kind: Config\nid: edge\nspec: {{to: {{labels: {{tier: edge}}}}, files: {{a.conf: {{text: {text}}}}}}}"
    press.apply(f"{nodes}\n---\n{config.format(text='one')}")
    compiled: list[str] = []

    def compile_scope(model, node_id, scope, read):
        compiled.append(scope.name)
        return compiler.compile_scope(model, node_id, scope, read)

    monkeypatch.setattr(compiled_contents, "compile_scope", compile_scope)
    assert len(effect_of(press, config.format(text="two")).held) == 6
    assert compiled == ["config/edge", "config/edge"]


# ---- a change begins


def test_a_change_begins_with_the_apply(press: Press) -> None:
    """The declared state is the new one; who waits gets no new head for it."""
    before = {entry.node_id: entry.generation for entry in catalog.nodes(press.database)}
    started = press.change(WEB_9, message="more workers")
    assert list(started.lines()) == ["c-1: 1 node is held back until it is their turn"]
    with press.database.read() as transaction:
        (record,) = records.open_changes(transaction)
        (row,) = records.nodes_of(transaction, 1)
        (plan,) = records.plan_of(transaction, 1)
    assert (record.state, record.message, record.actor) == (ChangeState.PREPARING, "more workers", "alice")
    assert (row.node_id, row.scopes, row.step) == ("node-a", ("service_assignment/web",), Step.HELD)
    assert (plan.kind, plan.id, plan.verb) == ("Service", "web", "change")
    assert plan.before["settings"] == {"workers": 4} and plan.after["settings"] == {"workers": 9}
    assert {entry.node_id: entry.generation for entry in catalog.nodes(press.database)} == before


def test_where_nobody_waits_it_is_done(press: Press) -> None:
    started = press.change(SERVICE.format(id="db", nodes="node-a", n=1))
    assert (started.record.state, started.record.settled_at) == (ChangeState.DONE, press.now)
    assert press.due() == ["node-a"]
    with press.database.read() as transaction:
        assert records.open_changes(transaction) == []


def test_a_plan_has_a_name_of_its_own(press: Press) -> None:
    """Of what was declared when it was made, and of what it changes; a node that joins makes no other one."""
    first, other = press.propose(WEB_9), press.propose(SERVICE.format(id="web", nodes="node-a", n=8))
    assert first.plan_hash == press.propose(WEB_9).plan_hash != other.plan_hash
    admit(press.database, "node-c")
    assert press.propose(WEB_9).plan_hash == first.plan_hash
    press.apply("{kind: Organization, id: other}")
    assert press.propose(WEB_9).plan_hash != first.plan_hash


# ---- beside others


def state_of(press: Press, change_id: int) -> ChangeRecord:
    with press.database.read() as transaction:
        return records.get(transaction, change_id)


def become(press: Press, change_id: int, state: ChangeState, **values: object) -> None:
    with press.database.change(actor="x", now=press.now) as transaction:
        transaction.audit("x", "y")
        records.save(transaction, replace(records.get(transaction, change_id), state=state, **values))


def test_independent_changes_go_side_by_side(press: Press) -> None:
    press.apply(SERVICE.format(id="db", nodes="node-a", n=1))
    press.change(WEB_9)
    started = press.change(SERVICE.format(id="db", nodes="node-a", n=2))
    assert (started.record.follows, started.record.waits_for) == ((), None)


def test_a_change_of_the_same_waits(press: Press) -> None:
    press.change(WEB_9)
    started = press.change(SERVICE.format(id="web", nodes="node-a", n=10))
    assert (started.record.follows, started.record.waits_for) == ((1,), 1)
    assert list(started.lines())[-1] == "c-2 waits until c-1 is over: both are about the same"
    third = press.change(SERVICE.format(id="web", nodes="node-a", n=11)).record
    assert (third.follows, third.waits_for) == ((1, 2), 2)


def test_a_change_of_the_same_scope_by_another_resource_waits(press: Press) -> None:
    """Two routes are in one scope."""
    route = "kind: Route\nid: {}\nspec: {{organization: acme, service: web, match: {{hosts: [{}]}}}}"
    press.apply(route.format("back", "back.example"))
    press.change(route.format("front", "other.example"))
    assert press.change(route.format("back", "more.example")).record.follows == (1,)


def test_a_change_that_needs_another_waits_for_it(press: Press) -> None:
    """The route is told to node-b alone, the service it needs comes with a change that node-a waits for."""
    api = SERVICE.format(id="api", nodes="node-a", n=1)
    press.change(f"{api}\n---\n{WEB_9}")
    route = "kind: Route\nid: api\nspec: {organization: acme, service: api, match: {hosts: [api.example]}}"
    started = press.change(route)
    assert started.record.follows == (1,)


def test_what_stands_halted_is_superseded(press: Press) -> None:
    press.change(WEB_9, message="first try")
    become(press, 1, ChangeState.HALTED)
    started = press.change(SERVICE.format(id="web", nodes="node-a", n=10))
    assert list(started.lines())[1:] == ["c-2 supersedes c-1: first try"]
    first = state_of(press, 1)
    assert (first.state, first.superseded_by, first.settled_at) == (ChangeState.SUPERSEDED, 2, press.now)
    with press.database.read() as transaction:
        rows = records.holding(transaction, ["node-a"])["node-a"]
    assert [(row.change_id, row.step) for row in rows] == [(1, Step.HELD), (2, Step.HELD)]


def test_who_it_held_back_is_held_back_still(press: Press) -> None:
    """c-1 changes two services; c-2 mends the one. What c-1 did to the other was not tried: it comes with c-2."""
    press.apply("kind: Node\nid: node-b\nspec: {roles: [egress_service], organizations: [acme]}")
    press.apply(SERVICE.format(id="db", nodes="node-b", n=1))
    press.change(f"{WEB_9}\n---\n{SERVICE.format(id='db', nodes='node-b', n=2)}")
    become(press, 1, ChangeState.HALTED)
    started = press.change(SERVICE.format(id="web", nodes="node-a", n=10))
    assert started.held == {"node-a": ("service_assignment/web",), "node-b": ("service_assignment/db",)}


def test_who_is_back_where_it_was_is_let_go(press: Press) -> None:
    """The halted change is taken out of the files again: nobody is told anything, so it is done."""
    press.change(WEB_9)
    become(press, 1, ChangeState.HALTED)
    started = press.change(SERVICE.format(id="web", nodes="node-a", n=4))
    assert (started.held, started.record.state) == ({}, ChangeState.DONE)
    with press.database.read() as transaction:
        assert records.holding(transaction, ["node-a"]) == {}


def test_what_waits_for_a_halted_one_goes_with_it(press: Press) -> None:
    press.change(WEB_9)
    press.change(SERVICE.format(id="web", nodes="node-a", n=10))
    become(press, 1, ChangeState.HALTED)
    third = press.change(SERVICE.format(id="web", nodes="node-a", n=11))
    assert [change.name for change in third.superseded] == ["c-1", "c-2"]
    assert third.record.follows == ()


def test_what_waits_for_approval_is_not_passed(press: Press) -> None:
    """Nobody has seen it: a change that builds on it waits, and takes no halted one's place."""
    press.change(WEB_9)
    press.change(SERVICE.format(id="web", nodes="node-a", n=10))
    become(press, 1, ChangeState.HALTED)
    become(press, 2, ChangeState.PROPOSED)
    third = press.change(SERVICE.format(id="web", nodes="node-a", n=11))
    assert (third.superseded, third.record.follows) == ((), (1, 2))


def test_a_revert_takes_nothing_with_it(press: Press) -> None:
    """c-2 changes the same scope by another resource, and waits for c-1: now it waits for what takes c-1 back."""
    route = "kind: Route\nid: {}\nspec: {{organization: acme, service: web, match: {{hosts: [{}]}}}}"
    press.apply(route.format("back", "back.example"))
    press.change(route.format("front", "other.example"))
    press.change(route.format("back", "more.example"))
    with press.database.change(actor="x", now=press.now) as transaction:
        transaction.audit("x", "y")
        records.move(transaction, records.get(transaction, 1), ["node-b"], Step.RELEASED, ring=1)
    third = press.change(route.format("front", "www.example"), reverts=1)
    assert third.held == {"node-b": ("route_policy",)}
    assert third.record.follows == ()
    first = state_of(press, 1)
    assert (first.state, first.superseded_by, first.settled_at) == (ChangeState.REVERTING, 3, None)
    with press.database.read() as transaction:
        steps = {
            node: [row.change_id for row in rows]
            for node, rows in records.holding(transaction, ["node-a", "node-b"]).items()
        }
    assert steps == {"node-a": [2], "node-b": [1, 2, 3]}


# ---- the state moves on meanwhile


def test_what_was_weighed_in_another_state_is_not_carried_out(press: Press) -> None:
    """Nothing is compiled while everybody waits, unless nobody has weighed it."""
    ask = records.ChangeRequest()
    proposal = proposals.weigh(press.database, press.propose(WEB_9))
    admit(press.database, "node-c")
    with pytest.raises(OutdatedProposal):
        declarations.carry_out(press.database, proposal, actor="x", now=press.now, ask=ask)
    again = replace(proposal, effect=None)
    plan = declarations.carry_out(press.database, again, actor="x", now=press.now, ask=ask)
    assert plan.change is not None and plan.change.held == {"node-a": ("service_assignment/web",)}


def test_a_change_that_halts_meanwhile_is_seen(press: Press) -> None:
    ask = records.ChangeRequest()
    press.change(WEB_9)
    proposal = proposals.weigh(press.database, press.propose(SERVICE.format(id="web", nodes="node-a", n=10)))
    become(press, 1, ChangeState.HALTED)
    with pytest.raises(OutdatedProposal):
        declarations.carry_out(press.database, proposal, actor="x", now=press.now, ask=ask)


def test_a_dry_run_begins_nothing(press: Press) -> None:
    proposal = proposals.weigh(press.database, press.propose(WEB_9))
    plan = declarations.carry_out(
        press.database, proposal, actor="x", now=press.now, ask=records.ChangeRequest(), dry_run=True
    )
    assert plan.lines()[-1] == "c-1: 1 node is held back until it is their turn"
    with press.database.read() as transaction, pytest.raises(Refused):
        records.get(transaction, 1)

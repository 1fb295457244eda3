"""What a change can touch: never too little (rules K21)."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import views
from coordinator.affected import affected
from coordinator.kinds import Node, PeerPolicy, Route, Selector, Service, Site
from coordinator.model import Model
from tests.coordinator.models import NODES, changes, entry, labels, model, models


def really(before: Model, after: Model) -> set[tuple[str, str]]:
    """What differs, by looking at all of it."""

    def everything(state: Model):
        return {
            (node_id, scope_type): sections
            for node_id in state.members
            for scope_type, sections in views.all_sections(state, node_id).items()
        }

    old, new = everything(before), everything(after)
    return {scope for scope in old.keys() | new.keys() if old.get(scope) != new.get(scope)}


@given(changes())
@settings(max_examples=600, deadline=None)
def test_affected_is_a_superset_of_what_differs(change) -> None:
    """rules K21, S6"""
    before, after = change
    assert really(before, after) <= affected(before, after)


@given(models(), st.sampled_from(NODES), labels)
@settings(max_examples=300, deadline=None)
def test_a_label_touches_nobody_else_without_a_selector(state, node_id, new) -> None:
    """rules K21: of the node itself exactly what differs; of others only directories of policies that tell it apart."""
    declared = state.resources.get(("Node", node_id), Node(node_id))
    after = Model("prod", {**state.resources, declared.key: replace(declared, labels=new)}, state.members)
    touched, differing = affected(state, after), really(state, after)
    assert differing <= touched
    assert {scope for scope in touched if scope[0] == node_id} == {scope for scope in differing if scope[0] == node_id}
    others = {scope for scope in touched if scope[0] != node_id}
    assert {scope_type for _, scope_type in others} <= {"peer_directory"}
    if not any(policy.peers.labels for policy in state.peer_policies):
        assert others == set()


def test_a_label_in_a_crowd() -> None:
    """One node of a thousand; then the same where a service is placed by it."""
    nodes = [*crowd(1_000), Node("out", roles=("core_mesh", "egress_service"), organizations=("acme",))]
    service = Service("web", "acme", Selector(labels={"rack": "r1"}))
    before = model(*nodes, service, PeerPolicy("near", peers=Selector(roles=("core_mesh",))))
    other = replace(nodes[-1], labels={"floor": "2"})
    assert affected(before, with_resource(before, other)) == {("out", "node_runtime")}
    there = replace(nodes[-1], labels={"rack": "r1"})
    assert affected(before, with_resource(before, there)) == {("out", "node_runtime"), ("out", "service_assignment")}


def with_resource(state: Model, resource) -> Model:
    return replace(state, resources={**state.resources, resource.key: resource})


def crowd(count: int, **more) -> list[Node]:
    return [Node(f"p{number}", roles=("core_mesh",), organizations=("acme",), **more) for number in range(count)]


def test_nothing_changed_touches_nothing() -> None:
    state = model(*crowd(5))
    assert affected(state, replace(state)) == frozenset()


def test_a_change_touches_no_more_than_it_can() -> None:
    """A service touches who runs it, not the fleet."""
    nodes = [*crowd(300), Node("out", roles=("egress_service",), organizations=("acme",))]
    service = Service("web", "acme", Selector(nodes=("out",)))
    before = model(*nodes, service)
    after = model(*nodes, replace(service, workload="2"))
    assert affected(before, after) == {("out", "service_assignment"), ("out", "route_policy")}
    route = Route("r", "acme", "web")
    assert {scope_type for _, scope_type in affected(before, model(*nodes, service, route))} == {"route_policy"}
    assert affected(before, model(*nodes, service, Site("default", "x"))) == frozenset()


def test_a_join_touches_about_as_many_directories_as_one_has_entries() -> None:
    nodes = crowd(1_000)
    before = model(
        *nodes, Node("new", roles=("core_mesh",), organizations=("acme",)), members={n.id: entry(n.id) for n in nodes}
    )
    after = replace(before, members={**before.members, "new": entry("new")})
    touched = {node_id for node_id, scope_type in affected(before, after) if node_id != "new"}
    differing = {node_id for node_id, _ in really_directories(before, after)}
    assert differing <= touched
    assert 0 < len(differing) < 60 and len(touched) < 500


def really_directories(before: Model, after: Model) -> set[tuple[str, str]]:
    ids = before.members.keys()
    return {
        (node_id, "peer_directory")
        for node_id in ids
        if views.sections(before, node_id, "peer_directory") != views.sections(after, node_id, "peer_directory")
    }

"""What a change can touch: never too little (rules K21)."""

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from weakref import ref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import peers, views
from coordinator.declared.change_impact import (
    FEW,
    affected_scopes,
    changed_members,
    changed_resources,
    scopes_on_the_way,
)
from coordinator.declared.kinds import (
    Config,
    ConfigFile,
    Exemption,
    FileContent,
    Node,
    PeerPolicy,
    Resource,
    Route,
    Selector,
    Service,
    Site,
)
from coordinator.declared.model import Model, Subject
from coordinator.declared.next_model import next_model
from snapshot.identifiers import Scope
from tests.coordinator.models import NODES, changes, entry, labels, model, models
from tests.examples import examples

WEB, ROUTES, RUNTIME = Scope("service_assignment", ("web",)), Scope("route_policy"), Scope("node_runtime")
PEERS = Scope("peer_directory")


def really(before: Model, after: Model) -> set[tuple[str, Scope]]:
    """What differs, by looking at all of it."""

    def everything(state: Model):
        return {
            (node_id, scope): sections
            for node_id in state.members
            for scope, sections in views.all_sections(state, node_id).items()
        }

    old, new = everything(before), everything(after)
    return {scope for scope in old.keys() | new.keys() if old.get(scope) != new.get(scope)}


@given(changes(), st.sampled_from([0, FEW]))
@examples(160)
def test_affected_is_a_superset_of_what_differs(change, few) -> None:
    """rules K21, S6: whether directories are asked for the changed nodes, or chosen anew."""
    before, after = change
    assert really(before, after) <= affected_scopes(before, after, few)


@given(changes())
@examples(160)
def test_of_many_changed_nodes_the_directories_are_exact(change) -> None:
    """Of a node that stays as it is a directory is named where it differs, or shows a node that does."""
    before, after = change
    changed = {id_ for kind, id_ in changed_resources(before, after) if kind == "Node"} | changed_members(before, after)
    if any(kind == "PeerPolicy" for kind, _ in changed_resources(before, after)):
        return
    shown = {
        node_id: {peer.node_id for model in change for peer in peers.chosen_peers(model, model.subjects[node_id])}
        for node_id in before.members.keys() & after.members.keys()
    }
    for node_id, scope in affected_scopes(before, after, 0):
        if scope == PEERS and node_id not in changed:
            assert shown[node_id] & changed or (node_id, scope) in really(before, after)


@given(models(), st.sampled_from(NODES), labels)
@examples(160)
def test_a_label_touches_nobody_else_without_a_selector(state, node_id, new) -> None:
    """rules K21: of the node itself exactly what differs; of others only directories of policies that tell it apart."""
    declared = state.resources.get(("Node", node_id), Node(node_id))
    after = Model("prod", {**state.resources, declared.key: replace(declared, labels=new)}, state.members)
    touched, differing = affected_scopes(state, after), really(state, after)
    assert differing <= touched
    assert {scope for scope in touched if scope[0] == node_id} == {scope for scope in differing if scope[0] == node_id}
    others = {scope for scope in touched if scope[0] != node_id}
    assert {scope for _, scope in others} <= {PEERS}
    if not any(policy.peers.labels for policy in state.peer_policies):
        assert others == set()


def test_a_label_in_a_crowd() -> None:
    """One node of a thousand; then the same where a service is placed by it."""
    nodes = [*crowd(1_000), Node("out", roles=("core_mesh", "egress_service"), organizations=("acme",))]
    service = Service("web", "acme", Selector(labels={"rack": "r1"}))
    before = model(*nodes, service, PeerPolicy("near", peers=Selector(roles=("core_mesh",))))
    other = replace(nodes[-1], labels={"floor": "2"})
    assert affected_scopes(before, with_resource(before, other)) == {("out", RUNTIME)}
    there = replace(nodes[-1], labels={"rack": "r1"})
    assert affected_scopes(before, with_resource(before, there)) == {("out", RUNTIME), ("out", WEB)}


@given(changes())
@examples(160)
def test_configs_are_exact(change) -> None:
    """A node is named for a Config exactly where its files are others, or its envelope is: a file may be large."""
    before, after = change
    stays = {
        node_id
        for node_id in before.subjects.keys() & after.subjects.keys()
        if standing(before.subjects[node_id]) == standing(after.subjects[node_id])
    }
    named, differing = (
        {each for each in found if each[1].type == "config" and each[0] in stays}
        for found in (affected_scopes(before, after), really(before, after))
    )
    assert named == differing


def standing(subject: Subject) -> tuple[object, ...]:
    return subject.member, subject.roles, subject.organizations


def test_a_config_touches_those_whose_files_change() -> None:
    """Another selector: who holds it still has what it had. A label: who has it in a template."""
    file = ConfigFile(content=FileContent(3, ("a" * 64,)))
    mine = ConfigFile(content=FileContent(3, ("b" * 64,), ("node.labels.rack",)), template=True)
    nodes = [Node(f"n{number}", labels={"app": "edge", "rack": f"r{number}"}) for number in range(3)]
    config = Config("edge", Selector(nodes=("n0", "n1")), {"a": file})
    before, scope = model(*nodes, config), Scope("config", ("edge",))
    wider = replace(config, to=Selector(labels={"app": "edge"}))
    assert affected_scopes(before, with_resource(before, wider)) == {("n2", scope)}
    other = replace(config, files={"a": file, "b": mine})
    after = with_resource(before, other)
    assert affected_scopes(before, after) == {("n0", scope), ("n1", scope)}
    moved = with_resource(after, replace(nodes[0], labels={"app": "edge", "rack": "r9"}))
    assert affected_scopes(after, moved) == {("n0", RUNTIME), ("n0", scope)}
    exempt = replace(other, exempt=(Exemption("files.a", "x", "none"),))
    assert affected_scopes(after, with_resource(after, exempt)) == frozenset()


def with_resource(state: Model, resource) -> Model:
    return replace(state, resources={**state.resources, resource.key: resource})


def crowd(count: int, **more) -> list[Node]:
    return [Node(f"p{number}", roles=("core_mesh",), organizations=("acme",), **more) for number in range(count)]


def test_nothing_changed_touches_nothing() -> None:
    state = model(*crowd(5))
    assert affected_scopes(state, replace(state)) == frozenset()


def test_a_change_touches_no_more_than_it_can() -> None:
    """A service touches who runs it, not the fleet."""
    nodes = [*crowd(300), Node("out", roles=("egress_service",), organizations=("acme",))]
    service = Service("web", "acme", Selector(nodes=("out",)))
    before = model(*nodes, service)
    after = model(*nodes, replace(service, workload="2"))
    assert affected_scopes(before, after) == {("out", WEB), ("out", ROUTES)}
    route = Route("r", "acme", "web")
    assert {scope for _, scope in affected_scopes(before, model(*nodes, service, route))} == {ROUTES}
    assert affected_scopes(before, model(*nodes, service, Site("default", "x"))) == frozenset()


def test_a_join_touches_about_as_many_directories_as_one_has_entries() -> None:
    nodes = crowd(1_000)
    before = model(
        *nodes, Node("new", roles=("core_mesh",), organizations=("acme",)), members={n.id: entry(n.id) for n in nodes}
    )
    after = replace(before, members={**before.members, "new": entry("new")})
    touched = {node_id for node_id, _ in affected_scopes(before, after) if node_id != "new"}
    differing = {node_id for node_id, _ in really_directories(before, after)}
    assert differing <= touched
    assert 0 < len(differing) < 60 and len(touched) < 500


def really_directories(before: Model, after: Model) -> set[tuple[str, Scope]]:
    ids = before.members.keys()
    return {
        (node_id, PEERS)
        for node_id in ids
        if views.sections(before, node_id, PEERS) != views.sections(after, node_id, PEERS)
    }


def calls(work) -> int:
    """What it takes, in calls of functions: the same on every machine."""
    counted = 0

    def count(_frame, event, _argument) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted


def fleet(count: int, **more: object) -> dict[tuple[str, str], Resource]:
    """With a service and a route for every fourth node, each of an organization of their own."""
    found: list[Resource] = []
    for number in range(count):
        owner = f"org{number // 4}"
        roles = ("core_mesh", "egress_service")
        found.append(Node(f"n{number}", roles=roles, organizations=(owner,), **{"addresses": ("h:1",), **more}))
        if number % 4 == 0:
            found += [
                Service(f"s{number}", owner, Selector(labels={"rack": "a"})),
                Route(f"r{number}", owner, f"s{number}"),
            ]
    return {each.key: each for each in found}


def grown(before: dict, after: dict, size: int) -> Callable[[], object]:
    members = {f"n{number}": entry(f"n{number}") for number in range(size)}
    return lambda: affected_scopes(Model("prod", before, members), Model("prod", after, members))


def edited(resources: dict, kind: str, **more: object) -> dict:
    return {key: replace(each, **more) if key[0] == kind else each for key, each in resources.items()}


CHANGES = {
    "a first apply": lambda n: grown({}, fleet(n), n),
    "half of them new": lambda n: grown(fleet(n // 2), fleet(n), n),
    "all moved": lambda n: grown(fleet(n), fleet(n, addresses=("h:2",)), n),
    "all selected otherwise": lambda n: grown(fleet(n), fleet(n, labels={"rack": "a"}), n),
    "all services": lambda n: grown(fleet(n), edited(fleet(n), "Service", workload="2"), n),
    "all in one organization": lambda n: grown(fleet(n), edited(fleet(n), "Node", organizations=("org0",)), n),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_takes_n_log_n_at_most(change) -> None:
    """Twice as many nodes take twice the calls, and a twentieth beyond that at most; in pairs, four times."""
    CHANGES[change](32)()  # what is kept of a process's first use is not of the change
    once, twice = calls(CHANGES[change](128)), calls(CHANGES[change](256))
    assert once < twice < 2.1 * once


def test_who_makes_a_change_and_who_compiles_it_ask_once() -> None:
    before, after = model(*crowd(20)), model(*crowd(20, addresses=("h:1",)))
    first = calls(lambda: affected_scopes(before, after))
    assert calls(lambda: affected_scopes(before, after)) < first / 100
    assert affected_scopes(after, before) == affected_scopes(before, after)
    assert affected_scopes(model(*crowd(20, addresses=("h:1",))), after) == frozenset()


def test_no_model_is_kept_by_the_next_one() -> None:
    gc.freeze()  # what was there before is not looked at
    after = model(*crowd(20, addresses=("h:1",)))
    before = [model(*crowd(20))]
    affected_scopes(before[0], after)
    gone = ref(before.pop())
    gc.collect()
    assert gone() is None


def test_what_several_steps_touch_is_not_worked_out_again() -> None:
    """Who publishes looks at every second state while nodes join; a node that was known and is forgotten again is named
    all the same.
    """
    states = [model(*crowd(40))]
    for number in range(3):
        states.append(next_model(states[-1], {}, {"m": entry("m") if number % 2 == 0 else None}))
    first = calls(lambda: [affected_scopes(*step) for step in pairwise(states)])
    found: list[frozenset[tuple[str, Scope]]] = []
    assert calls(lambda: found.append(scopes_on_the_way(states[0], states[2]))) < first / 20
    assert found[0] == affected_scopes(*states[:2]) | affected_scopes(*states[1:3])
    assert affected_scopes(states[0], states[2]) == frozenset()
    assert scopes_on_the_way(states[0], model(*crowd(40))) == frozenset()

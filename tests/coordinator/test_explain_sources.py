"""Where each entry of a scope comes from: nothing that its value is made of is left out, nothing is made up."""

from dataclasses import replace

import pytest
from hypothesis import given

from coordinator.declared import views
from coordinator.declared.change_impact import changed_members, changed_resources
from coordinator.declared.kinds import (
    Cluster,
    DegradedModePolicy,
    Node,
    Organization,
    PeerPolicy,
    QosClass,
    QosPolicy,
    Route,
    Selector,
    Service,
    ServiceEndpoint,
    StorageEndpoint,
)
from coordinator.declared.model import Model
from coordinator.declared.scope_view import MEMBER, ValueOrigin
from snapshot.identifiers import Scope, parse_scope
from tests.coordinator.models import changes, entry, model, models
from tests.examples import examples
from wire.operators.fleet_answers import DeclaredSource


def origins(state: Model, node_id: str, scope: Scope) -> dict[str, dict[str, ValueOrigin]]:
    """Of every entry of every section of one scope."""
    subject = state.subjects[node_id]
    return {
        section: {entry: views.origin(state, subject, scope, section, entry) for entry in entries}
        for section, entries in views.sections(state, node_id, scope).items()
    }


def all_origins(state: Model) -> dict[tuple[str, Scope, str, str], ValueOrigin]:
    """By node, scope, section and entry."""
    return {
        (node_id, scope, section, name): origin
        for node_id, subject in state.subjects.items()
        for scope in views.scopes(state, subject)
        for section, found in origins(state, node_id, scope).items()
        for name, origin in found.items()
    }


def all_values(state: Model) -> dict[tuple[str, Scope, str, str], object]:
    return {
        (node_id, scope, section, name): value
        for node_id in state.members
        for scope, sections in views.all_sections(state, node_id).items()
        for section, entries in sections.items()
        for name, value in entries.items()
    }


def judge(before: Model, after: Model) -> set[tuple[str, Scope, str, str]]:
    """The entries of both whose value is another, after looking whether each names what has changed."""
    old, new = all_values(before), all_values(after)
    whence = all_origins(before), all_origins(after)
    assert (whence[0].keys(), whence[1].keys()) == (old.keys(), new.keys())
    changed = changed_resources(before, after) | {(MEMBER, each) for each in changed_members(before, after)}
    differing = {key for key in old.keys() & new.keys() if old[key] != new[key]}
    for key in differing:
        named = {(each.kind, each.id) for found in whence for each in found[key].sources}
        is_another = whence[0][key].sources != whence[1][key].sources  # of several policies that stay, another one
        assert named & changed or is_another, (key, named, changed)
    return differing


@given(changes())
@examples(200)
def test_where_the_value_of_an_entry_changes_one_of_its_sources_has_changed(change) -> None:
    """rules K21: and every entry that there is has an origin"""
    judge(*change)


@given(models())
@examples(160)
def test_every_source_that_is_named_is_there(state) -> None:
    for key, origin in all_origins(state).items():
        for source in origin.sources:
            found = source.id in state.members if source.kind == MEMBER else (source.kind, source.id) in state.resources
            assert found, (key, source)


STATE = model(
    Cluster("prod", ("https://c:1",)),
    Organization("acme"),
    Node("core", roles=("core_mesh",), organizations=("acme",), labels={"rack": "r1"}),
    Node("door", roles=("ingress",), organizations=("acme",)),
    Node("work", roles=("egress_service", "storage_config"), organizations=("acme",), labels={"rack": "r2"}),
    Node("seen", kind="witness"),
    Service("web", "acme", Selector(labels={"rack": "r2"}), endpoints=(ServiceEndpoint("w", "tcp", "h", 1, True),)),
    Route("front", "acme", "web", enters_at=Selector(roles=("ingress",))),
    Route("side", "acme", "web", enters_at=Selector(nodes=("core",))),
    QosPolicy("ours", {"c": QosClass(1)}, "acme"),
    QosPolicy("all", {"c": QosClass(1)}),
    StorageEndpoint("disk", "https://s:1", organizations=("acme",), node="work"),
    StorageEndpoint("open", "https://s:2"),
    DegradedModePolicy("low", priority=1),
    DegradedModePolicy("high", Selector(roles=("ingress",)), priority=2),
    PeerPolicy("near", most=2),
)
DATA = [
    ("core", "node_bootstrap", "coordinators", "where nodes check in", "Cluster prod"),
    ("core", "node_bootstrap", "cluster_id", "since `init`", ""),
    ("core", "node_bootstrap", "site_id", "as it was admitted", "member core"),
    ("core", "node_runtime", "labels", "as the Node is declared", "Node core"),
    ("core", "node_runtime", "kind", "as it was admitted", "member core"),
    ("core", "peer_directory", "door", "one of at most 2 peers by PeerPolicy near", "Node door, member door"),
    ("work", "service_assignment/web", "web", "runs_on selects label rack=r2", "Service web"),
    ("door", "service_assignment/web", "web", "exposed endpoints are for ingress nodes of acme", "Service web"),
    ("core", "route_policy", "side", "a core_mesh node knows every route of acme", "Route side"),
    ("door", "route_policy", "front", "enters_at selects role ingress", "Route front"),
    ("work", "route_policy", "side", "Service web runs here", "Route side"),
    ("core", "qos_policy", "ours", "of acme", "QosPolicy ours"),
    ("core", "qos_policy", "all", "of all organizations", "QosPolicy all"),
    ("core", "storage_directory", "disk", "for nodes that serve acme", "StorageEndpoint disk"),
    ("core", "storage_directory", "open", "for every node", "StorageEndpoint open"),
    ("door", "degraded_mode_policy", "allow", "of priority 2, the first that applies", "DegradedModePolicy high"),
    ("core", "degraded_mode_policy", "allow", "it selects every node", "DegradedModePolicy low"),
]


@pytest.mark.parametrize(("node_id", "scope", "name", "because", "sources"), DATA)
def test_an_origin_says_whence_and_why(node_id, scope, name, because, sources) -> None:
    written = origins(STATE, node_id, parse_scope(scope)).values()
    found = {name: origin for section in written for name, origin in section.items()}
    assert because in found[name].because
    assert ", ".join(f"{each.kind} {each.id}" for each in found[name].sources) == sources


WRITTEN_OTHERWISE = {
    Cluster: {"coordinators": ("https://d:1",)},
    Node: {"addresses": ("h:9",)},
    Service: {"endpoints": (ServiceEndpoint("w", "udp", "h", 1, True),)},
    Route: {"ttl_s": 7},
    QosPolicy: {"classes": {"c": QosClass(5)}},
    StorageEndpoint: {"url": "https://other:1"},
    DegradedModePolicy: {"max_duration_s": 7},
}


@pytest.mark.parametrize("key", [key for key, each in STATE.resources.items() if type(each) in WRITTEN_OTHERWISE])
def test_a_resource_that_is_written_otherwise_changes_entries_that_name_it_and_no_others(key) -> None:
    resource = STATE.resources[key]
    after = replace(resource, **WRITTEN_OTHERWISE[type(resource)])
    differing = judge(STATE, replace(STATE, resources={**STATE.resources, key: after}))
    assert differing or key == (Node.KIND, "seen")  # the witness, which nobody is told of
    if not isinstance(resource, Node):  # of whom each entry says another part
        scopes = {(node_id, scope) for node_id, scope, _, _ in differing}
        naming = {each for each, origin in all_origins(STATE).items() if DeclaredSource(*key) in origin.sources}
        assert scopes == {(node_id, scope) for node_id, scope, _, _ in naming}


@pytest.mark.parametrize("changes", [{"certificates": (b"other",)}, {"site_id": "east"}, {"direct_url": "https://h:1"}])
@pytest.mark.parametrize("node_id", ["core", "door", "work"])
def test_what_the_catalog_says_of_a_member_is_named(node_id, changes) -> None:
    members = {**STATE.members, node_id: replace(STATE.members[node_id], **changes)}
    differing = judge(STATE, replace(STATE, members=members))
    assert {scope.name for _, scope, _, name in differing if name == node_id} == {"peer_directory"}


def test_what_a_node_runs_itself_and_what_it_may_know_are_told_apart() -> None:
    found = origins(STATE, "work", Scope("storage_directory"))
    assert found["shards"]["disk"].because == "it is run by this node"
    assert found["endpoints"]["disk"].because == "for nodes that serve acme"


def test_of_a_node_that_nobody_declared_nothing_is_made_up() -> None:
    """rules J8"""
    state = replace(STATE, members={**STATE.members, "new": entry("new")})
    found = origins(state, "new", Scope("node_runtime"))["node"]
    assert found["roles"] == ValueOrigin("no such Node is declared (rules J8)")
    assert found["site_id"].sources == (DeclaredSource(MEMBER, "new"),)
    assert (
        origins(Model("prod", {}, state.members), "new", Scope("node_bootstrap"))["cluster"]["coordinators"].sources
        == ()
    )


def test_a_witness_has_what_a_witness_has() -> None:
    """rules J27"""
    assert set(origins(STATE, "seen", Scope("node_bootstrap"))) == {"cluster", "node"}
    with pytest.raises(KeyError):
        origins(STATE, "seen", Scope("node_runtime"))

"""What one node may know (rules S6, S17..S21, J8, J27, K22; format.md 9, 10; seed 001 section 5)."""

import random
from dataclasses import replace

import pytest
from hypothesis import given

from coordinator.declared import scope_view, views
from coordinator.declared.config_scope import CONFIG
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
from coordinator.declared.model import Model, selects
from coordinator.declared.tenant_scopes import SERVICES
from snapshot import canonical
from snapshot.identifiers import Scope, is_section_name
from snapshot.roles import ROLES, allowed_scope_types
from snapshot.secrets import find_secret
from tests.coordinator.models import entry, model, models
from tests.examples import examples

EXPOSED = ServiceEndpoint("http", "http", "web.acme", 80, exposed=True)
INNER = ServiceEndpoint("admin", "http", "web.acme", 81)
WEB = Service("web", "acme", Selector(roles=("egress_service",)), "oci", (EXPOSED, INNER), {"n": 1})
OTHER = replace(WEB, id="other", organization="umbrella")


def node(id_: str, *roles: str, organizations: tuple[str, ...] = ("acme",), **other) -> Node:
    return Node(id_, roles=roles, organizations=organizations, **other)


def fleet(*more) -> Model:
    return model(
        Cluster("prod", ("https://c:1",)), Organization("acme"), Organization("umbrella"),
        node("core", "core_mesh"), node("in", "ingress"), node("out", "egress_service"),
        node("store", "storage_config"), node("thin", "thin"), Node("bare"), Node("wit", kind="witness"),
        WEB, OTHER, Route("web", "acme", "web"), Route("other", "umbrella", "other"),
        QosPolicy("gold", {"voice": QosClass(7)}, "acme"), QosPolicy("all", {"bulk": QosClass(0)}),
        QosPolicy("theirs", {"bulk": QosClass(0)}, "umbrella"),
        StorageEndpoint("s1", "https://s1:443", node="store"), StorageEndpoint("s2", "https://s2:443", ("umbrella",)),
        DegradedModePolicy("usual", allow=("continue_services",)), *more,
    )  # fmt: skip


def ids(sections: views.Sections, name: str) -> set[str]:
    return {id_ for section, entries in sections.items() if section.split(".")[0] == name for id_ in entries}


def seen(model: Model, node_id: str, scope_type: str, name: str) -> set[str]:
    return ids(views.sections(model, node_id, Scope(scope_type)), name)


def services(model: Model, node_id: str) -> dict[str, object]:
    """All that a node is told of services, out of a scope for each."""
    found = {scope: told for scope, told in views.all_sections(model, node_id).items() if scope.type == SERVICES}
    for scope, told in found.items():
        assert scope.ids == tuple(told["services"]) and told.keys() == {"services"}
    return {service_id: entry for told in found.values() for service_id, entry in told["services"].items()}


# Root keys sign it, and nothing that is declared makes it.
UNSEEN = {"trust_bundle"}


@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_role_holds_its_scope_types(role: str) -> None:
    """rules S17: and the others cannot be asked for."""
    one = model(node("n", role))
    held = allowed_scope_types([role]) - UNSEEN
    assert set(views.scope_types(one.subjects["n"])) == held
    assert {Scope(each) for each in held - {SERVICES, CONFIG}} == set(views.all_sections(one, "n"))
    for scope_type in allowed_scope_types(ROLES) - held - UNSEEN:
        with pytest.raises(KeyError):
            views.sections(one, "n", Scope(scope_type))


def test_several_roles_are_the_union() -> None:
    """rules S17"""
    one = model(node("n", "core_mesh", "ingress"))
    assert set(views.scope_types(one.subjects["n"])) == allowed_scope_types(["core_mesh", "ingress"]) - UNSEEN


def held(model: Model, node_id: str) -> set[str]:
    return {scope.name for scope in views.all_sections(model, node_id)}


def test_a_new_member_and_a_witness() -> None:
    """rules J8, J27"""
    both = fleet()
    assert held(both, "bare") == {"node_bootstrap", "node_runtime", "degraded_mode_policy"}
    assert held(both, "wit") == {"node_bootstrap", "degraded_mode_policy"}
    tricked = model(node("w", "core_mesh"), members={"w": entry("w", "witness")})
    assert held(tricked, "w") == {"node_bootstrap", "degraded_mode_policy"}


def test_who_is_no_member_has_no_view() -> None:
    """rules J24, K22: declared, but not joined or revoked; and nobody is told of it."""
    state = fleet()
    gone = replace(state, members={id_: each for id_, each in state.members.items() if id_ != "core"})
    assert "core" in seen(state, "store", "peer_directory", "peers")
    assert "core" not in seen(gone, "store", "peer_directory", "peers")
    with pytest.raises(KeyError):
        views.all_sections(gone, "core")


def test_services_for_who_runs_them_and_for_who_lets_in() -> None:
    """rules S18, S19: all of it where it runs, the exposed endpoints at the ingress, nothing of other organizations."""
    state = fleet()
    running = services(state, "out")["web"]
    assert running["settings"] == {"n": 1} and len(running["endpoints"]) == 2
    assert running["organization_id"] == "acme"
    projected = services(state, "in")["web"]
    assert set(projected) == {"organization_id", "endpoints"}
    assert [each["name"] for each in projected["endpoints"]] == ["http"]
    assert set(services(state, "out")) == set(services(state, "in")) == {"web"}


@pytest.mark.parametrize("ids", [(), ("other",), ("nowhere",), ("other", "web")])
def test_a_service_that_is_not_for_a_node_has_no_view(ids) -> None:
    """rules S18: of another organization, of none, and no two of them in one."""
    with pytest.raises(KeyError):
        views.sections(fleet(), "out", Scope(SERVICES, ids))


@given(models())
@examples(160)
def test_the_services_of_a_node_are_what_every_service_says_of_it(state: Model) -> None:
    """rules S18, S19, J30: by looking at all of them; a scope for each, and together neither more nor less."""
    for node_id, subject in state.subjects.items():
        expected, keeps = {}, subject.member.keeps
        for each in state.of(Service):
            if each.organization not in subject.organizations:
                continue
            if keeps is not None and ("Service", each.id) not in keeps:  # it is draining, and had not this one
                continue
            if "egress_service" in subject.roles and selects(each.runs_on, subject):
                expected[each.id] = {"organization_id", "workload", "endpoints", "settings"}
            elif "ingress" in subject.roles and any(endpoint.exposed for endpoint in each.endpoints):
                expected[each.id] = {"organization_id", "endpoints"}
        assert {service_id: set(entry) for service_id, entry in services(state, node_id).items()} == expected


def test_routes_for_who_needs_them() -> None:
    state = fleet(node("edge", "ingress"), Route("only", "acme", "web", Selector(nodes=("edge",))))
    assert seen(state, "core", "route_policy", "routes") == {"web", "only"}
    assert seen(state, "thin", "route_policy", "routes") == {"web", "only"}
    assert seen(state, "in", "route_policy", "routes") == {"web"}
    assert seen(state, "edge", "route_policy", "routes") == {"web", "only"}
    assert seen(state, "out", "route_policy", "routes") == {"web", "only"}
    idle = fleet(node("idle", "egress_service", organizations=("umbrella",)))
    assert seen(idle, "idle", "route_policy", "routes") == {"other"}


def test_qos_and_storage_by_organization() -> None:
    """rules S20; format.md 10: `endpoints` is {id: {"url"}}."""
    state = fleet()
    assert set(views.sections(state, "core", Scope("qos_policy"))["policies"]) == {"gold", "all"}
    assert views.sections(state, "core", Scope("storage_directory")) == {"endpoints": {"s1": {"url": "https://s1:443"}}}
    shards = views.sections(state, "store", Scope("storage_directory"))["shards"]
    assert shards == {"s1": {"url": "https://s1:443", "families": [], "organizations": [], "replicates": []}}


def test_the_degraded_policy_has_exactly_its_members() -> None:
    """rules S58: the highest priority, then the lowest id; none is as no policy."""
    state = fleet(
        DegradedModePolicy("a", Selector(roles=("core_mesh",)), 5, max_duration_s=1),
        DegradedModePolicy("b", Selector(nodes=("core",)), 5, max_duration_s=2),
    )
    policy = views.sections(state, "core", Scope("degraded_mode_policy"))["policy"]
    assert set(policy) == {"allow", "max_duration_s", "route_ttl_s", "session_ttl_s", "allow_unconfirmed_start"}
    assert policy["max_duration_s"] == 1
    assert views.sections(state, "out", Scope("degraded_mode_policy"))["policy"]["allow"] == ["continue_services"]
    assert views.sections(model(Node("n")), "n", Scope("degraded_mode_policy")) == {}


def test_peers_are_bounded() -> None:
    """rules S21, K1: a thin node is told of 16, whatever its policy says; the others of what theirs says."""
    crowd = [node(f"p{number}", "core_mesh") for number in range(60)]
    state = model(*crowd, node("t", "thin"), PeerPolicy("all", most=40))
    assert len(seen(state, "t", "peer_directory", "peers")) == 16
    assert len(seen(state, "p1", "peer_directory", "peers")) == 40
    assert len(seen(model(*crowd), "p1", "peer_directory", "peers")) == 19
    assert "p1" not in seen(state, "p1", "peer_directory", "peers")


def test_peers_share_an_organization_or_serve_none() -> None:
    """rules X21"""
    state = model(
        node("a", "core_mesh"), node("b", "core_mesh"), node("c", "core_mesh", organizations=("umbrella",)),
        node("d", "core_mesh", organizations=()), node("e", "core_mesh", organizations=()), Node("w", kind="witness"),
    )  # fmt: skip
    assert seen(state, "a", "peer_directory", "peers") == {"b", "d", "e"}
    assert seen(state, "d", "peer_directory", "peers") == {"e"}
    chosen = PeerPolicy("p", peers=Selector(nodes=("b",)))
    assert seen(replace(state, resources={**state.resources, chosen.key: chosen}), "a", "peer_directory", "peers") == {
        "b"
    }


def test_a_peer_that_comes_changes_few_directories() -> None:
    crowd = [node(f"p{number}", "core_mesh") for number in range(200)]
    before, after = model(*crowd), model(*crowd, node("new", "core_mesh"))
    changed = [
        each.id
        for each in crowd
        if views.sections(before, each.id, Scope("peer_directory"))
        != views.sections(after, each.id, Scope("peer_directory"))
    ]
    assert 0 < len(changed) < 3 * 19


def test_certificates_in_a_directory_are_no_secrets() -> None:
    """rules S52"""
    state = model(
        node("a", "core_mesh"), node("b", "core_mesh"), members={"a": entry("a"), "b": entry("b", pin=b"x" * 400)}
    )
    assert find_secret(views.sections(state, "a", Scope("peer_directory"))) is None


def test_the_parts_of_a_map() -> None:
    """format.md 10: fixed, so an entry never moves; 20,000 routes stay far below a section's bound."""
    entries = {f"route-{number}": {"match": "x" * 130} for number in range(20_000)}
    sections = scope_view.split("routes", entries)
    assert len(sections) == 64
    assert max(len(canonical.dumps(each)) for each in sections.values()) < 1 << 19
    smaller = scope_view.split("routes", dict(list(entries.items())[:100]))
    assert all(set(each) <= set(sections[name]) for name, each in smaller.items())
    assert ids(sections, "routes") == set(entries)
    assert scope_view.split("routes", {}) == {}


def shuffled(mapping):
    items = list(mapping.items())
    random.Random(1).shuffle(items)
    return dict(items)


@given(models())
@examples(150)
def test_the_same_state_gives_the_same_bytes(state: Model) -> None:
    """rules S6"""
    again = Model("prod", shuffled(state.resources), shuffled(state.members))
    for node_id in state.members:
        assert as_bytes(state, node_id) == as_bytes(again, node_id)


def as_bytes(model: Model, node_id: str) -> bytes:
    return canonical.dumps({scope.name: told for scope, told in views.all_sections(model, node_id).items()})


@given(models())
@examples(150)
def test_no_view_leaves_its_bounds(state: Model) -> None:
    """rules S20, S21, S23: organizations within the node's, roles' types alone, names of sections in form."""
    for node_id, subject in state.subjects.items():
        for scope, sections in views.all_sections(state, node_id).items():
            assert scope.type in allowed_scope_types(subject.roles)
            assert all(map(is_section_name, sections))
            named = set(_organizations(sections))
            assert named <= set(subject.organizations)
        if "thin" in subject.roles:
            assert len(seen(state, node_id, "peer_directory", "peers")) <= 16


def _organizations(value):
    if isinstance(value, dict):
        if "organization_id" in value:
            yield value["organization_id"]
        for inner in value.values():
            yield from _organizations(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _organizations(inner)

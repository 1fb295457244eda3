"""The same state gives the same bytes, for whoever may hold them, and for nobody else (rules S6, S69)."""

import json
import random
from weakref import ref

import pytest
from hypothesis import given

from coordinator.configs import compiled_contents
from coordinator.configs.compiled_contents import CompiledContents
from coordinator.declared import views
from coordinator.declared.compiler import ScopeContent, compile_scope
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.contents import ReadPart
from coordinator.declared.kinds import DegradedModePolicy, Node, Organization, Route, Selector, Service
from coordinator.declared.model import Model
from coordinator.declared.next_model import next_model
from snapshot import canonical
from snapshot.identifiers import Scope, parse_scope
from snapshot.roles import ROLES
from tests.coordinator import models
from tests.coordinator.models import model
from tests.examples import examples

ACME = Organization("acme")
NODE = Node("n1", roles=("core_mesh", "egress_service"), organizations=("acme", "wayne"))
SERVICE = Service("web", organization="acme", runs_on=Selector(nodes=("n1",)))
ROUTE = Route("front", organization="acme", service="web")


def read(_sha256: str) -> bytes:
    """What files hold, in every state that a strategy makes up."""
    return b"text"


@given(models.models(), models.st.randoms(use_true_random=False))
def test_the_same_state_gives_the_same_bytes_in_whatever_order(state: Model, shuffled: random.Random) -> None:
    """rules S6"""
    resources, members = list(state.resources.items()), list(state.members.items())
    shuffled.shuffle(resources)
    shuffled.shuffle(members)
    again = Model(state.cluster_id, dict(resources), dict(members))
    for node_id, subject in state.subjects.items():
        for scope in views.scopes(state, subject):
            one, other = compile_scope(state, node_id, scope, read), compile_scope(again, node_id, scope, read)
            assert dict(one.sections) == dict(other.sections)
            assert (one.content_hash, one.audience) == (other.content_hash, other.audience)


@given(models.models())
@examples(300)
def test_what_is_compiled_once_for_nodes_that_are_alike_is_what_each_is_told(state: Model) -> None:
    """rules S6, S69"""
    contents = CompiledContents(state, read)
    for node_id, subject in state.subjects.items():
        for scope in views.scopes(state, subject):
            assert contents.compile(node_id, scope) == compile_scope(state, node_id, scope, read)


@pytest.mark.parametrize("name", ["degraded_mode_policy", "service_assignment/web", "route_policy"])
def test_what_all_are_told_is_compiled_for_one_of_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [Node(f"n{number}", roles=("egress_service",), organizations=("acme",)) for number in range(5)]
    service = Service("web", organization="acme", runs_on=Selector(roles=("egress_service",)))
    state = model(ACME, *nodes, service, ROUTE, DegradedModePolicy("calm"))
    contents, compiled = CompiledContents(state, read), list[str]()

    def counting(state: Model, node_id: str, scope: Scope, of: ReadPart) -> ScopeContent:
        compiled.append(node_id)
        return compile_scope(state, node_id, scope, of)

    monkeypatch.setattr(compiled_contents, "compile_scope", counting)
    monkeypatch.setattr(compiled_contents, "MOST_BYTES", 0)  # what others are told each by itself takes its place
    (content,) = {id(one): one for one in [contents.compile(node.id, parse_scope(name)) for node in nodes]}.values()
    assert b"acme" in b"".join(content.read_all().values()) or name == "degraded_mode_policy"
    assert compiled == ["n0"]


def test_of_what_many_may_be_told_no_more_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("MOST_BYTES", "MOST_COMMON_BYTES"):
        monkeypatch.setattr(compiled_contents, bound, 4_096)
    services = [Service(f"s{number}", organization="acme", runs_on=Selector(nodes=("n1",))) for number in range(90)]
    state = model(ACME, NODE, *services)
    contents = CompiledContents(state, read)
    seen = [ref(contents.compile("n1", Scope("service_assignment", (service.id,)))) for service in services]
    assert 0 < sum(each() is not None for each in seen) < 30


@given(models.models())
def test_the_audience_covers_the_content_and_no_more_than_the_node(state: Model) -> None:
    """rules S79, S80: what steps 10 and 11 will ask."""
    for node_id, subject in state.subjects.items():
        for scope in views.scopes(state, subject):
            content = compile_scope(state, node_id, scope, read)
            assert set(content.audience.roles) <= set(subject.roles)
            assert set(content.audience.organization_ids) <= set(subject.organizations)
            said = (content.section(name) for name in content.sections.keys() - content.raw)
            inside = {one for data in said for one in owners(canonical.loads(data))}
            assert inside <= set(content.audience.organization_ids)


@given(models.changes())
def test_what_is_written_once_for_many_is_what_each_is_told(change: tuple[Model, Model]) -> None:
    """rules S6: also in a state that was made from another one, of which all was written."""
    before, wanted = change
    resources, members = (
        {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        for old, new in ((before.resources, wanted.resources), (before.members, wanted.members))
    )
    for state in (before, next_model(before, resources, members)):
        for node_id, subject in state.subjects.items():
            for scope in views.scopes(state, subject):
                if scope.type != CONFIG:
                    told = {
                        name: canonical.dumps(value) for name, value in views.sections(state, node_id, scope).items()
                    }
                    assert compile_scope(state, node_id, scope, read).sections == told


def owners(value: object) -> set:
    if isinstance(value, dict):
        own = {value["organization_id"]} if "organization_id" in value else set()
        return own.union(*(owners(inner) for inner in value.values()))
    return set().union(*(owners(inner) for inner in value)) if isinstance(value, list) else set()


def test_the_establishing_documents_say_all_that_the_node_is() -> None:
    """format.md 9: a node's own roles and organizations are those of its node_runtime."""
    content = compile_scope(model(ACME, NODE, SERVICE, ROUTE), "n1", Scope("node_runtime"))
    assert content.audience.roles == ("core_mesh", "egress_service")
    assert content.audience.organization_ids == ("acme", "wayne")


def test_other_documents_name_whose_data_is_inside_and_who_grants_them() -> None:
    content = compile_scope(model(ACME, NODE, SERVICE, ROUTE), "n1", Scope("route_policy"))
    assert content.audience.organization_ids == ("acme",)
    assert set(content.audience.roles) == {role for role in NODE.roles if "route_policy" in ROLES[role]}
    policy = compile_scope(model(NODE), "n1", Scope("degraded_mode_policy"))
    assert policy.audience.roles == (min(NODE.roles),)  # what is shared has to name one (format.md 7)


def test_a_directory_says_who_relays() -> None:
    """By its Node's declaration, and of nobody else"""
    relay, other = (Node(name, roles=("core_mesh",), relay=name == "n2") for name in ("n2", "n3"))
    content = compile_scope(model(Node("n1", roles=("core_mesh",)), relay, other), "n1", Scope("peer_directory"))
    parts = (json.loads(data) for name, data in content.sections.items() if name.startswith("peers"))
    told = {name: entry.get("relay") for part in parts for name, entry in part.items()}
    assert told == {"n2": True, "n3": None}


def test_what_a_node_may_not_hold_is_not_compiled() -> None:
    """rules S80"""
    with pytest.raises(KeyError):
        compile_scope(model(Node("n1", roles=("ingress",))), "n1", Scope("peer_directory"))
    with pytest.raises(KeyError):
        compile_scope(model(NODE), "stranger", Scope("node_runtime"))

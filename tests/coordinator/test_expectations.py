"""Expectations, held against what nodes would be given: whom they concern, where they look, what is told."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.declared import expected_place, views
from coordinator.declared.change_impact import affected_scopes
from coordinator.declared.expected_place import WrongPlaceError, read_place
from coordinator.declared.kinds import (
    Config,
    Expectation,
    Node,
    Organization,
    Route,
    Selector,
    Service,
)
from coordinator.declared.model import Model
from coordinator.expected import expectations
from snapshot.identifiers import parse_scope
from tests.coordinator import models
from tests.coordinator.models import model
from tests.coordinator.test_config_scope import Store
from tests.examples import examples

EDGE = Selector(labels={"app": "edge"})
ACME = Organization("acme")


def expectation(scope, pointer, is_, of=EDGE, **more):
    return Expectation("wanted", scope, pointer, is_, of, **more)


def node(id_, **more):
    return Node(id_, **{"roles": ("core_mesh",), "organizations": ("acme",), "labels": {"app": "edge"}, **more})


def route(id_, **more):
    return Route(id_, organization="acme", service="web", **more)


WEB = Service("web", organization="acme", runs_on=Selector(nodes=("n1",)), settings={"table": {"rows": [1, 2]}})
FLEET = (ACME, WEB, node("n1", roles=("core_mesh", "egress_service")), node("n2"), Node("other"))


@pytest.fixture
def store() -> Store:
    return Store()


def everything(state, read):
    return expectations.judge_all(state, state, read)


def unmet(state, read=None):
    """What was found, and on which nodes."""
    judged = everything(state, read or Store().read)
    return [(found.found, found.node_ids) for found in judged.unmet]


@pytest.mark.parametrize(
    ("pointer", "is_", "found"),
    [
        ("/routes/front/ttl_s", {"equals": 3_600}, []),
        ("/routes/front/ttl_s", {"at_least": 3_601}, ["3600"]),
        ("/routes", {"at_least": 40}, []),
        ("/routes", {"at_least": 41}, ["an object of 40"]),
        ("/routes", "absent", ["an object of 40"]),
        ("/routes/gone", "exists", ["nothing"]),
        ("/routes/front/match/hosts/0", {"contains": "example"}, []),
        ("/routes/front/match/hosts/1", "exists", ["nothing"]),
        ("/routes/front/match/hosts/-", "exists", ["nothing"]),
        ("/routes/front/ttl_s/deeper", "exists", ["nothing"]),
        ("/entry_policies", "exists", ["nothing"]),
        ("/entry_policies", "absent", []),
        ("/routes/front/service_id", {"equals": "api"}, ['"web"']),
    ],
)
def test_places_in_sections(pointer, is_, found):
    """Of forty routes, that lie in many parts, as of one section."""
    routes = [route(f"r{number}") for number in range(39)]
    front = route("front", match=models.RouteMatch(hosts=("www.example",)))
    state = model(*FLEET, *routes, front, expectation("route_policy", pointer, is_))
    assert unmet(state) == [(one, ("n1", "n2")) for one in found]


@pytest.mark.parametrize(
    ("pointer", "is_", "found"),
    [
        ("nginx.conf", "exists", []),
        ("nginx.conf", "absent", ["a file of 12 bytes"]),
        ("nginx.conf", {"contains": "ten 80"}, []),
        ("nginx.conf", {"contains": "8080"}, ["a file of 12 bytes"]),
        ("nginx.conf", {"equals": "listen 80;\n\n"}, []),
        ("nginx.conf", {"equals": "listen 80;"}, ["a file of 12 bytes"]),
        ("nginx.conf", {"at_least": 12}, []),
        ("nginx.conf", {"at_least": 13}, ["a file of 12 bytes"]),
        ("gone.conf", "exists", ["no file gone.conf"]),
        ("gone.conf", "absent", []),
        ("gone.json#/a", "absent", []),
        ("gone.json#/a", "exists", ["no file gone.json"]),
        ("d/limits.json#/tables/users", {"at_least": 3}, []),
        ("d/limits.json#/tables/users/2", {"equals": "c"}, []),
        ("d/limits.json#/owner", {"at_least": 1}, ['""']),
        ("d/limits.json#", {"contains": "tables"}, []),
        ("d/limits.json#/a~1b/~0", {"equals": 7}, []),
        ("nginx.conf#/a", "exists", ["a file that is no JSON"]),
        ("nginx.conf#/a", "absent", ["a file that is no JSON"]),
        ("empty", {"at_least": 1}, ["a file of 0 bytes"]),
        ("empty", "exists", []),
    ],
)
def test_places_in_files(store, pointer, is_, found):
    limits = {"tables": {"users": ["a", "b", "c"]}, "owner": "", "a/b": {"~": 7}}
    files = {
        "nginx.conf": store.file(b"listen 80;\n\n"),
        "d/limits.json": store.file(json.dumps(limits).encode()),
        "empty": store.file(b""),
    }
    state = model(*FLEET, Config("edge", EDGE, files), expectation("config/edge", pointer, is_))
    assert unmet(state, store.read) == [(one, ("n1", "n2")) for one in found]


def test_what_lies_across_the_border_of_two_parts_is_found(store):
    text = b"x" * ((1 << 20) - 3) + b"needle" + b"y" * (1 << 20)
    files = {"big": store.file(text)}
    wanted = [("contains", "needle"), ("contains", "needles"), ("equals", "needle")]
    asked = [Expectation(f"e{n}", "config/edge", "big", {word: text}) for n, (word, text) in enumerate(wanted)]
    state = model(*FLEET, Config("edge", EDGE, files), *asked)
    assert [found.expectation.id for found in everything(state, store.read).unmet] == ["e1", "e2"]


def test_a_file_of_json_that_is_too_large_is_said_to_be(store):
    files = {"big.json": store.file(b"[" + b" " * (1 << 20) + b"]")}
    state = model(*FLEET, Config("edge", EDGE, files), expectation("config/edge", "big.json#/0", "absent"))
    assert unmet(state, store.read) == [("a file of 1,048,578 bytes; of JSON at most 1,048,576 are read", ("n1", "n2"))]


def test_each_node_of_a_template_is_judged_by_its_own_text(store):
    files = {"id": store.file(b"I am ${node.id}", ("node.id",))}
    state = model(*FLEET, Config("edge", EDGE, files), expectation("config/edge", "id", {"contains": "n2"}))
    assert unmet(state, store.read) == [("a file of 7 bytes", ("n1",))]


# ---- whom it concerns


def test_where_it_chooses_nodes_each_is_to_be_given_the_scope():
    state = model(*FLEET, expectation("service_assignment/web", "/services", "exists"))
    assert unmet(state) == [("no scope service_assignment/web", ("n2",))]
    assert unmet(model(*FLEET, expectation("service_assignment/web", "/services", "absent"))) == [
        ("an object of 1", ("n1",))
    ]


def test_where_it_chooses_none_those_count_that_hold_the_scope():
    wanted = expectation("service_assignment/web", "/services/web/settings/table/rows", {"at_least": 3}, Selector())
    assert unmet(model(*FLEET, wanted)) == [("a list of 2", ("n1",))]


def test_and_those_that_would_lose_it():
    wanted = expectation("service_assignment/web", "/services/web", "exists", Selector())
    before, after = model(*FLEET, wanted), model(ACME, *FLEET[2:], wanted)
    assert told(before, before) == []
    assert told(before, after) == [("no scope service_assignment/web", ("n1",))]
    assert told(after, after) == []


def told(before, after, read=None):
    judged = expectations.judge(before, after, affected_scopes(before, after), read or Store().read)
    return [(found.found, found.node_ids) for found in judged.unmet]


def test_a_new_one_is_held_against_all_and_one_that_stays_against_what_is_touched():
    broken = expectation("route_policy", "/routes/front", "exists", Selector())
    before = model(*FLEET)
    assert told(before, model(*FLEET, broken)) == [("nothing", ("n1", "n2"))]
    standing = model(*FLEET, broken)
    assert told(standing, model(*FLEET, broken, Organization("wayne"))) == []
    assert told(standing, model(*FLEET, broken, route("back"))) == [("nothing", ("n1", "n2"))]
    elsewhere = model(*FLEET[:-1], Node("other", labels={"x": "y"}), broken)
    assert told(standing, elsewhere) == []


def test_a_node_that_is_selected_only_now_is_looked_at():
    wanted = expectation("service_assignment/web", "/services/web", "exists")
    rest = (*FLEET[:3], Node("n2", labels={"app": "core"}), wanted)
    before = model(*rest)
    after = model(*rest[:3], Node("n2", labels={"app": "edge"}), wanted)
    assert told(before, before) == []
    assert told(before, after) == [("no scope service_assignment/web", ("n2",))]


def test_one_that_concerns_nobody_is_named_when_it_comes_and_when_it_becomes_so():
    lost = expectation("config/gone", "a", "exists", Selector())
    nobody = expectation("route_policy", "/routes", "exists", Selector(labels={"app": "core"}))

    def idle(before, after):
        return [one.id for one in expectations.judge(before, after, affected_scopes(before, after), Store().read).idle]

    assert idle(model(*FLEET), model(*FLEET, lost)) == ["wanted"]
    assert idle(model(*FLEET), model(*FLEET, nobody)) == ["wanted"]
    assert idle(model(*FLEET, lost), model(*FLEET, lost, route("front"))) == []
    assert [one.id for one in everything(model(*FLEET, nobody), Store().read).idle] == ["wanted"]


def test_enforced_ones_refuse_and_others_warn():
    judged = everything(
        model(
            *FLEET,
            Expectation("a", "route_policy", "/routes/x", "exists", EDGE, description="the way in"),
            Expectation("b", "route_policy", "/routes/x", "exists", EDGE, action="warn"),
        ),
        Store().read,
    )
    assert [found.words for found in judged.refusing] == [
        "a: route_policy /routes/x of n1, n2: found nothing, expected something (the way in)"
    ]
    assert [found.expectation.id for found in judged.warning] == ["b"]


def test_many_nodes_are_told_in_a_few_words():
    state = model(*(node(f"n{number}") for number in range(9)), expectation("route_policy", "/routes", "exists"))
    (found,) = everything(state, Store().read).unmet
    assert "of n0, n1, n2 and 6 more: found nothing" in found.words


# ---- what is wrong with one by itself


@pytest.mark.parametrize(
    ("scope", "pointer", "is_", "field"),
    [
        ("", "/a", "exists", "scope"),
        ("Route Policy", "/a", "exists", "scope"),
        ("routes", "/a", "exists", "scope"),
        ("trust_bundle", "/a", "exists", "scope"),
        ("config", "a", "exists", "scope"),
        ("service_assignment", "/a", "exists", "scope"),
        ("route_policy/web", "/a", "exists", "scope"),
        ("route_policy", "routes", "exists", "pointer"),
        ("route_policy", "/", "exists", "pointer"),
        ("route_policy", "/a/~2", "exists", "pointer"),
        ("route_policy", "/a" * 33, "exists", "pointer"),
        ("config/edge", "/nginx.conf", "exists", "pointer"),
        ("config/edge", "../nginx.conf", "exists", "pointer"),
        ("config/edge", "#/a", "exists", "pointer"),
        ("config/edge", "a#b", "exists", "pointer"),
        ("config/edge", "a", {"equals": 1}, "is"),
        ("config/edge", "a", {"contains": [1]}, "is"),
        ("config/edge", "a", {"contains": ""}, "is"),
    ],
)
def test_bad_expectations_name_the_member(scope, pointer, is_, field):
    (fault,) = expected_place.faults_of(expectation(scope, pointer, is_))
    assert fault.path[:2] == ("spec", field)
    assert fault.remedy


@pytest.mark.parametrize("scope", [name for name in views.VIEWS if name not in ("config", "service_assignment")])
def test_every_scope_type_can_be_looked_at(scope):
    assert list(expected_place.faults_of(expectation(scope, "/a/b", {"equals": 1}))) == []


# ---- properties


@examples(200)
@given(models.changes(), st.sampled_from(["route_policy", "node_runtime", "service_assignment/s0", "config/c0"]))
def test_what_is_found_of_a_change_is_what_is_found_of_the_state_it_makes(change, scope):
    """Of what it touches: nothing that a change breaks is passed over, and nothing else is told."""
    pointer = "a" if scope.startswith("config") else "/services/s0" if "/" in scope else "/node/site_id"
    wanted = Expectation("wanted", scope, pointer, "exists")
    before, after = (
        Model(state.cluster_id, {**state.resources, wanted.key: wanted}, state.members) for state in change
    )
    touched = affected_scopes(before, after)

    def nodes(judged):
        """Of this Expectation: others of the state look elsewhere."""
        mine = (found for found in judged.unmet if found.expectation.id == wanted.id)
        return {node_id for found in mine for node_id in found.node_ids}

    def read(_sha256):
        return b"text"

    found, whole = expectations.judge(before, after, touched, read), everything(after, read)
    lost = {node_id for node_id, one in touched if one.name == scope and node_id in after.subjects}
    lost = {one for one in lost if not views.holds(after, after.subjects[one], parse_scope(scope))}
    held = {
        one for one in lost if one in before.subjects and views.holds(before, before.subjects[one], parse_scope(scope))
    }
    looked_at = {node_id for node_id, one in touched if one.name == scope}
    assert nodes(found) & looked_at == (nodes(whole) & looked_at) | held
    assert nodes(found) <= nodes(whole) | held


PLACES = st.text("abc/~01#.-", max_size=12)


@examples(500)
@given(st.sampled_from(["route_policy", "config/edge", "service_assignment/web", "x", "config", ""]), PLACES)
def test_any_place_is_read_or_refused_with_a_remedy(scope, pointer):
    try:
        place = read_place(scope, pointer)
    except WrongPlaceError as error:
        assert error.message
        assert error.remedy
    else:
        assert place.name

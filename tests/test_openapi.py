"""docs/openapi-*.yaml: every route of the code and no other, valid, and of the forms that the code reads by."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from referencing import Registry

from agent.state.endpoint_sets import NamedBy
from agent.state.node_state import State
from snapshot.secrets import is_forbidden_name
from tests.citations import ROOT
from tests.pages import APIS, openapi
from tests.pages.openapi import admin, coordinator, local, parts
from tests.source import modules
from wire.forms import record
from wire.local.node_status import NAMED_BY
from wire.messages import STATES, BadMessageError, ClockReport, JoinNonce, MayAnswer, MayRequest, WatchAnswer
from wire.operators.fleet_answers import Fleet

MESSAGES = (
    ClockReport,
    JoinNonce,
    MayAnswer,
    MayRequest,
    WatchAnswer,
    *dict.fromkeys(admin.MESSAGES.values()),
    *admin.ANSWERS.values(),
    *local.MESSAGES.values(),
)


@pytest.fixture(params=APIS)
def name(request):
    return request.param


@pytest.fixture
def crawled_once(monkeypatch):
    """A registry of schemas never changes, and one is gone through for each anchor that is looked up in it: a third of
    all that validating takes.
    """
    crawl, kept = Registry.crawl, {}

    def found(registry):
        if id(registry) not in kept:
            kept[id(registry)] = registry, crawl(registry)
        return kept[id(registry)][1]

    monkeypatch.setattr(Registry, "crawl", found)


@pytest.mark.usefixtures("crawled_once")
def test_it_is_openapi_3_1(name):
    document = yaml.load((ROOT / f"docs/openapi-{name}.yaml").read_text(), Loader=yaml.CSafeLoader)
    assert document["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []


def test_every_route_is_described_and_nothing_else(name):
    missing, extra = openapi.gaps(APIS[name]())
    assert (missing, extra) == ([], []), "describe them in tests/pages/openapi"


def test_operations_have_names_of_their_own(name):
    paths = openapi.document(APIS[name]())["paths"].values()
    names = [operation["operationId"] for path in paths for operation in path.values()]
    assert len(set(names)) == len(names)


def test_strangers_may_ask_no_more_than_to_join():
    """rules J1"""
    assert coordinator.joining() == {("GET", "/v1/join/nonce"), ("POST", "/v1/join")}


def test_every_body_of_an_operator_is_a_message():
    """But those that are bytes: the code takes any, if they have the hash that is said of them."""
    asked = {key: operation.body for key, operation in admin.OPERATIONS.items() if operation.body is not None}
    of_bytes = {"application/octet-stream", "application/vnd.holdfast.parts"}
    asking = {key for key, each in asked.items() if not of_bytes & each["content"].keys()}
    assert asking == admin.MESSAGES.keys()


def test_the_words_are_those_of_the_agent():
    assert list(STATES) == [str(state) for state in State]
    assert list(NAMED_BY) == [str(named_by) for named_by in NamedBy]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**53) | st.sampled_from(["", "ok", "route_policy", "a\n", "x" * 70]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "route_policy"]), inner),
    max_leaves=4,
)


@given(st.sampled_from(MESSAGES), st.data())
def test_what_a_message_takes_its_schema_takes_too(message, data):
    """The schema may allow more than the code (it knows no calendar), never less."""
    members = message.__dataclass_fields__
    value = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(members, VALUES)))
    try:
        record(message).read(value, "it")
    except BadMessageError:
        return
    Draft202012Validator(record(message).schema).validate(value)


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (MayRequest, {}),
        (MayRequest, {"action": "a", "else": 1}),
        (MayAnswer, {"allowed": "yes", "reason": "ok", "mode": "normal", "until": None}),
        (MayAnswer, {"allowed": True, "reason": "ok", "mode": "asleep", "until": None}),
        (WatchAnswer, {"generation": -1, "scopes": {}}),
        (WatchAnswer, {"generation": 1, "scopes": {"Route": []}}),
    ],
)
def test_a_schema_refuses_what_the_code_refuses(message, wrong):
    with pytest.raises(BadMessageError):
        record(message).read(wrong, "it")
    assert not Draft202012Validator(record(message).schema).is_valid(wrong)


def test_a_schema_follows_the_annotations():
    schema = parts.schema_of(Fleet)
    assert schema["properties"]["states"]["additionalProperties"]["type"] == "integer"
    assert schema["properties"]["stragglers"]["items"]["title"] == "Straggler"
    assert schema["additionalProperties"] is False


def names_in(schema: object):
    """Every member name in a schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from names_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from names_in(value)


def test_no_interface_hands_out_a_secret(name):
    """rules X11: signed public documents, and nothing that a secret could stand in but a new token, shown once"""
    document = openapi.document(APIS[name]())
    answers = [operation["responses"] for path in document["paths"].values() for operation in path.values()]
    found = {each for each in names_in([answers, document["components"]["schemas"]]) if is_forbidden_name(each)}
    assert found <= ({"token"} if name == "admin" else set())


def test_schemas_are_for_readers_and_tests_alone():
    """threats D-29: no message and no document is judged by a JSON Schema; what operators declare may be, by their own,
    in a process of its own
    """
    others = (module for module in modules() if module.name != "coordinator.configs.json_schema")
    imported = {use.name.partition(".")[0] for module in others for use in module.imports}
    assert imported.isdisjoint({"jsonschema", "fastjsonschema", "openapi_spec_validator", "pydantic"})

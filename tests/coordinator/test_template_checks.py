"""A template and a schema together: each node's own text is judged, equal ones once, and a node is named."""

import pytest

from coordinator.configs import template_checks
from coordinator.configs.template_checks import checks_of
from coordinator.declared.kinds import Node
from coordinator.declared.model import Model
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.publishing import declarations
from coordinator.runtime import schema_child
from tests.coordinator.daemon import running
from tests.coordinator.founding import Founded
from tests.coordinator.models import entry
from tests.coordinator.test_admin_api import refused_apply
from tests.coordinator.test_apply_contents import upload
from tests.coordinator.test_config_files import World, config

PORT = b'{"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]}'
NODES = {"n1": "81", "n2": "82", "n3": "82", "n4": "none"}
FILE = 'a: {text: "{\\"port\\": ${node.labels.port}}", template: true, schema: s}'


def fleet(world: World, files: str, nodes: dict[str, str], to: str = "{}") -> tuple[list, Model]:
    """The checks that are left of a Config for all, and the state with these nodes, each with its port."""
    settled = world.settle(config(files, to=to))
    nodes_ = [Node(id_, labels={"port": port}) for id_, port in nodes.items()]
    resources = {node.key: node for node in nodes_} | {key: one.resource for key, one in settled.declared.items()}
    return settled.templates, Model("prod", resources)


def problems(world: World, files: str, nodes: dict[str, str]) -> list[DeclaredProblem]:
    asked, state = fleet(world, files, nodes)
    with pytest.raises(InvalidResources) as caught:
        schema_child.check(checks_of(state, asked))
    return list(caught.value.problems)


def test_equal_texts_are_judged_once() -> None:
    asked, state = fleet(World(s=PORT), FILE, NODES)
    found = {check.value: check.node_ids for check in checks_of(state, asked)}
    assert found == {b'{"port": 81}': ("n1",), b'{"port": 82}': ("n2", "n3"), b'{"port": none}': ("n4",)}


def test_what_fits_for_every_node_passes() -> None:
    asked, state = fleet(World(s=PORT), FILE, {"n1": "81", "n2": "82"})
    schema_child.check(checks_of(state, asked))


def test_the_node_and_the_place_are_named() -> None:
    (found,) = problems(World(s=PORT), FILE.replace("${", '\\"${').replace("}}", '}\\"}'), {"n1": "81"})
    assert (found.file, found.line, found.field) == ("d/state.yaml", 6, "spec.files.a.text.port")
    assert found.message == "is not as `type` of the schema asks, as n1 is given it"
    assert found.remedy == "correct it, or s"


def test_one_that_is_wrong_for_many_is_said_once() -> None:
    """Also where their texts differ: the place and the rule are the same."""
    (found,) = problems(World(s=PORT), FILE, {"n1": "81", "n2": "1.5", "n3": "2.5", "n4": "2.5"})
    assert found.message == "is not as `type` of the schema asks, as n2 and 2 more are given it"
    (other,) = problems(World(s=PORT), FILE, NODES)
    assert other.message == "is no JSON, which a schema could judge, as n4 is given it"


def test_places_that_differ_from_node_to_node_are_not_all_said() -> None:
    text = 'a: {text: "{\\"port\\": 1, \\"${node.id}\\": 1}", template: true, schema: s}'
    world = World(s=b'{"additionalProperties": {"type": "string"}, "properties": {"port": {}}}')
    assert len(problems(world, text, {f"n{number}": "1" for number in range(50)})) == schema_child.MOST_TOLD


def test_a_template_in_a_file_is_judged_at_its_line() -> None:
    (found,) = problems(World(s=PORT, t=b'{"port": "${node.id}"}'), "a: {file: t, template: true, schema: s}", NODES)
    assert found.field == "spec.files.a.file.port"
    assert found.message.endswith("as n1 and 3 more are given it")


def test_members_are_judged_that_nobody_declares_and_who_lacks_a_label_is_not() -> None:
    """Of that one nothing is compiled, and references.py names those that are declared."""
    text = 'a: {text: "[\\"${node.site}\\"]", template: true, schema: s}'
    asked, state = fleet(World(s=b"{}"), f"{text}\n{FILE.replace('a:', 'b:', 1)}", {"n1": "1"})
    state = Model("prod", state.resources, {"m": entry("m"), "w": entry("w", "witness")})
    found = {(check.at[2], check.node_ids) for check in checks_of(state, asked)}
    assert found == {("a", ("m", "n1")), ("b", ("n1",))}


def test_too_much_to_be_judged_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_checks, "TEXT_BYTES", 1 << 20)
    world = World(s=b"{}", t=b'["${node.id}", "' + b"x" * (1 << 19) + b'"]')
    asked, state = fleet(world, "a: {file: t, template: true, schema: s}", NODES)
    with pytest.raises(InvalidResources) as caught:
        checks_of(state, asked)
    (found,) = caught.value.problems
    assert (found.field, found.line) == ("spec.files.a.file", 6)
    assert "more than 1 MiB" in found.message and "leave the schema out" in found.remedy


STATE = """
kind: Config
id: edge
spec:
  to: {labels: {app: edge}}
  files:
    port.json: {text: '{"port": ${node.labels.port}}', template: true, schema: port.schema.json}
---
{kind: Node, id: node-a, spec: {labels: {app: edge, port: "81"}}}
---
"""
OTHER = '{kind: Node, id: node-b, spec: {labels: {app: edge, port: "PORT"}}}\n'


async def test_an_apply_is_refused_for_one_node_and_the_next_right_one_goes_through(founded: Founded) -> None:
    """A plan and an apply alike; and where nothing but a node has changed, too."""
    async with running(founded) as at:
        contents = {"port.schema.json": await upload(at, PORT)}
        for text in (STATE + OTHER.replace("PORT", "none"), STATE + OTHER.replace("PORT", "1.5")):
            for how in ({}, {"dry_run": True}):
                answer = await refused_apply(at, text, contents=contents, **how)
                (found,) = answer["problems"]
                assert (found["file"], found["line"]) == ("state.yaml", 7)
                assert "as node-b is given it" in found["message"]
        assert (await at.ask("GET", "/v1/resources"))["resources"] == []
        right = STATE + OTHER.replace("PORT", "82")
        plan = await at.apply(right, contents=contents, dry_run=True)
        assert (await at.apply(right, contents=contents, based_on=plan["based_on"]))["outcome"] == "applied"


async def test_what_was_judged_for_other_nodes_is_judged_again(founded: Founded) -> None:
    """The files are those that were read last; the fleet is another."""
    async with running(founded) as at:
        contents = {"port.schema.json": await upload(at, PORT)}
        database, now = at.daemon.coordinator.database, at.daemon.coordinator.now()
        await at.apply(STATE, contents=contents, dry_run=True)
        declarations.apply(database, {"other.yaml": OTHER.replace("PORT", "none")}, actor="another replica", now=now)
        answer = await refused_apply(at, STATE, contents=contents)
        assert "as node-b is given it" in answer["problems"][0]["message"]

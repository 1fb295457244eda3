"""What egress services go out by: what is taken, who is told, and how it is taken back by its name."""

import pytest

from coordinator.base.refusal import Refused
from coordinator.configs import config_files
from coordinator.database.database import Database
from coordinator.declared import resources, value_shapes
from coordinator.declared.contents import read_none
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.declared.scope_view import DeclaredSource
from coordinator.fleet.explain_scope import explain_scope
from coordinator.membership import revocation
from coordinator.runtime import schema_child
from tests.coordinator.publishing import Press

WORLD = """
{kind: Cluster, id: prod, spec: {coordinators: ["https://localhost:7443"]}}
---
{kind: Organization, id: acme}
---
{kind: Organization, id: wayne}
---
{kind: Node, id: node-a, spec: {roles: [egress_service], organizations: [acme]}}
---
{kind: Node, id: node-b, spec: {roles: [egress_service, ingress], organizations: [acme]}}
---
{kind: EgressResource, id: theirs, spec: {organization: wayne, type: connector}}
"""
SERVICE = """kind: Service
id: web
spec: {organization: acme, runs_on: {nodes: [node-a]}, resources: [plant], endpoints: [
  {name: a, protocol: https, host: h, port: 1, exposed: true}]}
"""
PLANT = """kind: EgressResource
id: plant
spec:
  organization: acme
  type: vpn_connection
  connector: office
  settings: {peer: 192.0.2.7, mtu: 1420, login: {secret_ref: "vault:plant"}}
  schema:
    type: object
    required: [peer, login]
    properties: {mtu: {type: integer}, password: {required: [secret_ref]}}
"""
OFFICE = "---\n{kind: EgressResource, id: office, spec: {organization: acme, type: connector, settings: {site: fra}}}\n"
ALL = f"{WORLD}---\n{SERVICE}---\n{PLANT}{OFFICE}"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b", also=ALL, prune=True)


def told(press: Press, node_id: str) -> dict[str, object]:
    return press.section("service_assignment/web", "resources", node_id)


def problems(text: str) -> tuple[DeclaredProblem, ...]:
    """Of the plant's file, in which a text replaces another."""
    files = {"world.yaml": WORLD, "web.yaml": SERVICE, "office.yaml": OFFICE, "plant.yaml": text}
    with pytest.raises(InvalidResources) as caught:
        declared = resources.read(files)
        resources.check(declared, {}, "prod")
        settled = config_files.settle(declared, {}, set(), read_none, value_shapes.shipped_shapes(), {})
        schema_child.check(settled.checks)
    return caught.value.problems


def test_nodes_that_run_a_service_are_told_what_it_names(press: Press) -> None:
    """seed 001 section 5: assigned resource refs, connector and vpn_connection refs, secret resolver refs only"""
    assert told(press, "node-a") == {
        "office": {"organization_id": "acme", "type": "connector", "settings": {"site": "fra"}},
        "plant": {
            "organization_id": "acme",
            "type": "vpn_connection",
            "connector_id": "office",
            "settings": {"peer": "192.0.2.7", "mtu": 1420, "login": {"secret_ref": "vault:plant"}},
        },
    }
    assert told(press, "node-b") == {}  # an entrance learns where it answers, and no more


def test_what_changes_comes_with_the_service(press: Press) -> None:
    press.apply(PLANT.replace("1420", "1380"))
    press.publish()
    assert told(press, "node-a")["plant"]["settings"]["mtu"] == 1380  # type: ignore[index]
    press.apply(OFFICE.replace("fra", "ams"))
    press.publish()
    assert told(press, "node-a")["office"]["settings"] == {"site": "ams"}  # type: ignore[index]


def test_what_no_service_names_goes(press: Press) -> None:
    press.apply(SERVICE.replace("resources: [plant], ", ""))
    press.publish()
    assert told(press, "node-a") == {}


def test_it_is_revoked_by_its_name(press: Press) -> None:
    """The next head says so to every node, and `explain` to whoever looks for it."""
    revocation.revoke(press.database, "service_ids", "plant", reason="stolen", actor="ops", now=press.now)
    press.publish()
    assert press.reader("node-a").follow().holder.revocations.service_ids == {"plant"}
    notes = explain_scope(press.database, "node-a", "service_assignment/web", now=press.now).notes
    assert "the resource plant is revoked: nodes show it no more, and refuse its use" in notes
    with pytest.raises(Refused) as refused:
        revocation.revoke(press.database, "service_ids", "plants", reason="x", actor="ops", now=press.now)
    assert "office, plant, theirs, web" in refused.value.remedy


def test_explain_names_it(press: Press) -> None:
    found = explain_scope(press.database, "node-a", "service_assignment/web", now=press.now)
    entries = {each.entry: each for each in found.entries if each.section == "resources"}
    assert entries["plant"].sources == (DeclaredSource("EgressResource", "plant", "state.yaml:19"),)
    assert entries["plant"].because == "Service web names it"
    assert entries["office"].because == "a connector of what the service names"
    assert {each.stands for each in entries.values()} == {"as_declared"}


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "message"),
    [
        ("organization: acme", "organization: nobody", 4, "spec.organization", "there is no Organization nobody"),
        ("vpn_connection", "vpn", 5, "spec.type", "must be one of connector, vpn_connection, resource"),
        ("connector: office", "connector: gone", 6, "spec.connector", "there is no EgressResource gone"),
        ("connector: office", "connector: theirs", 6, "spec.connector", "theirs belongs to wayne"),
        ("connector: office", "connector: plant", 6, "spec.connector", "plant is a vpn_connection"),
        ("type: vpn_connection", "type: connector", 6, "spec.connector", "is not reached by another"),
        ('{secret_ref: "vault:plant"}', "{password: hunter2}", 7, "spec.settings.login.password", "a raw secret"),
        ("mtu: 1420", "organization_id: wayne", 7, "spec.settings.organization_id", "belongs to wayne"),
        ("mtu: 1420", "mtu: large", 7, "spec.settings.mtu", "is not as `type` of the schema asks"),
        ("peer: 192", "host: 192", 7, "spec.settings", "is not as `required` of the schema asks"),
        ("type: object", "type: thing", 7, "spec.settings", "the schema is none"),
        ("type: object", "$ref: https://x.example/s", 7, "spec.settings", "the schema refers to https://x.example/s"),
        ("type: object", "const: AKIAIOSFODNN7EXAMPLE", 9, "spec.schema.const", "a raw secret"),
        ("id: plant", "id: web", 2, "id", "there is a Service web"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_said_with_its_line(before: str, after: str, line: int, field: str, message: str) -> None:
    found = next(each for each in problems(PLANT.replace(before, after, 1)) if each.file == "plant.yaml")
    assert (found.line, found.field) == (line, field)
    assert message in found.message and found.remedy
    assert "hunter2" not in str(found) and "AKIAIOSFODNN7EXAMPLE" not in str(found)


def test_a_service_uses_what_is_there_and_its_own() -> None:
    (found,) = problems(PLANT.replace("organization: acme", "organization: wayne").replace("  connector: office\n", ""))
    assert (found.file, found.message) == ("web.yaml", "plant belongs to wayne")
    (found,) = problems(PLANT.replace("id: plant", "id: other"))
    assert (found.file, found.message) == ("web.yaml", "there is no EgressResource plant")


def test_what_one_service_is_told_fits_a_section() -> None:
    ids = [f"r{number:02}" for number in range(32)]
    connectors = [f"c{number:02}" for number in range(32)]
    large = "settings: {text: " + "x" * (15 << 10) + "}"
    rest = f"spec: {{organization: acme, {large}, type"
    texts = [f"{{kind: EgressResource, id: {id_}, {rest}: connector}}}}\n" for id_ in connectors]
    pairs = zip(ids, connectors, strict=True)
    texts += [f"{{kind: EgressResource, id: {id_}, {rest}: resource, connector: {to}}}}}\n" for id_, to in pairs]
    many = SERVICE.replace("[plant]", f"[{', '.join(ids)}]")
    with pytest.raises(InvalidResources) as caught:
        declared = resources.read({"world.yaml": WORLD, "web.yaml": many, "them.yaml": "---\n".join(texts)})
        resources.check(declared, {}, "prod")
    (found,) = caught.value.problems
    assert found.field == "spec.resources" and found.message.startswith("nodes would be told 96")

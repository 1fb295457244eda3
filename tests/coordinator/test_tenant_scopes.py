"""Who may come in at ingress nodes, and by which tokens: what is taken, who is told, and how it is taken back."""

import json

import pytest

from coordinator.database.database import Database
from coordinator.declared import resources
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.declared.scope_view import DeclaredSource
from coordinator.fleet.explain_scope import explain_scope
from tests.coordinator.publishing import Press

KEY = {"kty": "OKP", "crv": "Ed25519", "kid": "2026-1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
WORLD = """
{kind: Cluster, id: prod, spec: {coordinators: ["https://localhost:7443"]}}
---
{kind: Organization, id: acme}
---
{kind: Organization, id: wayne}
---
{kind: Node, id: node-a, spec: {roles: [core_mesh, egress_service], organizations: [acme]}}
---
{kind: Node, id: node-b, spec: {roles: [ingress], organizations: [acme], labels: {at: edge}}}
---
{kind: Service, id: web, spec: {organization: acme, runs_on: {nodes: [node-a]}}}
---
{kind: Service, id: theirs, spec: {organization: wayne, runs_on: {labels: {x: y}}}}
---
{kind: Config, id: keys, spec: {to: {labels: {at: edge}}, files: {jwks.json: {json: {keys: []}}}}}
"""
POLICY = """kind: EntryPolicy
id: staff
spec:
  organization: acme
  enters_at: {labels: {at: edge}}
  services: [web]
  networks: [192.0.2.0/24, "2001:db8::/32"]
  issuers:
    - issuer: https://login.acme.example
      audiences: [intranet]
      jwks: {keys: [KEY]}
    - issuer: https://partner.example
      audiences: [intranet]
      jwks_in: {config: keys, file: jwks.json}
""".replace("KEY", json.dumps(KEY))
OTHER_ENTRANCE = "---\n{kind: Node, id: node-c, spec: {roles: [ingress], organizations: [acme]}}\n"


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b", also=f"{WORLD}---\n{POLICY}", prune=True)


def policies(press: Press, node_id: str) -> dict[str, object]:
    return press.section("route_policy", "entry_policies", node_id)


def problems(text: str) -> tuple[DeclaredProblem, ...]:
    with pytest.raises(InvalidResources) as caught:
        resources.check(resources.read({"world.yaml": WORLD, "entry.yaml": text}), {}, "prod")
    return caught.value.problems


def test_ingress_nodes_are_told_and_nobody_else(press: Press) -> None:
    """seed 001 section 5: client entry policy and token validation trust material; no topology, no credentials."""
    assert policies(press, "node-b") == {
        "staff": {
            "organization_id": "acme",
            "service_ids": ["web"],
            "networks": ["192.0.2.0/24", "2001:db8::/32"],
            "issuers": [
                {"issuer": "https://login.acme.example", "audiences": ["intranet"], "jwks": {"keys": [KEY]}},
                {
                    "issuer": "https://partner.example",
                    "audiences": ["intranet"],
                    "jwks_in": {"config": "keys", "file": "jwks.json"},
                },
            ],
        }
    }
    assert policies(press, "node-a") == {}


def test_it_is_taken_back_by_its_name(press: Press) -> None:
    press.apply(WORLD, prune=True)
    press.publish()
    assert policies(press, "node-b") == {}


def test_what_enters_elsewhere_is_not_told(press: Press) -> None:
    press.apply(POLICY.replace("at: edge", "at: other"))
    press.publish()
    assert policies(press, "node-b") == {}


def test_explain_names_it(press: Press) -> None:
    told = explain_scope(press.database, "node-b", "route_policy", now=press.now)
    (entry,) = [each for each in told.entries if each.entry == "staff"]
    assert entry.sources == (DeclaredSource("EntryPolicy", "staff", "state.yaml:18"),)
    assert entry.because == "clients enter here: enters_at selects label at=edge"
    assert entry.stands == "as_declared"


@pytest.mark.parametrize("member", ["d", "k"])
def test_a_private_key_is_refused_by_its_place_and_never_shown(member: str) -> None:
    """format.md 9, threats D-55"""
    value = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
    found = problems(POLICY.replace('"kid"', f'"{member}": "{value}", "kid"'))
    assert {(each.file, each.line) for each in found} == {("entry.yaml", 11)}
    assert any("raw secret" in each.message and each.remedy for each in found)
    assert all(each.field.startswith("spec.issuers[0].jwks.keys[0]") for each in found)
    assert value not in str(found)


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "message"),
    [
        ("organization: acme", "organization: nobody", 4, "spec.organization", "there is no Organization nobody"),
        ("[web]", "[gone]", 6, "spec.services", "there is no Service gone"),
        ("[web]", "[theirs]", 6, "spec.services", "theirs belongs to wayne"),
        ("192.0.2.0/24", "192.0.2.1/24", 7, "spec.networks[0]", "must be a network"),
        ("192.0.2.0/24", "192.0.2.1", 7, "spec.networks[0]", "must be a network"),
        ('"OKP"', '"oct"', 11, "spec.issuers[0].jwks.keys[0]", "is no public key"),
        ('"kid"', '"n": 7, "kid"', 11, "spec.issuers[0].jwks.keys[0].n", "is no member of a key"),
        ("{keys: [", "{no: [", 11, "spec.issuers[0].jwks.keys", "must be a list of 1 to 64 keys"),
        ("config: keys", "config: gone", 14, "spec.issuers[1].jwks_in", "there is no Config gone"),
        ("file: jwks", "file: other", 14, "spec.issuers[1].jwks_in", "Config keys has no file other.json"),
        ("jwks_in: {config: keys, file: jwks.json}", "", 12, "spec.issuers[1]", "needs one of jwks, jwks_in"),
        ("audiences: [intranet]\n      jwks_in", "jwks_in", 12, "spec.issuers[1].audiences", "is missing"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_said_with_its_line(before: str, after: str, line: int, field: str, message: str) -> None:
    first = problems(POLICY.replace(before, after))[0]
    assert (first.file, first.line, first.field) == ("entry.yaml", line, field)
    assert message in first.message and first.remedy


def test_the_nodes_that_are_told_hold_the_keys() -> None:
    """Else an entrance would have a policy that it cannot carry out."""
    everywhere = POLICY.replace("  enters_at: {labels: {at: edge}}\n", "")
    (found,) = problems(everywhere + OTHER_ENTRANCE)
    assert found.message == "Config keys is not for node-c"


def test_what_one_node_is_told_fits_a_section() -> None:
    many = {**KEY, "x5c": ["A" * 900] * 60}
    policies = [POLICY.replace("id: staff", f"id: p{n}").replace(json.dumps(KEY), json.dumps(many)) for n in range(16)]
    (found,) = problems("---\n".join(policies))
    assert found.message.startswith("the node would be told") and "KiB of entry policies" in found.message
    assert (found.file, found.field) == ("world.yaml", "spec.organizations") and "jwks_in" in found.remedy

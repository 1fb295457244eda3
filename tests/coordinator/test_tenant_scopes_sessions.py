"""The sessions and the tunnel of thin nodes: what is taken, which policy wins, and how it is taken back."""

import pytest

from coordinator.database.database import Database
from coordinator.declared import resources
from coordinator.declared.resources import DeclaredProblem, InvalidResources
from coordinator.declared.scope_view import DeclaredSource
from coordinator.fleet.explain_scope import explain_scope
from tests.coordinator.publishing import Press

WORLD = """
{kind: Cluster, id: prod, spec: {coordinators: ["https://localhost:7443"]}}
---
{kind: Organization, id: acme}
---
{kind: Organization, id: wayne}
---
{kind: Node, id: node-a, spec: {roles: [core_mesh], organizations: [acme]}}
---
{kind: Node, id: node-b, spec: {roles: [thin], organizations: [acme, wayne], labels: {is: phone}}}
"""
POLICY = """kind: SessionPolicy
id: phones
spec:
  organization: acme
  applies_to: {labels: {is: phone}}
  priority: 10
  session: {ttl_s: 3600, idle_s: 600, most: 2}
  tunnel:
    mode: split
    networks: [10.1.0.0/16, "2001:db8::/32"]
    dns: [10.1.0.53]
    domains: [corp.example]
"""
USUAL = "---\n{kind: SessionPolicy, id: usual, spec: {organization: acme, session: {ttl_s: 60}}}\n"
THEIRS = "---\n{kind: SessionPolicy, id: theirs, spec: {organization: wayne, session: {ttl_s: 90}}}\n"
TOLD = {
    "organization_id": "acme",
    "session": {"ttl_s": 3600, "idle_s": 600, "most": 2},
    "tunnel": {
        "mode": "split",
        "networks": ["10.1.0.0/16", "2001:db8::/32"],
        "dns": ["10.1.0.53"],
        "domains": ["corp.example"],
    },
}


@pytest.fixture
def press(database: Database) -> Press:
    return Press.published(database, "node-a", "node-b", also=f"{WORLD}---\n{POLICY}{USUAL}{THEIRS}", prune=True)


def policies(press: Press, node_id: str) -> dict[str, object]:
    return press.section("route_policy", "session_policies", node_id)


def problems(text: str) -> tuple[DeclaredProblem, ...]:
    with pytest.raises(InvalidResources) as caught:
        resources.check(resources.read({"world.yaml": WORLD, "phones.yaml": text}), {}, "prod")
    return caught.value.problems


def test_a_thin_node_has_one_of_each_organization(press: Press) -> None:
    """seed 001 section 5: active session/tunnel policy subset"""
    told = policies(press, "node-b")
    assert told.keys() == {"phones", "theirs"} and told["phones"] == TOLD
    assert policies(press, "node-a") == {}


def test_the_highest_priority_wins_and_then_the_lowest_id(press: Press) -> None:
    press.apply(POLICY.replace("priority: 10", "priority: 0"))
    press.publish()
    assert policies(press, "node-b").keys() == {"phones", "theirs"}
    press.apply(USUAL.replace("organization", "priority: 1, organization"))
    press.publish()
    assert policies(press, "node-b").keys() == {"usual", "theirs"}


def test_it_is_taken_back_by_its_name_and_the_next_one_holds(press: Press) -> None:
    press.apply(f"{WORLD}{USUAL}", prune=True)
    press.publish()
    assert policies(press, "node-b").keys() == {"usual"}
    press.apply(WORLD, prune=True)
    press.publish()
    assert policies(press, "node-b") == {}


def test_explain_names_it(press: Press) -> None:
    told = explain_scope(press.database, "node-b", "route_policy", now=press.now)
    (entry,) = [each for each in told.entries if each.entry == "phones"]
    assert entry.sources == (DeclaredSource("SessionPolicy", "phones", "state.yaml:12"),)
    assert entry.because == "of priority 10, the first of acme that applies: it selects label is=phone"
    assert entry.stands == "as_declared"


@pytest.mark.parametrize(
    ("before", "after", "line", "field", "message"),
    [
        ("organization: acme", "organization: nobody", 4, "spec.organization", "there is no Organization nobody"),
        ("{labels: {is: phone}}", "{nodes: [gone]}", 5, "spec.applies_to.nodes", "there is no Node gone"),
        ("{labels: {is: phone}}", "{nodes: [node-a]}", 5, "spec.applies_to", "node-a has not the role thin"),
        ("ttl_s: 3600", "ttl_s: 59", 7, "spec.session.ttl_s", "must be an integer from 60 to"),
        ("ttl_s: 3600", "ttl_s: 300", 7, "spec.session.idle_s", "is longer than a session lasts"),
        ("most: 2", "most: 0", 7, "spec.session.most", "must be an integer from 1 to 1000"),
        ("mode: split", "mode: half", 9, "spec.tunnel.mode", "must be one of none, split, full"),
        ("mode: split", "mode: full", 10, "spec.tunnel.networks", "everything goes through it of mode full"),
        ("10.1.0.0/16", "10.1.0.1/16", 10, "spec.tunnel.networks[0]", "must be a network"),
        ("10.1.0.0/16", '"2001:db8:7::/48"', 10, "spec.tunnel.networks", "lies within 2001:db8::/32"),
        ("[10.1.0.53]", "[dns.example]", 11, "spec.tunnel.dns[0]", "must be an address"),
        ("[10.1.0.53]", "[]", 12, "spec.tunnel.domains", "nobody would be asked"),
        ("corp.example", "Corp.example", 12, "spec.tunnel.domains[0]", "must be a domain in lower case"),
        ("corp.example", "corp.example.", 12, "spec.tunnel.domains[0]", "must be a domain in lower case"),
        ("corp.example", '"*.example"', 12, "spec.tunnel.domains[0]", "must be a domain in lower case"),
        ("corp.example", "10.1.0.5", 12, "spec.tunnel.domains[0]", "must be a domain in lower case"),
    ],
)  # fmt: skip
def test_what_does_not_hold_is_said_with_its_line(before: str, after: str, line: int, field: str, message: str) -> None:
    first = problems(POLICY.replace(before, after))[0]
    assert (first.file, first.line, first.field) == ("phones.yaml", line, field)
    assert message in first.message and first.remedy


def test_a_tunnel_without_a_way_through() -> None:
    (found,) = problems(POLICY[: POLICY.index("    networks")])
    assert (found.field, found.message) == ("spec.tunnel", "split, and nothing goes through it")


def test_a_policy_for_a_node_that_serves_somebody_else() -> None:
    world = WORLD.replace("[acme, wayne]", "[wayne]")
    with pytest.raises(InvalidResources) as caught:
        text = POLICY.replace("{labels: {is: phone}}", "{nodes: [node-b]}")
        resources.check(resources.read({"world.yaml": world, "phones.yaml": text}), {}, "prod")
    (found,) = caught.value.problems
    assert (found.field, found.message) == ("spec.applies_to", "node-b does not serve acme")


def test_what_one_node_is_told_fits_a_section() -> None:
    domains = ", ".join(f"{'d' * 60}.{'e' * 60}.{'f' * 60}.n{number}.example" for number in range(256))
    names = [f"o{number}" for number in range(20)]
    world = "".join(f"---\n{{kind: Organization, id: {name}}}\n" for name in names)
    told = "---\n{kind: Node, id: node-t, spec: {roles: [thin], organizations: [" + ", ".join(names) + "]}}\n"
    large = POLICY.replace("corp.example", domains).replace("  applies_to: {labels: {is: phone}}\n", "")
    many = [large.replace("acme", name).replace("id: phones", f"id: {name}") for name in names]
    (found,) = problems("---\n".join([world + told, *many]))
    assert found.message.startswith("the node would be told") and "KiB of session policies" in found.message
    assert found.field == "spec.organizations" and "split its organizations" in found.remedy

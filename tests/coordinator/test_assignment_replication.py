"""Who copies from whom, as it is declared: what each side is told, and what is refused (seed 001 section 5)."""

from dataclasses import replace

import pytest

from agent.storage.replication import parse_readers, parse_sources
from coordinator.base.refusal import Refused
from coordinator.declared import change_impact, views
from coordinator.declared.kinds import Node, StorageEndpoint
from snapshot.identifiers import Scope
from tests.coordinator.models import entry, model
from tests.coordinator.publishing import Press

DIRECTORY = Scope("storage_directory")
NODES = (Node("one", roles=("storage_config",)), Node("two", roles=("storage_config",)), Node("three"))
ONE = StorageEndpoint("s1", "https://one.example:7448", node="one", replicates=("s2",))
TWO = StorageEndpoint("s2", "https://two.example:7448", node="two")


def told(state, node_id: str) -> dict[str, object]:
    return views.sections(state, node_id, DIRECTORY)


def test_both_sides_are_told_by_which_certificates_they_know_each_other():
    """rules K34, seed 001 section 5: replication metadata; read by the agent's own parser"""
    state = model(*NODES, ONE, TWO)
    (source,) = parse_sources(told(state, "one")["replication_sources"])
    assert (source.endpoint_id, source.url) == ("s2", TWO.url)
    assert source.certificates == state.members["two"].certificates
    assert parse_readers(told(state, "two")["replication_readers"]) == (("one", state.members["one"].certificates[0]),)
    assert "replication_readers" not in told(state, "one") and "replication_sources" not in told(state, "two")


def test_who_is_no_member_any_more_is_copied_from_by_nobody():
    state = model(*NODES, ONE, TWO)
    without = replace(state, members={name: member for name, member in state.members.items() if name != "two"})
    assert told(without, "one").keys() == {"endpoints", "shards"}


def test_a_renewed_certificate_and_a_changed_endpoint_reach_the_other_side():
    """rules K21: else each would know the other one by a certificate that is shown no more"""
    before = model(*NODES, ONE, TWO)
    renewed = entry("two")
    renewed = replace(renewed, certificates=(b"another",))
    after = replace(before, members={**before.members, "two": renewed})
    assert ("one", DIRECTORY) in change_impact.affected_scopes(before, after)
    assert ("two", DIRECTORY) in change_impact.affected_scopes(before, model(*NODES, replace(ONE, replicates=()), TWO))


WORLD = """
{kind: Organization, id: acme, spec: {name: Acme}}
---
{kind: Organization, id: globex, spec: {name: Globex}}
---
{kind: Node, id: node-a, spec: {roles: [storage_config, egress_service], organizations: [acme]}}
---
{kind: Node, id: node-b, spec: {roles: [storage_config]}}
---
"""
REFUSED = {
    "nobody runs the source": ("node: node-a, replicates: [s2]", "", "no node runs s2"),
    "nobody runs it": ("replicates: [s2]", "node: node-b", "no node runs it"),
    "all for some": ("node: node-a, organizations: [acme], replicates: [s2]", "node: node-b", "that s1 is not for"),
    "others for some": (
        "node: node-a, organizations: [acme], replicates: [s2]",
        "node: node-b, organizations: [acme, globex]",
        "that s1 is not for",
    ),
}


@pytest.mark.parametrize("how", REFUSED)
def test_what_cannot_be_copied_is_refused(database, how):
    """rules S20: a store lists to another one all that it has"""
    first, second, said = REFUSED[how]
    press = Press.founded(database, "node-a", "node-b")

    def stores(first: str, second: str) -> str:
        one = f'{{kind: StorageEndpoint, id: s1, spec: {{url: "https://s1.example:1", {first}}}}}'
        return f'{WORLD}{one}\n---\n{{kind: StorageEndpoint, id: s2, spec: {{url: "https://s2.example:1", {second}}}}}'

    with pytest.raises(Refused) as caught:
        press.apply(stores(first, second))
    assert said in str(caught.value.problems)
    good = "node: node-a, organizations: [acme], replicates: [s2]", "node: node-b, organizations: [acme]"
    press.apply(stores(*good))

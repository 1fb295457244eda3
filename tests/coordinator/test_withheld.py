"""What is never signed again for a node, whatever it refuses (rules S60, S61; format.md 9)."""

from dataclasses import replace

import pytest

from coordinator.database.database import Database
from coordinator.declared.compiler import Audience
from coordinator.publishing import published_state, withheld
from coordinator.publishing.published_state import PublishedDocument
from snapshot.manifest import Revocations
from snapshot.verifier_state import VerifierState
from tests.coordinator.publishing import STATE, Press

ROUTES, WEB, RUNTIME = "route_policy", "service_assignment/web", "node_runtime"
ROLES = frozenset({"core_mesh", "egress_service"})


@pytest.fixture
def held(database: Database) -> dict[str, PublishedDocument]:
    Press.published(database, "node-a", "node-b")
    with database.read() as transaction:
        found = published_state.read_situations(transaction, ["node-a"])["node-a"].held
        for one in found.values():
            for name in one.sections:
                one.read(name)  # the reader remembers what it has read
        yield dict(found)


def holder(**changes: object) -> VerifierState:
    return replace(VerifierState("prod", "node-a", roles=ROLES, organization_ids=frozenset({"acme"})), **changes)


@pytest.mark.parametrize("scope", [ROUTES, WEB, RUNTIME, "node_bootstrap", "degraded_mode_policy"])
def test_what_stands_is_signed_again_for_those_it_was_for(held: dict[str, PublishedDocument], scope: str) -> None:
    one = held[scope]
    assert withheld.reason(one, holder()) == ""
    assert withheld.audience(one, holder()) == Audience(one.envelope.roles, one.envelope.organization_ids)


@pytest.mark.parametrize(
    ("scope", "told", "named"),
    [
        (ROUTES, {"service_ids": frozenset({"web"})}, "web"),
        (WEB, {"service_ids": frozenset({"web"})}, "web"),
        ("node_bootstrap", {"endpoints": frozenset({"https://localhost:7443"})}, "https://localhost:7443"),
    ],
)
def test_what_names_what_was_revoked(held, scope: str, told: dict[str, frozenset[str]], named: str) -> None:
    said = withheld.reason(held[scope], holder(revocations=Revocations(**told)))
    assert said == f"it names what was revoked: {named}"
    others = Revocations(service_ids=frozenset({"mail"}), node_ids=frozenset({"node-b"}))
    assert withheld.reason(held[scope], holder(revocations=others)) == ""


def test_an_entry_policy_that_names_a_service_that_was_revoked(database: Database) -> None:
    """Who may come in to it is not said anew, as little as the routes that lead there."""
    press = Press.founded(database, "node-a", "node-b")
    press.apply("{kind: Service, id: mail, spec: {organization: acme, runs_on: {nodes: [node-a]}, settings: {}}}")
    policy = "organization: acme, services: [mail], networks: [192.0.2.0/24]"
    press.apply(f"{{kind: EntryPolicy, id: office, spec: {{{policy}}}}}")
    press.publish()
    with database.read() as transaction:
        one = published_state.read_situations(transaction, ["node-b"])["node-b"].held[ROUTES]
        at = replace(holder(), node_id="node-b", roles=frozenset({"ingress"}))
        assert withheld.reason(one, at) == ""
        told = Revocations(service_ids=frozenset({"mail"}))
        assert withheld.reason(one, replace(at, revocations=told)) == "it names what was revoked: mail"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("service_ids", value) for value in ("{a: 1}", "[[web-2], {url: mail}, 1, null]", "7")),
        *((member, "[[web-2], {url: mail}, 1, null]") for member in ("service_id", "url", "coordinators")),
    ],
)
def test_settings_may_mean_something_else_by_such_a_member(database: Database, member: str, value: str) -> None:
    press = Press.founded(database, "node-a", "node-b")
    press.apply(STATE.replace("settings: {workers: 4}", f"settings: {{{member}: {value}}}"))
    press.publish()
    with database.read() as transaction:
        one = published_state.read_situations(transaction, ["node-a"])["node-a"].held[WEB]
        told = Revocations(service_ids=frozenset({"mail"}), endpoints=frozenset({"https://gone.example:1"}))
        assert withheld.reason(one, holder(revocations=told)) == ""


def test_a_peer_that_was_revoked(held: dict[str, PublishedDocument]) -> None:
    one = held["peer_directory"]
    told = Revocations(node_ids=frozenset({"node-b"}))
    names = any(b"node-b" in one.read(name) for name in one.sections)
    assert withheld.reason(one, holder(revocations=told)) == ("it names what was revoked: node-b" if names else "")


def test_an_organization_that_the_node_serves_no_more(held: dict[str, PublishedDocument]) -> None:
    said = withheld.reason(held[ROUTES], holder(organization_ids=frozenset()))
    assert said == "it is about acme, which the node serves no more"


@pytest.mark.parametrize(
    "changes",
    [
        {"roles": frozenset({"storage_config"})},
        {"revocations": Revocations(role_assignments=frozenset({"node-a/core_mesh", "node-a/egress_service"}))},
    ],
    ids=["declared otherwise", "revoked"],
)
def test_roles_that_the_node_has_no_more(held: dict[str, PublishedDocument], changes: dict[str, object]) -> None:
    assert "none of the roles" in withheld.reason(held[ROUTES], holder(**changes))


def test_one_role_of_two_is_enough_and_the_other_is_not_named(held: dict[str, PublishedDocument]) -> None:
    less = holder(roles=frozenset({"egress_service"}))
    assert withheld.reason(held[ROUTES], less) == ""
    assert withheld.audience(held[ROUTES], less).roles == ("egress_service",)


def test_what_says_what_the_node_is(held: dict[str, PublishedDocument]) -> None:
    """format.md 9: it establishes roles, so it is right in whole or not at all"""
    assert "declared otherwise" in withheld.reason(held[RUNTIME], holder(roles=frozenset({"core_mesh"})))

"""Whom a document is for, in words."""

import pytest

from holdfast.terminal.audience import EVERYBODY, describe_audience
from snapshot.envelope import SHARED


@pytest.mark.parametrize(
    ("scope", "subject", "roles", "organizations", "said"),
    [
        ("node_runtime", "gateway", ["ingress"], ["acme"], "the node gateway alone"),
        ("trust_bundle", SHARED, [], [], "every member of the cluster"),
        ("config/edge", SHARED, [], [], "every node whose head lists it"),
        ("config/edge", SHARED, [], ["acme"], "every node with the organization acme whose head lists it"),
        ("route_policy", SHARED, ["ingress"], [], "every node with the role ingress whose head lists it"),
        (
            "route_policy",
            SHARED,
            ["core_mesh", "ingress"],
            ["acme", "beta"],
            "every node with the roles core_mesh, ingress and the organizations acme, beta whose head lists it",
        ),
    ],
)
def test_every_kind_of_audience_has_words(
    scope: str, subject: str, roles: list[str], organizations: list[str], said: str
) -> None:
    assert describe_audience(scope, subject, roles, organizations) == said


def test_the_star_is_the_formats() -> None:
    assert EVERYBODY == SHARED

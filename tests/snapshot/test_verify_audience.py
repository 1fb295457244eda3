"""Step 10: what a node of these roles and organizations may hold."""

from itertools import combinations

import pytest

from snapshot.identifiers import SCOPE_TYPES
from snapshot.reasons import Reason
from snapshot.roles import ROLES
from tests.fakes.cluster import Cluster, key

# format.md 9, row by row; five types are for every node.
EVERY = {"node_bootstrap", "node_runtime", "trust_bundle", "degraded_mode_policy", "config"}
MAY_HOLD = {
    "core_mesh": {"peer_directory", "route_policy", "qos_policy", "storage_directory"},
    "ingress": {"route_policy", "service_assignment", "storage_directory"},
    "egress_service": {"service_assignment", "route_policy", "storage_directory"},
    "storage_config": {"storage_directory", "peer_directory"},
    "thin": {"route_policy", "storage_directory", "peer_directory"},
}


def offered(cluster, scope_type, **members):
    if scope_type == "trust_bundle":
        return cluster.trust_bundle(**members)
    if scope_type == "config":
        return cluster.snapshot({"files": {}}, "config/web", **members)
    return cluster.snapshot(scope=scope_type, **members)


@pytest.mark.parametrize("scope_type", SCOPE_TYPES)
@pytest.mark.parametrize("role", sorted(MAY_HOLD))
def test_each_role_and_scope_type(role, scope_type):
    """rules S17, S18, S50, S80"""
    cluster = Cluster()
    node, document = cluster.node(role), offered(cluster, scope_type)
    if scope_type in MAY_HOLD[role] | EVERY:
        node.take(document)
    else:
        node.refuses(document, 10, Reason.ROLE_NOT_ALLOWED)


def test_the_roles_are_those_of_the_format():
    """rules S17: nobody has a sixth."""
    assert set(ROLES) == set(MAY_HOLD)


@pytest.mark.parametrize("roles", [*combinations(sorted(MAY_HOLD), 2), tuple(MAY_HOLD), ("unheard-of",), ()], ids=str)
def test_several_roles_hold_the_union(roles):
    """rules S17: a role that nobody knows adds nothing, and no role is the least of them."""
    cluster = Cluster()
    node = cluster.node(*roles)
    allowed = EVERY.union(*(MAY_HOLD.get(role, set()) for role in roles))
    for scope_type in SCOPE_TYPES:
        document = offered(cluster, scope_type, roles=sorted(roles))
        if scope_type in allowed:
            node.take(document)
        else:
            assert node.refusal(document) == (10, Reason.ROLE_NOT_ALLOWED)


@pytest.mark.parametrize("kind", ["snapshot", "head", "trust_bundle"])
def test_every_role_named_is_ours(kind):
    """rules S50, S80; threats A05"""
    cluster = Cluster()
    node = cluster.node("core_mesh", "thin")
    node.refuses(getattr(cluster, kind)(roles=["core_mesh", "ingress"]), 10, Reason.ROLE_NOT_ALLOWED)
    if kind == "trust_bundle":
        cluster.versions["trust_bundle"] = 1
    node.take(getattr(cluster, kind)(roles=["core_mesh", "thin"]))


@pytest.mark.parametrize("kind", ["snapshot", "head", "trust_bundle"])
def test_every_organization_named_is_ours(kind):
    """rules S50, S79; threats A06"""
    cluster = Cluster()
    node = cluster.node("core_mesh")
    bad = getattr(cluster, kind)(organization_ids=["amber", "onyx"])
    node.refuses(bad, 10, Reason.ORGANIZATION_NOT_ALLOWED)
    if kind == "trust_bundle":
        cluster.versions["trust_bundle"] = 1
    node.take(getattr(cluster, kind)(organization_ids=["amber"]))


def test_the_role_comes_before_the_organization_and_the_scope_type():
    """rules S88"""
    cluster = Cluster()
    node = cluster.node("ingress")
    both = {"roles": ["thin"], "organization_ids": ["onyx"]}
    node.refuses(cluster.snapshot(scope="qos_policy", **both), 10, Reason.ROLE_NOT_ALLOWED)
    foreign = cluster.snapshot(scope="qos_policy", organization_ids=["onyx"])
    node.refuses(foreign, 10, Reason.ORGANIZATION_NOT_ALLOWED)


@pytest.mark.parametrize("scope", ["node_bootstrap", "node_runtime"])
def test_what_establishes_roles_is_not_tested_against_them(scope):
    """format.md 9; rules S17"""
    cluster = Cluster()
    node = cluster.node("thin", organization_ids=())
    node.refuses(cluster.snapshot(scope="qos_policy"), 10, Reason.ROLE_NOT_ALLOWED)
    node.take(cluster.snapshot(scope=scope, roles=["core_mesh"], organization_ids=["onyx"]))
    assert (node.holder.roles, node.holder.organization_ids) == ({"core_mesh"}, {"onyx"})
    node.take(cluster.snapshot(scope="qos_policy", organization_ids=["onyx"]))


def test_node_runtime_speaks_before_node_bootstrap():
    """format.md 9: whichever came last."""
    cluster = Cluster()
    node = cluster.node()
    node.take(cluster.snapshot(scope="node_runtime", roles=["ingress"]))
    node.take(cluster.snapshot(scope="node_bootstrap", roles=["core_mesh"]))
    assert node.holder.roles == {"ingress"}


def test_an_ingress_gets_no_internal_topology():
    """rules S18: not even where a key may sign it and the peers would be few."""
    cluster = Cluster()
    node = cluster.node("ingress")
    peers = cluster.snapshot({"peers": {}}, "peer_directory", roles=["ingress"])
    node.refuses(peers, 10, Reason.ROLE_NOT_ALLOWED)


def test_the_signer_does_not_widen_what_a_node_may_hold():
    """rules S50: two config signatures say no more than one."""
    cluster = Cluster()
    both = cluster.snapshot(scope="service_assignment", keys=[key("config-1"), key("config-2")])
    cluster.node("core_mesh").refuses(both, 10, Reason.ROLE_NOT_ALLOWED)

"""Scope types for each role (format.md 9)."""

import itertools

import pytest

from snapshot.identifiers import SCOPE_TYPES
from snapshot.roles import ROLES, allowed_scope_types, most_peers

EVERY = {"node_bootstrap", "node_runtime", "trust_bundle", "degraded_mode_policy", "config"}
TABLE = {
    "core_mesh": {"peer_directory", "route_policy", "qos_policy", "storage_directory"},
    "ingress": {"route_policy", "service_assignment", "storage_directory"},
    "egress_service": {"service_assignment", "route_policy", "storage_directory"},
    "storage_config": {"storage_directory", "peer_directory"},
    "thin": {"route_policy", "storage_directory", "peer_directory"},
}


@pytest.mark.parametrize("role", TABLE)
def test_each_role(role):
    """rules S17"""
    assert allowed_scope_types([role]) == EVERY | TABLE[role]


def test_no_role_and_an_unknown_one_hold_what_every_node_holds():
    assert allowed_scope_types([]) == allowed_scope_types(["gardener"]) == EVERY


@pytest.mark.parametrize("roles", list(itertools.combinations(TABLE, 2)), ids="+".join)
def test_several_roles_are_the_union(roles):
    """rules S17"""
    assert allowed_scope_types(roles) == EVERY.union(*(TABLE[role] for role in roles))


def test_the_table_is_whole():
    assert ROLES.keys() == TABLE.keys()
    assert EVERY.union(*TABLE.values()) == set(SCOPE_TYPES)


BOUNDS = [([], None), (["thin"], 16), (["thin", "ingress"], 16), (["thin", "core_mesh"], None)]
BOUNDS += [(["thin", "storage_config"], None), (["ingress"], None), (["thin", "gardener"], 16)]


@pytest.mark.parametrize(("roles", "most"), BOUNDS, ids=str)
def test_a_thin_node_has_16_peers_where_no_other_role_grants_them(roles, most):
    """rules S21; format.md 10"""
    assert most_peers(roles) == most

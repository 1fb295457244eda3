"""Which scope types a role may hold (format.md 9)."""

from collections.abc import Iterable

EVERY_NODE = frozenset({"node_bootstrap", "node_runtime", "trust_bundle", "degraded_mode_policy", "config"})
# These two establish a node's roles and organizations, and are not tested against them.
ESTABLISHING = frozenset({"node_bootstrap", "node_runtime"})

ROLES: dict[str, frozenset[str]] = {
    "core_mesh": frozenset({"peer_directory", "route_policy", "qos_policy", "storage_directory"}),
    "ingress": frozenset({"route_policy", "service_assignment", "storage_directory"}),
    "egress_service": frozenset({"service_assignment", "route_policy", "storage_directory"}),
    "storage_config": frozenset({"storage_directory", "peer_directory"}),
    "thin": frozenset({"route_policy", "storage_directory", "peer_directory"}),
}
THIN_PEERS = 16


def allowed_scope_types(roles: Iterable[str]) -> frozenset[str]:
    """The union over the roles; an unknown role adds nothing."""
    return EVERY_NODE.union(*(ROLES.get(role, frozenset()) for role in roles))


def most_peers(roles: Iterable[str]) -> int | None:
    """The bound on a peer directory: `thin` has one where no other role of ours grants the type; None is no bound."""
    granting = {role for role in roles if "peer_directory" in ROLES.get(role, frozenset())}
    return THIN_PEERS if granting == {"thin"} else None

"""Which role each route of operators needs: this table, and nothing beside it.

A route that is not in it needs `admin`: who adds one and forgets this is told by a test, and until then nobody may more
than before. Who comes in by the admin socket is root or the service's own user, and `admin`.
"""

from collections.abc import Mapping

from wire.operators.operator_roles import OperatorRole
from wire.routes import HttpRoute

_BY_ROLE: Mapping[OperatorRole, tuple[str, ...]] = {
    OperatorRole.VIEWER: (
        "GET /v1/allowlist",
        "GET /v1/audit",
        "GET /v1/audit/verify",
        "GET /v1/audit/verify/{table}",
        "GET /v1/changes",
        "GET /v1/changes/{change}",
        "GET /v1/changes/{change}/diff",
        "GET /v1/changes/{change}/wait",
        "GET /v1/coordinators",
        "GET /v1/coordinators/ca",
        "GET /v1/coordinators/recover",
        "GET /v1/coordinators/status",
        "GET /v1/diff",
        "GET /v1/drill/outage",
        "GET /v1/due",
        "GET /v1/fleet",
        "GET /v1/invitation",
        "GET /v1/keys",
        "GET /v1/nodes",
        "GET /v1/nodes/{node_id}",
        "GET /v1/nodes/{node_id}/events",
        "GET /v1/nodes/{node_id}/explain",
        "GET /v1/nodes/{node_id}/explain/{scope}",
        "GET /v1/nodes/{node_id}/versions/{scope}",
        "GET /v1/operators",
        "GET /v1/resources",
        "GET /v1/resources/{kind}/{id}",
        "GET /v1/revocations",
        "GET /v1/rotation",
        "GET /v1/status",
        "GET /v1/storage",
        "GET /v1/tokens",
        "GET /v1/trim",
        "GET /v1/trust",
    ),
    OperatorRole.AUTHOR: (
        "POST /v1/apply",
        "POST /v1/changes/{change}/halt",
        "POST /v1/changes/{change}/resume",
        "POST /v1/changes/{change}/revert",
        "POST /v1/contents",
        "POST /v1/contents/missing",
        "PUT /v1/contents/{sha256}",
    ),
    OperatorRole.APPROVER: ("POST /v1/changes/{change}/approve",),
    OperatorRole.ADMIN: (
        "DELETE /v1/allowlist/{node_id}",
        "DELETE /v1/coordinators/ca/{fingerprint}",
        "DELETE /v1/coordinators/{coordinator_id}",
        "DELETE /v1/operators/{name}",
        "DELETE /v1/revocations/{category}/{value}",
        "DELETE /v1/tokens/{jti}",
        "POST /v1/allowlist/{node_id}",
        "POST /v1/coordinators/ca/begin",
        "POST /v1/coordinators/ca/cancel",
        "POST /v1/coordinators/ca/finish",
        "POST /v1/coordinators/commit",  # and as many root keys as a trust bundle takes
        "POST /v1/coordinators/recover",
        "POST /v1/coordinators/set",
        "POST /v1/coordinators/shares",
        "POST /v1/nodes/{node_id}/drain",
        "POST /v1/nodes/{node_id}/readmit",
        "POST /v1/nodes/{node_id}/remove",
        "POST /v1/nodes/{node_id}/remove/forced",  # and as many root keys as a trust bundle takes
        "POST /v1/nodes/{node_id}/revoke",
        "POST /v1/nodes/{node_id}/undrain",
        "POST /v1/operators/{name}",
        "POST /v1/operators/{name}/role",
        "POST /v1/publish",
        "POST /v1/recoveries",
        "POST /v1/recoveries/requests",
        "POST /v1/revocations",
        "POST /v1/tokens",
        "POST /v1/trim",
        "POST /v1/trust",
        "POST /v1/trust/requests",
    ),
}
NEEDED = {route: role for role, routes in _BY_ROLE.items() for route in routes}


def name_of(route: HttpRoute) -> str:
    return f"{route.method} {route.template}"


def role_for(route: HttpRoute) -> OperatorRole:
    return NEEDED.get(name_of(route), OperatorRole.ADMIN)

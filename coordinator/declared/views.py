"""What one node may know, scope by scope (seed 001 section 5; format.md 9, 10). Pure: model in, sections out.

    scopes(model, subject)            the scopes that are compiled for a member
    sections(model, node_id, scope)   one of them: {name: JSON value}

Services have a scope each, so that one of them is accepted, expires and is withdrawn by itself; of every other type
there is one scope a node.

The same model gives the same sections, in whatever order it was put together. Nothing of an organization that a node
does not serve is in its views, no raw secret can be in the model, and peers are bounded. `trust_bundle` is not a view:
root keys sign it, the coordinator passes it on.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache

from coordinator.declared import peers
from coordinator.declared.kinds import DegradedModePolicy, Route, Service
from coordinator.declared.model import Kind, Model, Subject, selects
from coordinator.declared.sharding import split
from snapshot.identifiers import Scope
from snapshot.roles import allowed_scope_types

Sections = dict[str, object]

SERVICES = "service_assignment"

# A witness holds these alone (rules J27), with the trust bundle.
WITNESS_SCOPES = frozenset({"node_bootstrap", "degraded_mode_policy"})


def scope_types(subject: Subject) -> tuple[str, ...]:
    """The scope types that are compiled for this member, sorted."""
    return _scope_types(subject.member.kind, subject.roles)


@lru_cache(maxsize=1_024)
def _scope_types(kind: str, roles: tuple[str, ...]) -> tuple[str, ...]:
    """Thousands of members are asked at each change, and few differ in this."""
    if kind == "witness":
        return tuple(sorted(WITNESS_SCOPES))
    return tuple(sorted(allowed_scope_types(roles) - {"trust_bundle"}))


def scopes(model: Model, subject: Subject) -> tuple[Scope, ...]:
    """The scopes that are compiled for this member, sorted."""
    found: list[Scope] = []
    for scope_type in scope_types(subject):
        found += scopes_of_type(model, subject, scope_type)
    return tuple(found)


def scopes_of_type(model: Model, subject: Subject, scope_type: str) -> tuple[Scope, ...]:
    """Those of a type that it may hold: one a service, else one."""
    if scope_type == SERVICES:
        return tuple(Scope(SERVICES, (service_id,)) for service_id in _assigned(model, subject))
    return (Scope(scope_type),)


def holds(model: Model, subject: Subject, scope: Scope) -> bool:
    """Whether it is compiled for this member."""
    if scope.type not in scope_types(subject):
        return False
    if scope.type != SERVICES:
        return not scope.ids
    service = model.services.get(scope.ids[0]) if len(scope.ids) == 1 else None
    return service is not None and is_assigned(service, subject)


def sections(model: Model, node_id: str, scope: Scope) -> Sections:
    """KeyError for a node that is no member or a scope that it may not hold."""
    subject = model.subjects[node_id]
    if not holds(model, subject, scope):
        raise KeyError(f"{node_id} may not hold {scope.name}")
    if scope.type == SERVICES:
        return _service(model, subject, model.services[scope.ids[0]])
    return _VIEWS[scope.type](model, subject)


def all_sections(model: Model, node_id: str) -> dict[Scope, Sections]:
    """Every scope of one member."""
    return {scope: sections(model, node_id, scope) for scope in scopes(model, model.subjects[node_id])}


def _node_bootstrap(model: Model, subject: Subject) -> Sections:
    cluster = model.cluster
    return {
        "cluster": {"cluster_id": model.cluster_id, "coordinators": list(cluster.coordinators) if cluster else []},
        "node": {"node_id": subject.node_id, "kind": subject.member.kind, "site_id": subject.member.site_id},
    }


def _node_runtime(_model: Model, subject: Subject) -> Sections:
    declared = subject.declared
    return {
        "node": {
            "node_id": subject.node_id,
            "kind": subject.member.kind,
            "site_id": subject.member.site_id,
            "roles": list(subject.roles),
            "organizations": list(subject.organizations),
            "addresses": list(declared.addresses),
            "labels": dict(declared.labels),
        }
    }


def _peer_directory(model: Model, subject: Subject) -> Sections:
    return split("peers", {peer.node_id: _peer(peer) for peer in peers.chosen(model, subject)})


def _peer(peer: Subject) -> dict[str, object]:
    """What is needed to reach and to recognise a peer: nothing of its roles, tenants or labels."""
    return {
        "site_id": peer.member.site_id,
        "addresses": list(peer.declared.addresses),
        "url": peer.member.direct_url,
        "certificates": [base64.b64encode(der).decode() for der in peer.member.certificates],
    }


def _assigned(model: Model, subject: Subject) -> tuple[str, ...]:
    """The services that it runs or is shown. Asked at each renewal, so it is worked out once for a model."""
    found = model.assigned.get(subject.node_id)
    if found is None:
        of_its_own = (each for one in subject.organizations for each in model.services_of.get(one, ()))
        found = tuple(sorted(each.id for each in of_its_own if is_assigned(each, subject)))
        model.assigned[subject.node_id] = found
    return found


def _service(model: Model, subject: Subject, service: Service) -> Sections:
    if runs(service, subject):
        return {"services": {service.id: _once(model, "workload", service, _workload)}}
    return {"services": {service.id: _once(model, "projection", service, _projection)}}


def _once(model: Model, what: str, resource: Kind, write: Callable[[Kind], object]) -> object:
    """Thousands of nodes may know one resource: it is written out once for a model."""
    key = (what, resource.id)
    if key not in model.written:
        model.written[key] = write(resource)
    return model.written[key]


def runs(service: Service, subject: Subject) -> bool:
    return (
        "egress_service" in subject.roles and subject.serves(service.organization) and selects(service.runs_on, subject)
    )


def is_assigned(service: Service, subject: Subject) -> bool:
    """Whether the node is told of a service at all."""
    return runs(service, subject) or is_projected(service, subject)


def is_projected(service: Service, subject: Subject) -> bool:
    """An ingress node learns where the exposed endpoints are, and nothing else of a service."""
    exposed = any(endpoint.exposed for endpoint in service.endpoints)
    return exposed and "ingress" in subject.roles and subject.serves(service.organization)


def _workload(service: Service) -> dict[str, object]:
    return {
        "organization_id": service.organization,
        "workload": service.workload,
        "endpoints": [asdict(endpoint) for endpoint in service.endpoints],
        "settings": service.settings,
    }


def _projection(service: Service) -> dict[str, object]:
    endpoints = [asdict(endpoint) for endpoint in service.endpoints if endpoint.exposed]
    return {"organization_id": service.organization, "endpoints": endpoints}


def _route_policy(model: Model, subject: Subject) -> Sections:
    entries: dict[str, object] = {}
    for organization in subject.organizations:
        for route in model.routes_of.get(organization, ()):
            if takes(route, model.services.get(route.service), subject):
                entries[route.id] = _once(model, "route", route, _route)
    return split("routes", entries)


def takes(route: Route, service: Service | None, subject: Subject) -> bool:
    """Whether a node has to know a route, for any of its roles."""
    if not subject.serves(route.organization):
        return False
    if "core_mesh" in subject.roles or "thin" in subject.roles:
        return True
    if "ingress" in subject.roles and selects(route.enters_at, subject):
        return True
    return service is not None and runs(service, subject)


def _route(route: Route) -> dict[str, object]:
    match = {**asdict(route.match), "hosts": list(route.match.hosts)}
    entry = {"organization_id": route.organization, "service_id": route.service, "match": match, "ttl_s": route.ttl_s}
    return {**entry, "qos_policy_id": route.qos} if route.qos else entry


def _qos_policy(model: Model, subject: Subject) -> Sections:
    entries: dict[str, object] = {}
    for policy in model.qos_policies:
        if not policy.organization or subject.serves(policy.organization):
            entry: dict[str, object] = {"classes": {name: asdict(each) for name, each in policy.classes.items()}}
            owner = {"organization_id": policy.organization} if policy.organization else {}
            entries[policy.id] = {**owner, **entry}
    return {"policies": entries}


def _storage_directory(model: Model, subject: Subject) -> Sections:
    """`endpoints` is for everybody; a storage_config node is also told what it runs itself."""
    endpoints = {
        each.id: {"url": each.url} for each in model.storage_endpoints if subject.serves_any(each.organizations)
    }
    if "storage_config" not in subject.roles:
        return {"endpoints": endpoints}
    own = {
        each.id: {"url": each.url, "families": list(each.families), "replicates": list(each.replicates)}
        for each in model.storage_endpoints
        if each.node == subject.node_id
    }
    return {"endpoints": endpoints, "shards": own}


def _degraded_mode_policy(model: Model, subject: Subject) -> Sections:
    policy = degraded_policy(model, subject)
    return {} if policy is None else {"policy": policy_value(policy)}  # rules S58: as no policy


def policy_value(policy: DegradedModePolicy) -> dict[str, object]:
    """As the node reads it."""
    return {
        "allow": list(policy.allow),
        "max_duration_s": policy.max_duration_s,
        "route_ttl_s": policy.route_ttl_s,
        "session_ttl_s": policy.session_ttl_s,
        "allow_unconfirmed_start": policy.allow_unconfirmed_start,
    }


def degraded_policy(model: Model, subject: Subject) -> DegradedModePolicy | None:
    return next((each for each in model.degraded_policies if selects(each.applies_to, subject)), None)


_VIEWS: Mapping[str, Callable[[Model, Subject], Sections]] = {
    "node_bootstrap": _node_bootstrap,
    "node_runtime": _node_runtime,
    "peer_directory": _peer_directory,
    "route_policy": _route_policy,
    "qos_policy": _qos_policy,
    "storage_directory": _storage_directory,
    "degraded_mode_policy": _degraded_mode_policy,
}

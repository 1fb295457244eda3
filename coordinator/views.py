"""What one node may know, scope type by scope type (seed 001 section 5; format.md 9, 10). Pure: model in, sections out.

The same model gives the same sections, in whatever order it was put together. Nothing of an organization that a node
does not serve is in its views, no raw secret can be in the model, and peers are bounded. `trust_bundle` is not a view:
root keys sign it, the coordinator passes it on.
"""

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache

from coordinator import peers
from coordinator.kinds import DegradedModePolicy, Route, Service
from coordinator.model import Kind, Model, Subject, selects
from coordinator.parts import split
from snapshot.roles import allowed_scope_types

Sections = dict[str, object]

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


def sections(model: Model, node_id: str, scope_type: str) -> Sections:
    """The sections of one scope for one member: {name: JSON value}.

    KeyError for a node that is no member or a scope type that it may not hold.
    """
    subject = model.subjects[node_id]
    if scope_type not in scope_types(subject):
        raise KeyError(f"{node_id} may not hold {scope_type}")
    return _VIEWS[scope_type](model, subject)


def all_sections(model: Model, node_id: str) -> dict[str, Sections]:
    """Every scope of one member, by scope type."""
    return {scope_type: sections(model, node_id, scope_type) for scope_type in scope_types(model.subjects[node_id])}


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


def _service_assignment(model: Model, subject: Subject) -> Sections:
    entries: dict[str, object] = {}
    for organization in subject.organizations:
        for service in model.services_of.get(organization, ()):
            if runs(service, subject):
                entries[service.id] = _once(model, "workload", service, _workload)
            elif is_projected(service, subject):
                entries[service.id] = _once(model, "projection", service, _projection)
    return split("services", entries)


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
    if policy is None:
        return {}  # rules S58: as no policy
    return {
        "policy": {
            "allow": list(policy.allow),
            "max_duration_s": policy.max_duration_s,
            "route_ttl_s": policy.route_ttl_s,
            "session_ttl_s": policy.session_ttl_s,
            "allow_unconfirmed_start": policy.allow_unconfirmed_start,
        }
    }


def degraded_policy(model: Model, subject: Subject) -> DegradedModePolicy | None:
    return next((each for each in model.degraded_policies if selects(each.applies_to, subject)), None)


_VIEWS: Mapping[str, Callable[[Model, Subject], Sections]] = {
    "node_bootstrap": _node_bootstrap,
    "node_runtime": _node_runtime,
    "peer_directory": _peer_directory,
    "service_assignment": _service_assignment,
    "route_policy": _route_policy,
    "qos_policy": _qos_policy,
    "storage_directory": _storage_directory,
    "degraded_mode_policy": _degraded_mode_policy,
}

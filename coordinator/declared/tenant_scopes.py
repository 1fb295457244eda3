"""The scope types that say what organizations have declared: services and what they go out by, routes, who comes in,
sessions of thin nodes, classes of traffic, and mirrors. Pure.
"""

from collections.abc import Hashable
from dataclasses import asdict

from coordinator.declared.assignment import (
    copied_stores,
    copying_nodes,
    enters,
    enters_by,
    first_that_binds,
    is_assigned,
    is_bound_by,
    runs,
    store_partners,
    takes,
    used_resources,
)
from coordinator.declared.kinds import (
    EgressResource,
    EntryPolicy,
    QosPolicy,
    Resource,
    Route,
    Service,
    SessionPolicy,
    StorageEndpoint,
    TokenIssuer,
)
from coordinator.declared.model import Model, Subject
from coordinator.declared.scope_view import (
    DRAINING,
    MEMBER,
    ScopeView,
    Sections,
    ValueOrigin,
    encode_pins,
    resource_of,
    split,
    way_of_selection,
    write_once,
)
from snapshot.egress import RESOURCES
from snapshot.identifiers import Scope
from snapshot.mirrors import Mirror, MirrorTls, mirror_entry
from wire.certificate import pem_chain_to_der
from wire.operators.fleet_answers import DeclaredSource

SERVICES = "service_assignment"
ENTRY_POLICIES, SESSION_POLICIES = "entry_policies", "session_policies"
REPLICATION_SOURCES, REPLICATION_READERS = "replication_sources", "replication_readers"
MOST_NAMED = 10  # scopes in a sentence


class ServiceAssignment(ScopeView):
    """Services have a scope each, so that one of them is accepted, expires and is withdrawn by itself.

    What a service goes out by stands beside it. It is no kind that is shown: it is said where the services are that
    name it, and change_impact.py looks for these.
    """

    TYPE = SERVICES
    SHOWN = (Service,)

    def scopes(self, model: Model, subject: Subject) -> tuple[Scope, ...]:
        return tuple(Scope(SERVICES, (service_id,)) for service_id in _assigned_services(model, subject))

    def has(self, model: Model, subject: Subject, scope: Scope) -> bool:
        service = model.services.get(scope.ids[0]) if len(scope.ids) == 1 else None
        return service is not None and is_assigned(service, subject)

    def scope_of(self, resource: Resource) -> Scope:
        return Scope(SERVICES, (resource.id,))

    def sections(self, model: Model, subject: Subject, scope: Scope) -> Sections:
        service = model.services[scope.ids[0]]
        if runs(service, subject):
            found = used_resources(service, model.egress_resources)
            used: dict[str, object] = {
                resource.id: write_once(model, "egress", resource, _egress_resource) for resource in found
            }
            workload = {service.id: write_once(model, "workload", service, _workload)}
            return {**({RESOURCES: used} if used else {}), "services": workload}
        return {"services": {service.id: write_once(model, "projection", service, _projection)}}

    def alike(self, model: Model, subject: Subject, scope: Scope) -> Hashable:
        """Each has a document of its own, and thousands may run one service."""
        return subject.roles, runs(model.services[scope.ids[0]], subject)

    def concerns(self, _model: Model, resource: Resource, subject: Subject) -> bool:
        return isinstance(resource, Service) and is_assigned(resource, subject)

    def origin(self, model: Model, subject: Subject, scope: Scope, section: str, entry: str) -> ValueOrigin:
        if section == RESOURCES:
            named = entry in model.services[scope.ids[0]].resources
            because = f"Service {scope.ids[0]} names it" if named else "a connector of what the service names"
            return ValueOrigin(because, (DeclaredSource(EgressResource.KIND, entry),))
        service = resource_of(model, Service, entry)
        if runs(service, subject):
            because = f"it runs here: runs_on selects {way_of_selection(service.runs_on, subject)}"
        else:
            because = f"its exposed endpoints are for ingress nodes of {service.organization}"
        return ValueOrigin(because, (DeclaredSource(Service.KIND, entry),))

    def why_not(self, model: Model, subject: Subject, scope: Scope) -> str:
        if len(scope.ids) != 1:
            names = ", ".join(scope.name for scope in self.scopes(model, subject)[:MOST_NAMED])
            return f"each service has a scope of its own: {names or 'none is for this node'}"
        service = model.services.get(scope.ids[0])
        if service is None:
            return f"no Service {scope.ids[0]} is declared"
        if not subject.serves(service.organization):
            return f"the node does not serve {service.organization}, whose service it is"
        if not subject.may_get(service.key):
            return DRAINING
        return (
            f"Service {service.id} does not run here (runs_on), and has no exposed endpoint that this node has to know"
        )


class RoutePolicy(ScopeView):
    """The routes that a node has to know, at an entrance who may come in, and of a thin node the sessions. Where a
    service runs its routes are known, so services are shown, too.
    """

    TYPE = "route_policy"
    SHOWN = (Route, Service, EntryPolicy, SessionPolicy)

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        routes, told = self._entries(model, subject)
        return {**{name: policies for name, policies in told.items() if policies}, **split("routes", routes)}

    def alike(self, model: Model, subject: Subject, _scope: Scope) -> Hashable:
        """Which entries they have: each is written once for a model."""
        routes, told = self._entries(model, subject)
        return subject.roles, tuple(routes), *(tuple(policies) for policies in told.values())

    def _entries(self, model: Model, subject: Subject) -> tuple[dict[str, object], dict[str, dict[str, object]]]:
        """The routes, and the policies by section."""
        routes: dict[str, object] = {}
        for organization in subject.organizations:
            for route in model.routes_of.get(organization, ()):
                if takes(route, model.services.get(route.service), subject):
                    routes[route.id] = write_once(model, "route", route, _route)
        return routes, {
            ENTRY_POLICIES: _entry_policies(model, subject),
            SESSION_POLICIES: _session_policies(model, subject),
        }

    def is_common(self, _model: Model, _subject: Subject, _scope: Scope) -> bool:
        return True

    def concerns(self, model: Model, resource: Resource, subject: Subject) -> bool:
        if isinstance(resource, EntryPolicy):
            return enters(resource, subject)
        if isinstance(resource, SessionPolicy):
            return is_bound_by(resource, subject)
        if isinstance(resource, Service):
            return is_assigned(resource, subject)
        return isinstance(resource, Route) and takes(resource, model.services.get(resource.service), subject)

    def origin(self, model: Model, subject: Subject, _scope: Scope, section: str, entry: str) -> ValueOrigin:
        if section == ENTRY_POLICIES:
            policy = resource_of(model, EntryPolicy, entry)
            because = f"clients enter here: enters_at selects {way_of_selection(policy.enters_at, subject)}"
            return ValueOrigin(because, (DeclaredSource(EntryPolicy.KIND, entry),))
        if section == SESSION_POLICIES:
            bounds = resource_of(model, SessionPolicy, entry)
            chosen = f"it selects {way_of_selection(bounds.applies_to, subject)}"
            because = f"of priority {bounds.priority}, the first of {bounds.organization} that applies: {chosen}"
            return ValueOrigin(because, (DeclaredSource(SessionPolicy.KIND, entry),))
        return ValueOrigin(_why_route(resource_of(model, Route, entry), subject), (DeclaredSource(Route.KIND, entry),))


class QosPolicies(ScopeView):
    """Classes of traffic: those of the node's organizations, and everybody's."""

    TYPE = "qos_policy"
    SHOWN = (QosPolicy,)

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        return {
            "policies": {
                policy.id: _classes(policy) for policy in model.qos_policies if self.concerns(model, policy, subject)
            }
        }

    def is_common(self, _model: Model, _subject: Subject, _scope: Scope) -> bool:
        return True

    def alike(self, _model: Model, subject: Subject, _scope: Scope) -> Hashable:
        return subject.roles, subject.organizations

    def concerns(self, _model: Model, resource: Resource, subject: Subject) -> bool:
        if not isinstance(resource, QosPolicy):
            return False
        return not resource.organization or subject.serves(resource.organization)

    def origin(self, model: Model, _subject: Subject, _scope: Scope, _section: str, entry: str) -> ValueOrigin:
        policy = resource_of(model, QosPolicy, entry)
        of = f"of {policy.organization}, which the node serves" if policy.organization else "of all organizations"
        return ValueOrigin(of, (DeclaredSource(QosPolicy.KIND, entry),))


class StorageDirectory(ScopeView):
    """`endpoints` is for everybody; a storage_config node is also told what it runs itself, from whom that copies and
    who copies from it.
    """

    TYPE = "storage_directory"
    SHOWN = (StorageEndpoint,)

    def sections(self, model: Model, subject: Subject, _scope: Scope) -> Sections:
        endpoints = {
            endpoint.id: mirror_entry(_mirror(endpoint))
            for endpoint in model.storage_endpoints
            if subject.serves_any(endpoint.organizations)
        }
        if "storage_config" not in subject.roles:
            return {"endpoints": endpoints}
        own = {
            endpoint.id: {
                "url": endpoint.url,
                "families": list(endpoint.families),
                "organizations": list(endpoint.organizations),
                "replicates": list(endpoint.replicates),
            }
            for endpoint in model.storage_endpoints
            if endpoint.node == subject.node_id
        }
        copied = {
            endpoint.id: {"url": endpoint.url, "certificates": encode_pins(model.members[endpoint.node])}
            for endpoint in copied_stores(model, subject.node_id)
        }
        readers = {
            node_id: {"certificates": encode_pins(model.members[node_id])}
            for node_id in copying_nodes(model, subject.node_id)
        }
        told = {REPLICATION_SOURCES: copied, REPLICATION_READERS: readers}
        return {"endpoints": endpoints, "shards": own, **{name: entries for name, entries in told.items() if entries}}

    def is_common(self, _model: Model, subject: Subject, _scope: Scope) -> bool:
        return "storage_config" not in subject.roles  # what it runs is its own

    def alike(self, model: Model, subject: Subject, scope: Scope) -> Hashable | None:
        return (subject.roles, subject.organizations) if self.is_common(model, subject, scope) else None

    def concerns(self, model: Model, resource: Resource, subject: Subject) -> bool:
        if not isinstance(resource, StorageEndpoint):
            return False
        if subject.serves_any(resource.organizations) or resource.node == subject.node_id:
            return True
        return subject.node_id in store_partners(model, resource)

    def origin(self, model: Model, subject: Subject, _scope: Scope, section: str, entry: str) -> ValueOrigin:
        if section == REPLICATION_READERS:
            return ValueOrigin("a store that it runs copies from one of this node", (DeclaredSource(MEMBER, entry),))
        endpoint = resource_of(model, StorageEndpoint, entry)
        if section == REPLICATION_SOURCES:
            sources = DeclaredSource(StorageEndpoint.KIND, entry), DeclaredSource(MEMBER, endpoint.node)
            return ValueOrigin("a store of this node copies from it", sources)
        if section == "shards":
            because = "it is run by this node"
        elif endpoint.organizations:
            because = f"for nodes that serve {', '.join(filter(subject.serves, endpoint.organizations))}"
        else:
            because = "for every node"
        return ValueOrigin(because, (DeclaredSource(StorageEndpoint.KIND, entry),))


def _mirror(endpoint: StorageEndpoint) -> Mirror:
    if endpoint.system_roots:
        return Mirror(endpoint.url, MirrorTls(system_roots=True))
    if endpoint.authorities:
        return Mirror(endpoint.url, MirrorTls(authorities=frozenset(pem_chain_to_der(endpoint.authorities.encode()))))
    if endpoint.certificates:
        return Mirror(endpoint.url, MirrorTls(certificates=frozenset(endpoint.certificates)))
    return Mirror(endpoint.url)


def _assigned_services(model: Model, subject: Subject) -> tuple[str, ...]:
    """The services that it runs or is shown. Asked at each renewal, so it is worked out once for a model."""
    found = model.assigned.get(subject.node_id)
    if found is None:
        of_its_own = (
            service for organization in subject.organizations for service in model.services_of.get(organization, ())
        )
        found = tuple(sorted(service.id for service in of_its_own if is_assigned(service, subject)))
        model.assigned[subject.node_id] = found
    return found


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


def _route(route: Route) -> dict[str, object]:
    match = {**asdict(route.match), "hosts": list(route.match.hosts)}
    entry = {"organization_id": route.organization, "service_id": route.service, "match": match, "ttl_s": route.ttl_s}
    return {**entry, "qos_policy_id": route.qos} if route.qos else entry


def _entry_policies(model: Model, subject: Subject) -> dict[str, object]:
    """By which clients come in at the node."""
    found = (
        policy for organization in subject.organizations for policy in model.entry_policies_of.get(organization, ())
    )
    return {
        policy.id: write_once(model, "entry policy", policy, _entry_policy)
        for policy in found
        if enters(policy, subject)
    }


def _session_policies(model: Model, subject: Subject) -> dict[str, object]:
    """At most one for each organization of a thin node."""
    found = (
        first_that_binds(model.session_policies_of.get(organization, ()), subject)
        for organization in subject.organizations
    )
    return {
        policy.id: write_once(model, "session policy", policy, _session_policy)
        for policy in found
        if policy is not None
    }


def _session_policy(policy: SessionPolicy) -> dict[str, object]:
    tunnel = policy.tunnel
    lists = {"networks": list(tunnel.networks), "dns": list(tunnel.dns), "domains": list(tunnel.domains)}
    return {
        "organization_id": policy.organization,
        "session": asdict(policy.session),
        "tunnel": {"mode": tunnel.mode, **lists},
    }


def _egress_resource(resource: EgressResource) -> dict[str, object]:
    entry: dict[str, object] = {
        "organization_id": resource.organization,
        "type": resource.type,
        "settings": resource.settings,
    }
    return {**entry, "connector_id": resource.connector} if resource.connector else entry


def _entry_policy(policy: EntryPolicy) -> dict[str, object]:
    return {
        "organization_id": policy.organization,
        "service_ids": list(policy.services),
        "networks": list(policy.networks),
        "issuers": [
            {"issuer": issuer.issuer, "audiences": list(issuer.audiences), **_public_keys(issuer)}
            for issuer in policy.issuers
        ],
    }


def _public_keys(issuer: TokenIssuer) -> dict[str, object]:
    return {"jwks": issuer.jwks} if issuer.jwks_in is None else {"jwks_in": asdict(issuer.jwks_in)}


def _classes(policy: QosPolicy) -> dict[str, object]:
    owner = {"organization_id": policy.organization} if policy.organization else {}
    return {**owner, "classes": {name: asdict(class_) for name, class_ in policy.classes.items()}}


def _why_route(route: Route, subject: Subject) -> str:
    """In the order of `assignment.takes`."""
    every = [role for role in ("core_mesh", "thin") if role in subject.roles]
    if every:
        return f"a {every[0]} node knows every route of {route.organization}"
    if enters_by(route, subject):
        return f"it enters here: enters_at selects {way_of_selection(route.enters_at, subject)}"
    return f"Service {route.service} runs here"

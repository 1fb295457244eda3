"""Where each entry of a scope comes from: what its value is made of, and why it is there (format.md 9). Pure.

    origin(model, subject, scope, section, entry)    of one member of one section that the view holds
    origins(model, node_id, scope)                   {section: {entry: Origin}}, of all of them

`sources` name everything that the value is written from, and nothing else: where the value changes while the entry
stays, one of them has changed. A property test holds that against the views. What only decides whether the entry is
there at all (a selector, a service that runs here) is said in `because`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from coordinator.declared import peers, views
from coordinator.declared.kinds import (
    Cluster,
    DegradedModePolicy,
    Node,
    QosPolicy,
    Route,
    Selector,
    Service,
    StorageEndpoint,
)
from coordinator.declared.model import Kind, Model, Subject, selects
from snapshot.identifiers import Scope

MEMBER = "member"  # no declared resource: the entry of who has joined


@dataclass(frozen=True)
class DeclaredSource:
    """A declared resource by its kind and id, or (kind `member`) what a member's entry in the catalog says."""

    kind: str
    id: str


@dataclass(frozen=True)
class ValueOrigin:
    """`sources`: empty where nobody declares the value."""

    because: str
    sources: tuple[DeclaredSource, ...] = ()


def origins(model: Model, node_id: str, scope: Scope) -> dict[str, dict[str, ValueOrigin]]:
    """KeyError as `views.sections`."""
    subject = model.subjects[node_id]
    return {
        section: {entry: origin(model, subject, scope, section, entry) for entry in value}
        for section, value in views.sections(model, node_id, scope).items()
        if isinstance(value, dict)
    }


def origin(model: Model, subject: Subject, scope: Scope, section: str, entry: str) -> ValueOrigin:
    return _ORIGINS[scope.type](model, subject, section, entry)


def _node_bootstrap(model: Model, subject: Subject, section: str, entry: str) -> ValueOrigin:
    if section == "node":
        return _membership(subject)
    if entry == "cluster_id":
        return ValueOrigin("the cluster's id, since `init`")
    if model.cluster is None:
        return ValueOrigin("no Cluster is declared")
    return ValueOrigin("where nodes check in", (DeclaredSource(Cluster.KIND, model.cluster.id),))


def _node_runtime(model: Model, subject: Subject, _section: str, entry: str) -> ValueOrigin:
    if entry in ("node_id", "kind", "site_id"):
        return _membership(subject)
    if entry in ("roles", "organizations") and subject.member.kind == "witness":
        return ValueOrigin("a witness has none (rules J27)", (DeclaredSource(MEMBER, subject.node_id),))
    declared = _declared_node(model, subject)
    return ValueOrigin("as the Node is declared" if declared else "no such Node is declared (rules J8)", declared)


def _membership(subject: Subject) -> ValueOrigin:
    return ValueOrigin("its entry, as it was admitted", (DeclaredSource(MEMBER, subject.node_id),))


def _declared_node(model: Model, subject: Subject) -> tuple[DeclaredSource, ...]:
    key = (Node.KIND, subject.node_id)
    return (DeclaredSource(*key),) if key in model.resources else ()


def _peer_directory(model: Model, subject: Subject, _section: str, entry: str) -> ValueOrigin:
    policy, peer = peers.policy_of(model, subject), model.subjects[entry]
    by = f"PeerPolicy {policy.id}" if policy else "the default"
    because = f"one of at most {peers.most(policy, subject)} peers by {by}"
    return ValueOrigin(because, (*_declared_node(model, peer), DeclaredSource(MEMBER, entry)))


def _service_assignment(model: Model, subject: Subject, _section: str, entry: str) -> ValueOrigin:
    service = _declared(model, Service, entry)
    if views.runs(service, subject):
        because = f"it runs here: runs_on selects {_how(service.runs_on, subject)}"
    else:
        because = f"its exposed endpoints are for ingress nodes of {service.organization}"
    return ValueOrigin(because, (DeclaredSource(Service.KIND, entry),))


def _route_policy(model: Model, subject: Subject, _section: str, entry: str) -> ValueOrigin:
    return ValueOrigin(_why_route(_declared(model, Route, entry), subject), (DeclaredSource(Route.KIND, entry),))


def _why_route(route: Route, subject: Subject) -> str:
    """In the order of `views.takes`."""
    every = [role for role in ("core_mesh", "thin") if role in subject.roles]
    if every:
        return f"a {every[0]} node knows every route of {route.organization}"
    if "ingress" in subject.roles and selects(route.enters_at, subject):
        return f"it enters here: enters_at selects {_how(route.enters_at, subject)}"
    return f"Service {route.service} runs here"


def _qos_policy(model: Model, _subject: Subject, _section: str, entry: str) -> ValueOrigin:
    policy = _declared(model, QosPolicy, entry)
    of = f"of {policy.organization}, which the node serves" if policy.organization else "of all organizations"
    return ValueOrigin(of, (DeclaredSource(QosPolicy.KIND, entry),))


def _storage_directory(model: Model, subject: Subject, section: str, entry: str) -> ValueOrigin:
    endpoint = _declared(model, StorageEndpoint, entry)
    if section == "shards":
        because = "it is run by this node"
    elif endpoint.organizations:
        because = f"for nodes that serve {', '.join(filter(subject.serves, endpoint.organizations))}"
    else:
        because = "for every node"
    return ValueOrigin(because, (DeclaredSource(StorageEndpoint.KIND, entry),))


def _degraded_mode_policy(model: Model, subject: Subject, _section: str, _entry: str) -> ValueOrigin:
    policy = views.degraded_policy(model, subject)
    if policy is None:
        raise AssertionError("without one there is no section")
    how = f"of priority {policy.priority}, the first that applies: it selects {_how(policy.applies_to, subject)}"
    return ValueOrigin(how, (DeclaredSource(DegradedModePolicy.KIND, policy.id),))


def _declared(model: Model, kind: type[Kind], id_: str) -> Kind:
    found = model.resources[kind.KIND, id_]
    if not isinstance(found, kind):
        raise AssertionError("a resource is kept under its kind")
    return found


def _how(selector: Selector, subject: Subject) -> str:
    """By which part a selector selects a node."""
    if selector.is_empty:
        return "every node"
    if subject.node_id in selector.nodes:
        return f"{subject.node_id} by its id"
    roles = [f"role {role}" for role in selector.roles if role in subject.roles]
    return " and ".join([*roles[:1], *(f"label {name}={value}" for name, value in sorted(selector.labels.items()))])


_ORIGINS: Mapping[str, Callable[[Model, Subject, str, str], ValueOrigin]] = {
    "node_bootstrap": _node_bootstrap,
    "node_runtime": _node_runtime,
    "peer_directory": _peer_directory,
    "service_assignment": _service_assignment,
    "route_policy": _route_policy,
    "qos_policy": _qos_policy,
    "storage_directory": _storage_directory,
    "degraded_mode_policy": _degraded_mode_policy,
}

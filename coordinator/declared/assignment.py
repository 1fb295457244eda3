"""Who is told of a service, of what it goes out by, of a route, of a policy, of files, of a store that is copied
(format.md 9, 10). Pure.

A member that is draining (rules J30) goes on with what it had, as that is declared by now, and is given no work that it
did not have: no service, no files, no entrance. What the core has to know to carry what others run is no work of its
own, and goes on: without it, traffic that still comes through would fall.
"""

from collections.abc import Iterable, Iterator, Mapping

from coordinator.declared.kinds import (
    Config,
    EgressResource,
    EntryPolicy,
    Route,
    Service,
    SessionPolicy,
    StorageEndpoint,
)
from coordinator.declared.model import Model, Subject, selects
from coordinator.declared.selection_index import SelectionIndex


def runs(service: Service, subject: Subject) -> bool:
    if "egress_service" not in subject.roles or not subject.serves(service.organization):
        return False
    return selects(service.runs_on, subject) and subject.may_get(service.key)


def is_assigned(service: Service, subject: Subject) -> bool:
    """Whether the node is told of a service at all."""
    return runs(service, subject) or is_projected(service, subject)


def is_given(config: Config, subject: Subject) -> bool:
    """Whether the node holds a Config: it is selected, and where that is somebody's, serves the organization."""
    if subject.member.kind == "witness" or (config.organization and not subject.serves(config.organization)):
        return False
    return selects(config.to, subject) and subject.may_get(config.key)


def configs_for(configs: SelectionIndex[Config], subject: Subject) -> list[Config]:
    """All that the node holds."""
    candidates = configs.candidates(subject.node_id, subject.roles, subject.declared.labels)
    return [config for config in candidates if is_given(config, subject)]


def is_projected(service: Service, subject: Subject) -> bool:
    """An ingress node learns where the exposed endpoints are, and nothing else of a service."""
    exposed = any(endpoint.exposed for endpoint in service.endpoints)
    is_shown = exposed and "ingress" in subject.roles and subject.serves(service.organization)
    return is_shown and subject.may_get(service.key)


def enters(policy: EntryPolicy, subject: Subject) -> bool:
    """Whether clients come in there by a policy."""
    if "ingress" not in subject.roles or not subject.serves(policy.organization):
        return False
    return selects(policy.enters_at, subject) and subject.may_get(policy.key)


def enters_by(route: Route, subject: Subject) -> bool:
    """Whether a route of an organization that the node serves enters there."""
    return "ingress" in subject.roles and selects(route.enters_at, subject) and subject.may_get(route.key)


def used_resources(service: Service, declared: Mapping[str, EgressResource]) -> list[EgressResource]:
    """Those that a service names, and the connectors that these are reached by, in the order of their ids. What belongs
    to another organization is none of its own.
    """
    named = {id_: declared[id_] for id_ in service.resources if id_ in declared}
    named |= {
        resource.connector: declared[resource.connector]
        for resource in named.values()
        if resource.connector in declared
    }
    return [named[id_] for id_ in sorted(named) if named[id_].organization == service.organization]


def is_bound_by(policy: SessionPolicy, subject: Subject) -> bool:
    """Whether a policy is for the sessions of a node; another of its organization may come before it."""
    return "thin" in subject.roles and subject.serves(policy.organization) and selects(policy.applies_to, subject)


def first_that_binds(policies: Iterable[SessionPolicy], subject: Subject) -> SessionPolicy | None:
    """Of those of one organization, the one that wins first."""
    return next((policy for policy in policies if is_bound_by(policy, subject)), None)


def takes(route: Route, service: Service | None, subject: Subject) -> bool:
    """Whether a node has to know a route, for any of its roles."""
    if not subject.serves(route.organization):
        return False
    if "core_mesh" in subject.roles or "thin" in subject.roles:
        return True
    if enters_by(route, subject):
        return True
    return service is not None and runs(service, subject)


# ---- which stores copy from which (`replicates`). Only what members run counts: no other store says what it has


def copied_stores(model: Model, node_id: str) -> list[StorageEndpoint]:
    """In the order of their ids; of itself a node copies nothing."""
    named = {name for endpoint in _run_by(model, node_id) for name in endpoint.replicates}
    return [endpoint for endpoint in _endpoints(model, named) if endpoint.node != node_id]


def copying_nodes(model: Model, node_id: str) -> list[str]:
    own = {endpoint.id for endpoint in _run_by(model, node_id)}
    copying = (endpoint.node for endpoint in model.storage_endpoints if not own.isdisjoint(endpoint.replicates))
    return sorted({reader for reader in copying if reader in model.members and reader != node_id})


def store_partners(model: Model, endpoint: StorageEndpoint) -> set[str]:
    """Nodes, beside the one that runs it."""
    copied = {source.node for source in _endpoints(model, endpoint.replicates)}
    return copied | {other.node for other in model.storage_endpoints if endpoint.id in other.replicates}


def store_partners_of(model: Model, node_id: str) -> set[str]:
    """Whose directories have its certificates for that."""
    return {source.node for source in copied_stores(model, node_id)} | set(copying_nodes(model, node_id))


def _run_by(model: Model, node_id: str) -> Iterator[StorageEndpoint]:
    return (endpoint for endpoint in model.storage_endpoints if endpoint.node == node_id)


def _endpoints(model: Model, names: Iterable[str]) -> list[StorageEndpoint]:
    wanted = set(names)
    return [
        endpoint for endpoint in model.storage_endpoints if endpoint.id in wanted and endpoint.node in model.members
    ]

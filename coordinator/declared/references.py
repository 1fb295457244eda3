"""Whether resources hold together: every name leads somewhere, every placement is possible. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from coordinator.declared.fields import FieldFault, Path
from coordinator.declared.kinds import (
    Cluster,
    DegradedModePolicy,
    Node,
    Organization,
    PeerPolicy,
    QosPolicy,
    Resource,
    Route,
    Selector,
    Service,
    Site,
    StorageEndpoint,
)
from coordinator.declared.model import Key, MemberEntry, Subject
from coordinator.declared.views import is_assigned

Found = tuple[Resource, FieldFault]
DEFAULT_SITE = "default"
MOST_SERVICES = 1_000  # each is a scope of the node, and a report names SCOPES_MAX of them


@dataclass(frozen=True)
class _Together:
    """All resources, and what they are judged by."""

    resources: Mapping[Key, Resource]
    cluster_id: str

    @property
    def sites(self) -> list[str]:
        """`init` makes the first; every other one is declared (rules K12)."""
        return sorted({DEFAULT_SITE, *(id_ for kind, id_ in self.resources if kind == Site.KIND)})

    @cached_property
    def services_of(self) -> Mapping[str, list[Service]]:
        """By organization."""
        found: dict[str, list[Service]] = {}
        for each in self.resources.values():
            if isinstance(each, Service):
                found.setdefault(each.organization, []).append(each)
        return found

    def has(self, kind: type[Resource], id_: str) -> bool:
        return (kind.KIND, id_) in self.resources

    def node(self, id_: str) -> Node | None:
        found = self.resources.get((Node.KIND, id_))
        return found if isinstance(found, Node) else None


def faults_of(resources: Mapping[Key, Resource], cluster_id: str) -> Iterator[Found]:
    """Every fault of every resource, with the resource whose field it is."""
    together = _Together(resources, cluster_id)
    for key in sorted(resources):
        resource = resources[key]
        for fault in _faults(together, resource):
            yield resource, fault


def _faults(together: _Together, resource: Resource) -> Iterator[FieldFault]:
    match resource:
        case Cluster():
            yield from _cluster(together, resource)
        case Node():
            yield from _node(together, resource)
        case Service():
            yield from _service(together, resource)
        case Route():
            yield from _route(together, resource)
        case QosPolicy():
            yield from _known(together, Organization, resource.organization, "organization", optional=True)
        case StorageEndpoint():
            yield from _storage(together, resource)
        case DegradedModePolicy() | PeerPolicy():
            yield from _selected(together, resource.applies_to, "applies_to")
        case _:
            return


def _cluster(together: _Together, cluster: Cluster) -> Iterator[FieldFault]:
    if cluster.id != together.cluster_id:
        yield FieldFault(("id",), f"this coordinator serves {together.cluster_id}", f"write id: {together.cluster_id}")
    if not cluster.coordinators:
        yield _fault("coordinators", "names no coordinator", "name at least one https://host:port")


def _node(together: _Together, node: Node) -> Iterator[FieldFault]:
    if node.site != DEFAULT_SITE and not together.has(Site, node.site):
        known = f"use one of {', '.join(together.sites)}"
        yield _fault("site", f"there is no site {node.site}", f"declare the Site, or {known}")
    for organization in node.organizations:
        yield from _known(together, Organization, organization, "organizations")
    if node.kind == "witness" and (node.roles or node.organizations):
        yield _fault("roles", "a witness has no roles and serves nobody", "remove them, or make it a data node")
    told = _services_told(together, node)
    if told > MOST_SERVICES:
        remedy = f"at most {MOST_SERVICES}: narrow their runs_on, expose fewer, or split the node's organizations"
        yield _fault("organizations", f"the node would be told of {told} services", remedy)


def _services_told(together: _Together, node: Node) -> int:
    """Counted one by one only where there are so many that it matters."""
    found = [each for one in node.organizations for each in together.services_of.get(one, ())]
    if len(found) <= MOST_SERVICES:
        return len(found)
    subject = Subject(MemberEntry(node.id, node.kind, node.site, ()), node)
    return sum(is_assigned(each, subject) for each in found)


def _service(together: _Together, service: Service) -> Iterator[FieldFault]:
    yield from _known(together, Organization, service.organization, "organization")
    if service.runs_on.is_empty:
        yield _fault("runs_on", "selects no node", "give nodes, roles or labels")
    yield from _selected(together, service.runs_on, "runs_on")
    for id_ in service.runs_on.nodes:
        node = together.node(id_)
        if node is not None:
            yield from _placement(node, service)
    names = [endpoint.name for endpoint in service.endpoints]
    if len(set(names)) < len(names):
        yield _fault("endpoints", "two endpoints have one name", "give each its own")
    for path, organization in _foreign(service.settings, service.organization, ("spec", "settings")):
        yield FieldFault(path, f"belongs to {organization}", f"a service holds data of {service.organization} alone")


def _placement(node: Node, service: Service) -> Iterator[FieldFault]:
    if "egress_service" not in node.roles:
        yield _fault("runs_on", f"{node.id} has not the role egress_service", "give it the role, or choose another")
    elif service.organization not in node.organizations:
        remedy = f"add {service.organization} to the node's organizations"
        yield _fault("runs_on", f"{node.id} does not serve {service.organization}", remedy)


def _route(together: _Together, route: Route) -> Iterator[FieldFault]:
    yield from _known(together, Organization, route.organization, "organization")
    yield from _known(together, Service, route.service, "service")
    yield from _known(together, QosPolicy, route.qos, "qos", optional=True)
    yield from _selected(together, route.enters_at, "enters_at")
    for kind, id_, field in ((Service, route.service, "service"), (QosPolicy, route.qos, "qos")):
        owner = getattr(together.resources.get((kind.KIND, id_)), "organization", "")
        if owner and owner != route.organization:
            yield _fault(field, f"{id_} belongs to {owner}", "a route stays within one organization")


def _storage(together: _Together, endpoint: StorageEndpoint) -> Iterator[FieldFault]:
    for organization in endpoint.organizations:
        yield from _known(together, Organization, organization, "organizations")
    yield from _known(together, Node, endpoint.node, "node", optional=True)
    node = together.node(endpoint.node)
    if node is not None and "storage_config" not in node.roles:
        yield _fault("node", f"{node.id} has not the role storage_config", "give it the role, or choose another")
    if endpoint.id in endpoint.replicates:
        yield _fault("replicates", "copies from itself", f"remove {endpoint.id} here")
    for other in endpoint.replicates:
        yield from _known(together, StorageEndpoint, other, "replicates")


def _known(
    together: _Together, kind: type[Resource], id_: str, field: str, *, optional: bool = False
) -> Iterator[FieldFault]:
    if not (optional and not id_) and not together.has(kind, id_):
        yield _fault(field, f"there is no {kind.KIND} {id_}", f"declare it, or correct the {field}")


def _selected(together: _Together, selector: Selector, field: str) -> Iterator[FieldFault]:
    for id_ in selector.nodes:
        if not together.has(Node, id_):
            yield FieldFault(("spec", field, "nodes"), f"there is no Node {id_}", "declare it, or correct the id")


def _foreign(value: object, own: str, path: Path) -> Iterator[tuple[Path, object]]:
    """Members named `organization_id` that name another one: every node would refuse the document (format.md 7)."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name == "organization_id" and inner != own:
                yield (*path, name), inner
            yield from _foreign(inner, own, (*path, name))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _foreign(inner, own, (*path, index))


def _fault(field: str, message: str, remedy: str) -> FieldFault:
    return FieldFault(("spec", field), message, remedy)

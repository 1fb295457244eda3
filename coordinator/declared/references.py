"""Whether resources hold together: every name leads somewhere, every placement is possible. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import cached_property
from ipaddress import ip_network
from itertools import pairwise

from coordinator.declared import expected_place
from coordinator.declared.assignment import (
    configs_for,
    enters,
    first_that_binds,
    is_assigned,
    is_given,
    used_resources,
)
from coordinator.declared.fields import FieldFault, Path
from coordinator.declared.kinds import (
    ALLOW_PULL,
    Cluster,
    Config,
    ConfigReference,
    DegradedModePolicy,
    EgressResource,
    EntryPolicy,
    Expectation,
    Node,
    Organization,
    PeerPolicy,
    QosPolicy,
    Resource,
    RolloutPolicy,
    RolloutRing,
    Route,
    Selector,
    Service,
    SessionPolicy,
    Site,
    StorageEndpoint,
    Tunnel,
)
from coordinator.declared.model import Key, MemberEntry, Model, Subject, selects
from coordinator.declared.selection_index import SelectionIndex
from coordinator.declared.templates import LABEL
from snapshot import canonical

Found = tuple[Resource, FieldFault]
DEFAULT_SITE = "default"
MOST_CONFIGS = 256  # of one node
SECTION_BYTES = 768 << 10  # of entries that are one section: it has a MiB
_NAMED = 3  # nodes in a sentence
MOST_SERVICES = 1_000  # each is a scope of the node, and a report names SCOPES_MAX of them


@dataclass(frozen=True)
class _Together:
    """All resources, and what they are judged by."""

    model: Model

    @property
    def resources(self) -> Mapping[Key, Resource]:
        return self.model.resources

    @property
    def cluster_id(self) -> str:
        return self.model.cluster_id

    @property
    def sites(self) -> list[str]:
        """`init` makes the first; every other one is declared (rules K12)."""
        return sorted({DEFAULT_SITE, *self.model.by_kind.get(Site.KIND, ())})

    @property
    def services_of(self) -> Mapping[str, list[Service]]:
        """By organization."""
        return self.model.services_of

    @property
    def subjects(self) -> Iterable[Subject]:
        """Each declared node as the member that it is to be."""
        return self.model.declared_subjects.values()

    @property
    def configs(self) -> Mapping[str, Config]:
        return self.model.configs

    @property
    def configs_by_selector(self) -> SelectionIndex[Config]:
        return self.model.configs_by_selector

    @cached_property
    def entry_policies(self) -> list[tuple[EntryPolicy, int]]:
        """Each with its size: all of a node's are one section."""
        return [(policy, _size(policy)) for policy in self.model.of(EntryPolicy)]

    @cached_property
    def automatic_policies(self) -> list[PeerPolicy]:
        return [policy for policy in self.model.peer_policies if policy.automatic_refresh == "yes"]

    def policy_of(self, subject: Subject) -> PeerPolicy | None:
        """The one that wins for it."""
        return next((policy for policy in self.model.peer_policies if selects(policy.applies_to, subject)), None)

    @cached_property
    def entry_bytes(self) -> int:
        return sum(size for _, size in self.entry_policies)

    @property
    def egress_resources(self) -> Mapping[str, EgressResource]:
        return self.model.egress_resources

    @property
    def session_policies_of(self) -> Mapping[str, list[SessionPolicy]]:
        """By organization, the one that wins first."""
        return self.model.session_policies_of

    @cached_property
    def session_bytes(self) -> int:
        return sum(_size(policy) for policies in self.session_policies_of.values() for policy in policies)

    def has(self, kind: type[Resource], id_: str) -> bool:
        return (kind.KIND, id_) in self.resources

    def node(self, id_: str) -> Node | None:
        found = self.resources.get((Node.KIND, id_))
        return found if isinstance(found, Node) else None


def faults_of(model: Model) -> Iterator[Found]:
    """Every fault of every resource, with the resource whose field it is."""
    if model.sound:
        return
    together, is_sound = _Together(model), True
    for key in sorted(_find_judged(together)):
        resource = model.resources[key]
        for fault in _faults(together, resource):
            is_sound = False
            yield resource, fault
    if is_sound:
        model.sound.append(True)


def _find_judged(together: _Together) -> Iterable[Key]:
    """Those that may have a fault: all, or where the model was made from one that has none, those that the difference
    concerns. In a large fleet nearly everything is a Node, or a Config of one, and nearly none of these is concerned.
    """
    model, origin = together.model, together.model.origin
    before = None if origin is None else origin.before()
    if origin is None or before is None or not before.sound:
        return model.resources
    kinds = {kind for kind, _ in origin.resources}
    nodes = {id_ for kind, id_ in origin.resources if kind == Node.KIND}
    found = origin.resources & model.resources.keys()
    for kind, resources in model.by_kind.items():
        if kind == Config.KIND and Organization.KIND not in kinds:
            found |= {config.key for config in model.configs.values() if nodes and _asks_for(config, nodes)}
        elif kind != Node.KIND or _concerns_nodes(together, kinds):
            found |= {resource.key for resource in resources.values()}
    return found


def _concerns_nodes(together: _Together, kinds: Set[str]) -> bool:
    """Whether a change of these kinds can make a Node wrong that stays as it is: what it names, or too much of what it
    is told.
    """
    too_much: Mapping[str, Callable[[], bool]] = {
        Config.KIND: lambda: len(together.configs) > MOST_CONFIGS,
        EntryPolicy.KIND: lambda: together.entry_bytes > SECTION_BYTES,
        SessionPolicy.KIND: lambda: together.session_bytes > SECTION_BYTES,
        Service.KIND: lambda: len(together.model.services) > MOST_SERVICES,
    }
    return not kinds.isdisjoint((Site.KIND, Organization.KIND)) or any(
        is_too_much() for kind, is_too_much in too_much.items() if kind in kinds
    )


def _asks_for(config: Config, node_ids: Set[str]) -> bool:
    """Whether what is declared of these nodes can make a Config wrong: it names one, or writes labels into a text."""
    if not node_ids.isdisjoint(config.to.nodes):
        return True
    names = (name for file in config.files.values() if file.content is not None for name in file.content.names)
    return any(name.startswith(LABEL) for name in names)


def _faults(together: _Together, resource: Resource) -> Iterator[FieldFault]:
    match resource:
        case Cluster():
            yield from _cluster(together, resource)
        case Node():
            yield from _node(together, resource)
        case QosPolicy():
            yield from _check_reference(together, Organization, resource.organization, "organization", optional=True)
        case StorageEndpoint():
            yield from _storage(together, resource)
        case Config():
            yield from _config(together, resource)
        case DegradedModePolicy():
            yield from _check_selector(together, resource.applies_to, "applies_to")
        case PeerPolicy():
            yield from _check_selector(together, resource.applies_to, "applies_to")
            yield from _check_refresh(together, resource)
        case RolloutPolicy():
            yield from _rollout_policy(together, resource)
        case Expectation():
            yield from expected_place.faults_of(resource)
            yield from _check_selector(together, resource.of, "of")
        case _:
            yield from _faults_of_tenant(together, resource)


def _faults_of_tenant(together: _Together, resource: Resource) -> Iterator[FieldFault]:
    """Of what is one organization's."""
    match resource:
        case Service():
            yield from _service(together, resource)
        case EgressResource():
            yield from _egress_resource(together, resource)
        case Route():
            yield from _route(together, resource)
        case EntryPolicy():
            yield from _entry_policy(together, resource)
        case SessionPolicy():
            yield from _session_policy(together, resource)
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
        yield from _check_reference(together, Organization, organization, "organizations")
    if node.kind == "witness" and (node.roles or node.organizations):
        yield _fault("roles", "a witness has no roles and serves nobody", "remove them, or make it a data node")
    given = len(together.configs)
    if given > MOST_CONFIGS and (given := _count_configs(together, node)) > MOST_CONFIGS:
        remedy = f"at most {MOST_CONFIGS}: narrow whom they are `to`, or put files together in one"
        yield _fault("labels", f"the node would hold {given} Configs", remedy)
    if together.entry_bytes > SECTION_BYTES and (size := _entry_bytes(together, node)) > SECTION_BYTES:
        remedy = f"at most {SECTION_BYTES >> 10} KiB: give large key sets by jwks_in, or narrow their enters_at"
        yield _fault("organizations", f"the node would be told {size >> 10} KiB of entry policies", remedy)
    if together.session_bytes > SECTION_BYTES and (size := _session_bytes(together, node)) > SECTION_BYTES:
        remedy = f"at most {SECTION_BYTES >> 10} KiB: name fewer networks and domains, or split its organizations"
        yield _fault("organizations", f"the node would be told {size >> 10} KiB of session policies", remedy)
    told = _count_services(together, node)
    if told > MOST_SERVICES:
        remedy = f"at most {MOST_SERVICES}: narrow their runs_on, expose fewer, or split the node's organizations"
        yield _fault("organizations", f"the node would be told of {told} services", remedy)


def _entry_bytes(together: _Together, node: Node) -> int:
    """Of the policies by which clients come in at the node."""
    subject = Subject(MemberEntry(node.id, node.kind, node.site, ()), node)
    return sum(size for policy, size in together.entry_policies if enters(policy, subject))


def _session_bytes(together: _Together, node: Node) -> int:
    """Of the policies that win for the node."""
    subject = Subject(MemberEntry(node.id, node.kind, node.site, ()), node)
    policies = (together.session_policies_of.get(organization, ()) for organization in node.organizations)
    found = (first_that_binds(of_one, subject) for of_one in policies)
    return sum(_size(policy) for policy in found if policy is not None)


def _size(resource: Resource) -> int:
    """As JSON, about what a node would be told."""
    return len(canonical.dumps(resource.spec()))


def _count_services(together: _Together, node: Node) -> int:
    """Counted one by one only where there are so many that it matters."""
    found = [service for organization in node.organizations for service in together.services_of.get(organization, ())]
    if len(found) <= MOST_SERVICES:
        return len(found)
    subject = Subject(MemberEntry(node.id, node.kind, node.site, ()), node)
    return sum(is_assigned(service, subject) for service in found)


def _service(together: _Together, service: Service) -> Iterator[FieldFault]:
    yield from _check_reference(together, Organization, service.organization, "organization")
    if service.runs_on.is_empty:
        yield _fault("runs_on", "selects no node", "give nodes, roles or labels")
    yield from _check_selector(together, service.runs_on, "runs_on")
    for id_ in service.runs_on.nodes:
        node = together.node(id_)
        if node is not None:
            yield from _placement(node, service)
    names = [endpoint.name for endpoint in service.endpoints]
    if len(set(names)) < len(names):
        yield _fault("endpoints", "two endpoints have one name", "give each its own")
    for path, organization in _foreign(service.settings, service.organization, ("spec", "settings")):
        yield FieldFault(path, f"belongs to {organization}", f"a service holds data of {service.organization} alone")
    yield from _check_resources(together, service)


def _check_resources(together: _Together, service: Service) -> Iterator[FieldFault]:
    """What it goes out by is there, is its organization's, and fits a section."""
    for id_ in service.resources:
        yield from _check_reference(together, EgressResource, id_, "resources")
        found = together.egress_resources.get(id_)
        if found is not None and found.organization != service.organization:
            yield _fault("resources", f"{id_} belongs to {found.organization}", "a service uses its organization's own")
    used = used_resources(service, together.egress_resources)
    size = sum(len(canonical.dumps(resource.settings)) for resource in used)
    if size > SECTION_BYTES:
        remedy = f"at most {SECTION_BYTES >> 10} KiB of settings: name fewer, or make them smaller"
        yield _fault("resources", f"nodes would be told {size >> 10} KiB of resources", remedy)


def _egress_resource(together: _Together, resource: EgressResource) -> Iterator[FieldFault]:
    if together.has(Service, resource.id):
        message = f"there is a Service {resource.id}, and what revokes one by its name would revoke both"
        yield FieldFault(("id",), message, "give one of them another id")
    yield from _check_reference(together, Organization, resource.organization, "organization")
    yield from _check_connector(together, resource)
    for path, organization in _foreign(resource.settings, resource.organization, ("spec", "settings")):
        yield FieldFault(path, f"belongs to {organization}", f"it holds data of {resource.organization} alone")


def _check_connector(together: _Together, resource: EgressResource) -> Iterator[FieldFault]:
    if not resource.connector:
        return
    if resource.type == "connector":
        yield _fault("connector", "a connector is not reached by another", "leave it out, or correct the type")
        return
    yield from _check_reference(together, EgressResource, resource.connector, "connector")
    found = together.egress_resources.get(resource.connector)
    if found is not None and found.type != "connector":
        yield _fault("connector", f"{found.id} is a {found.type}", "name an EgressResource of type connector")
    elif found is not None and found.organization != resource.organization:
        remedy = "a resource is reached by a connector of its organization"
        yield _fault("connector", f"{found.id} belongs to {found.organization}", remedy)


def _session_policy(together: _Together, policy: SessionPolicy) -> Iterator[FieldFault]:
    yield from _check_reference(together, Organization, policy.organization, "organization")
    yield from _check_selector(together, policy.applies_to, "applies_to")
    for id_ in policy.applies_to.nodes:
        node = together.node(id_)
        if node is not None and "thin" not in node.roles:
            yield _fault("applies_to", f"{id_} has not the role thin", "give it the role, or choose another")
        elif node is not None and policy.organization not in node.organizations:
            remedy = f"add {policy.organization} to the node's organizations"
            yield _fault("applies_to", f"{id_} does not serve {policy.organization}", remedy)
    if policy.session.idle_s > policy.session.ttl_s:
        remedy = "at most ttl_s, or 0 for never by that"
        yield FieldFault(("spec", "session", "idle_s"), "is longer than a session lasts", remedy)
    yield from _tunnel(policy.tunnel)


def _tunnel(tunnel: Tunnel) -> Iterator[FieldFault]:
    named = {"networks": tunnel.networks, "dns": tunnel.dns, "domains": tunnel.domains}
    if tunnel.mode == "split" and not (tunnel.networks or tunnel.domains):
        yield FieldFault(("spec", "tunnel"), "split, and nothing goes through it", "give networks or domains")
    useless = {"none": ("networks", "dns", "domains"), "full": ("networks",)}.get(tunnel.mode, ())
    for name in useless:
        if named[name]:
            what = "nothing goes through a tunnel" if tunnel.mode == "none" else "everything goes through it"
            remedy = "leave them out, or write mode: split"
            yield FieldFault(("spec", "tunnel", name), f"says nothing where {what} of mode {tunnel.mode}", remedy)
    if tunnel.domains and not tunnel.dns:
        remedy = "give dns, the servers that know them, or leave the domains out"
        yield FieldFault(("spec", "tunnel", "domains"), "nobody would be asked for their names", remedy)
    yield from _overlaps(tunnel.networks)


def _overlaps(networks: Sequence[str]) -> Iterator[FieldFault]:
    """A network within another: one of the two is a slip of the pen."""
    read = map(ip_network, networks)
    ordered = sorted(read, key=lambda network: (network.version, network.network_address.packed, network.prefixlen))
    for before, network in pairwise(ordered):
        if before.version == network.version and network.network_address in before:
            remedy = "remove one of them"
            yield FieldFault(("spec", "tunnel", "networks"), f"{network} lies within {before}", remedy)


def _rollout_policy(together: _Together, policy: RolloutPolicy) -> Iterator[FieldFault]:
    """A guard that guards nobody, or that never comes to its end, is a slip of the pen."""
    yield from _check_cohort(together, policy.applies_to, ("spec", "applies_to"))
    for index, ring in enumerate(policy.rings):
        yield from _check_cohort(together, ring.of, ("spec", "rings", index, "of"))
    last = policy.rings[-1] if policy.rings else None
    if last is None or last.percent != 100 or not last.of.is_empty:
        yield _fault("rings", "never reach all nodes", "end with {percent: 100}, without `of`")
    for index, (size, before) in _sizes_before(policy.rings):
        if size <= before:
            remedy = "sizes are of all so far: write each above the one before it, of the same `of`"
            yield FieldFault(("spec", "rings", index), f"{size} does not rise above {before}", remedy)


def _sizes_before(rings: Sequence[RolloutRing]) -> Iterator[tuple[int, tuple[int, int]]]:
    """Of each ring its place and size, and the size of the last one before it that counts the same way, of the same."""
    last: dict[tuple[bytes, str], int] = {}
    for index, ring in enumerate(rings):
        for how, size in (("percent", ring.percent), ("nodes", ring.nodes)):
            if size is None:
                continue
            key = (canonical.dumps(asdict(ring.of)), how)
            if key in last:
                yield index, (size, last[key])
            last[key] = size


def _check_cohort(together: _Together, selector: Selector, at: Path) -> Iterator[FieldFault]:
    for id_ in selector.nodes:
        if not together.has(Node, id_):
            yield FieldFault((*at, "nodes"), f"there is no Node {id_}", "declare it, or correct the id")
    if not selector.is_empty and not any(selects(selector, subject) for subject in together.subjects):
        yield FieldFault(at, "selects nobody", "correct roles or labels, or leave it out for all nodes")


def _placement(node: Node, service: Service) -> Iterator[FieldFault]:
    if "egress_service" not in node.roles:
        yield _fault("runs_on", f"{node.id} has not the role egress_service", "give it the role, or choose another")
    elif service.organization not in node.organizations:
        remedy = f"add {service.organization} to the node's organizations"
        yield _fault("runs_on", f"{node.id} does not serve {service.organization}", remedy)


def _route(together: _Together, route: Route) -> Iterator[FieldFault]:
    yield from _check_reference(together, Organization, route.organization, "organization")
    yield from _check_reference(together, Service, route.service, "service")
    yield from _check_reference(together, QosPolicy, route.qos, "qos", optional=True)
    yield from _check_selector(together, route.enters_at, "enters_at")
    for kind, id_, field in ((Service, route.service, "service"), (QosPolicy, route.qos, "qos")):
        owner = getattr(together.resources.get((kind.KIND, id_)), "organization", "")
        if owner and owner != route.organization:
            yield _fault(field, f"{id_} belongs to {owner}", "a route stays within one organization")


def _entry_policy(together: _Together, policy: EntryPolicy) -> Iterator[FieldFault]:
    yield from _check_reference(together, Organization, policy.organization, "organization")
    yield from _check_selector(together, policy.enters_at, "enters_at")
    for id_ in policy.services:
        yield from _check_reference(together, Service, id_, "services")
        owner = getattr(together.resources.get((Service.KIND, id_)), "organization", policy.organization)
        if owner != policy.organization:
            yield _fault("services", f"{id_} belongs to {owner}", "a policy stays within one organization")
    for index, issuer in enumerate(policy.issuers):
        if issuer.jwks_in is not None:
            at: Path = ("spec", "issuers", index, "jwks_in")
            yield from _check_file_reference(together, policy, issuer.jwks_in, at)


def _check_file_reference(
    together: _Together, policy: EntryPolicy, wanted: ConfigReference, at: Path
) -> Iterator[FieldFault]:
    """The file is there, and every node that is told of the policy holds it."""
    config = together.resources.get((Config.KIND, wanted.config))
    if not isinstance(config, Config):
        yield FieldFault(at, f"there is no Config {wanted.config}", "declare it, or give the keys as jwks")
    elif wanted.file not in config.files:
        yield FieldFault(at, f"Config {config.id} has no file {wanted.file}", "correct the path, or add the file")
    else:
        told = [subject for subject in together.subjects if enters(policy, subject)]
        lacking = sorted(member.node_id for member in told if not is_given(config, member))
        if lacking:
            yield FieldFault(at, f"Config {config.id} is not for {_first_of(lacking)}", "widen whom the Config is `to`")


def _count_configs(together: _Together, node: Node) -> int:
    subject = Subject(MemberEntry(node.id, node.kind, node.site, ()), node)
    return len(configs_for(together.configs_by_selector, subject))


def _config(together: _Together, config: Config) -> Iterator[FieldFault]:
    yield from _check_reference(together, Organization, config.organization, "organization", optional=True)
    if config.to.is_empty:
        yield _fault("to", "selects no node", "give nodes, roles or labels")
    yield from _check_selector(together, config.to, "to")
    for id_ in config.to.nodes:
        node = together.node(id_)
        if node is not None and node.kind == "witness":
            yield _fault("to", f"{id_} is a witness, which holds no Config", "choose another")
        elif node is not None and config.organization and config.organization not in node.organizations:
            remedy = f"add {config.organization} to the node's organizations"
            yield _fault("to", f"{id_} does not serve {config.organization}", remedy)
    for path, file in config.files.items():
        for name in file.content.names if file.content is not None else ():
            yield from _without(together, config, path, name)


def _without(together: _Together, config: Config, path: str, name: str) -> Iterator[FieldFault]:
    """A label that a template asks for, and that a node lacks which would hold it: everything else, each node has."""
    if not name.startswith(LABEL):
        return
    label = name.removeprefix(LABEL)
    lacking = [
        subject.node_id
        for subject in together.subjects
        if label not in subject.declared.labels and is_given(config, subject)
    ]
    if lacking:
        have = "has" if len(lacking) == 1 else "have"
        message = f"{_first_of(sorted(lacking))} {have} no label {label}, which the template asks for"
        yield FieldFault(("spec", "files", path), message, "label them, or narrow whom the Config is `to`")


def _first_of(node_ids: Sequence[str]) -> str:
    more = f" and {len(node_ids) - _NAMED} more" if len(node_ids) > _NAMED else ""
    return ", ".join(node_ids[:_NAMED]) + more


def _storage(together: _Together, endpoint: StorageEndpoint) -> Iterator[FieldFault]:
    for organization in endpoint.organizations:
        yield from _check_reference(together, Organization, organization, "organizations")
    yield from _check_reference(together, Node, endpoint.node, "node", optional=True)
    node = together.node(endpoint.node)
    if node is not None and "storage_config" not in node.roles:
        yield _fault("node", f"{node.id} has not the role storage_config", "give it the role, or choose another")
    ways = {
        "system_roots": endpoint.system_roots,
        "authorities": bool(endpoint.authorities),
        "certificates": bool(endpoint.certificates),
    }
    given = [way for way, is_given in ways.items() if is_given]
    if len(given) > 1:
        yield _fault(given[1], f"stands beside {given[0]}", "say in one way what the mirror's server shows")
    if endpoint.id in endpoint.replicates:
        yield _fault("replicates", "copies from itself", f"remove {endpoint.id} here")
    if endpoint.replicates and not endpoint.node:
        yield _fault("replicates", "no node runs it, so nobody copies", "name its node, or leave this out")
    for other in endpoint.replicates:
        yield from _check_reference(together, StorageEndpoint, other, "replicates")
        yield from _check_source(endpoint, together.resources.get((StorageEndpoint.KIND, other)))


def _check_source(endpoint: StorageEndpoint, source: Resource | None) -> Iterator[FieldFault]:
    """What a store may list is what it may have: all that lies at the other one."""
    if not isinstance(source, StorageEndpoint):
        return
    if not source.node:
        message = f"no node runs {source.id}, and no other store says what it has"
        yield _fault("replicates", message, "name an endpoint that a node runs")
    elif not _may_have_all(endpoint, source):
        remedy = f"give {endpoint.id} the organizations of {source.id} as well, or leave it out here"
        yield _fault("replicates", f"{source.id} keeps what is of organizations that {endpoint.id} is not for", remedy)


def _may_have_all(endpoint: StorageEndpoint, source: StorageEndpoint) -> bool:
    if not endpoint.organizations:
        return True
    return bool(source.organizations) and set(source.organizations) <= set(endpoint.organizations)


def _check_reference(
    together: _Together, kind: type[Resource], id_: str, field: str, *, optional: bool = False
) -> Iterator[FieldFault]:
    if not (optional and not id_) and not together.has(kind, id_):
        yield _fault(field, f"there is no {kind.KIND} {id_}", f"declare it, or correct the {field}")


def _check_selector(together: _Together, selector: Selector, field: str) -> Iterator[FieldFault]:
    for id_ in selector.nodes:
        if not together.has(Node, id_):
            yield FieldFault(("spec", field, "nodes"), f"there is no Node {id_}", "declare it, or correct the id")


def _check_refresh(together: _Together, policy: PeerPolicy) -> Iterator[FieldFault]:
    """True on one side of a pair only (rules K7), also where two policies say it of each other's nodes."""
    if policy.automatic_refresh != "yes":
        return
    if policy.fetch == ALLOW_PULL:
        words = "these nodes fetch nothing from their peers"
        yield _fault("automatic_refresh", words, "set fetch to pull or mutual-pull, or leave it out")
        return
    for other in together.automatic_policies:
        pair = _pair(together, policy, other)
        if pair is not None:
            yield _fault(
                "automatic_refresh",
                f"{pair[0]} and {pair[1]} would both refresh from each other (PeerPolicy {other.id})",
                "say it for one side of a pair only: the other side is the one that is copied from",
            )
            return


def _pair(together: _Together, policy: PeerPolicy, other: PeerPolicy) -> tuple[str, str] | None:
    """One of the first's nodes and one of the other's that may know each other, by these policies."""
    nodes = together.model.declared_subjects.values()
    ours = [node.node_id for node in nodes if together.policy_of(node) is policy and selects(other.peers, node)]
    theirs = [node.node_id for node in nodes if together.policy_of(node) is other and selects(policy.peers, node)]
    return next(((own, their) for own in ours[:2] for their in theirs[:2] if own != their), None)


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

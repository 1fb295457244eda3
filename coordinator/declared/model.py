"""The declared state as one immutable value: the resources and the members. Views and decisions are functions of it.

What is read of it again and again is indexed, once for each state. A state that differs from another one in a few
resources is made from that (next_model.py), and takes over whatever it has in common with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TypeVar
from weakref import ref

from coordinator.base.releasing import ReleasedInSlices
from coordinator.declared.kinds import (
    DEFAULT_PEERS,
    Cluster,
    Config,
    DegradedModePolicy,
    EgressResource,
    EntryPolicy,
    Node,
    PeerPolicy,
    QosPolicy,
    Resource,
    RolloutPolicy,
    Route,
    Selector,
    Service,
    SessionPolicy,
    StorageEndpoint,
)
from coordinator.declared.selection_index import SelectionIndex
from snapshot.identifiers import Scope
from snapshot.roles import THIN_PEERS

Kind = TypeVar("Kind", bound=Resource)
Key = tuple[str, str]
NodeSort = tuple[str, tuple[str, ...]]
SitePlace = tuple[str, str]  # a site, and an organization or nobody's
RelayWish = tuple[int, bytes, str]  # which of its choices, the hash of the pair, and the member

NOBODYS = ""  # the organization of members that serve none


@dataclass(frozen=True)
class MemberEntry:
    """What the catalog says of a member that others may have to know. Revoked members stand in no model."""

    node_id: str
    kind: str
    site_id: str
    certificates: tuple[bytes, ...]  # DER: the pin, and the next one while both hold
    direct_url: str | None = None
    keeps: frozenset[Key] | None = None  # of one that is draining: what it had by then, and goes on with

    @property
    def is_draining(self) -> bool:
        return self.keeps is not None


@dataclass(frozen=True)
class Subject:
    """A member as a document's subject: its entry and its declaration in one."""

    member: MemberEntry
    declared: Node

    @property
    def node_id(self) -> str:
        return self.member.node_id

    @property
    def roles(self) -> tuple[str, ...]:
        """A witness has none, whatever is declared (rules J27); a new member has none yet (rules J8)."""
        return () if self.member.kind == "witness" else self.declared.roles

    @property
    def organizations(self) -> tuple[str, ...]:
        return () if self.member.kind == "witness" else self.declared.organizations

    def serves(self, organization: str) -> bool:
        return organization in self.organizations

    def may_get(self, key: Key) -> bool:
        """A resource that selects it: one that is draining gets none that it did not have (rules J30)."""
        return self.member.keeps is None or key in self.member.keeps

    def serves_any(self, organizations: Iterable[str]) -> bool:
        """Whether it may know of what belongs to these organizations; of what belongs to none it may."""
        wanted = tuple(organizations)
        return not wanted or any(organization in self.organizations for organization in wanted)


@dataclass(frozen=True)
class Ring:
    """Members in the order of their places, which are hashes of their ids."""

    places: list[int]
    node_ids: list[str]


@dataclass(frozen=True)
class RelayMap:
    """`relays`: that are made use of, by where. `wishes`: of each, whose it is, the first that it takes first."""

    relays: Mapping[SitePlace, tuple[str, ...]]
    wishes: Mapping[str, list[RelayWish]]

    @property
    def relay_ids(self) -> frozenset[str]:
        return frozenset(relay for relays in self.relays.values() for relay in relays)


@dataclass(frozen=True)
class ModelOrigin:
    """The model that another one was made from, while there is one, and what may differ between them."""

    before: "ref[Model]"
    resources: frozenset[Key]
    members: frozenset[str]


@dataclass(frozen=True)
class Model(ReleasedInSlices):
    """All declared resources by (kind, id), all members that are not revoked by their id, and the CAs that nodes are
    told to believe (DER).
    """

    cluster_id: str
    resources: Mapping[Key, Resource] = field(default_factory=dict)
    members: Mapping[str, MemberEntry] = field(default_factory=dict)
    authorities: tuple[bytes, ...] = ()
    # What next_model.py has made it from, where it has.
    origin: ModelOrigin | None = field(default=None, init=False, repr=False, compare=False)
    # What peers.py has worked out for this model, by policy and organization: members by their places on a ring, and
    # who throws which points onto it.
    rings: dict[str, Mapping[str, "Ring"]] = field(default_factory=dict, init=False, repr=False, compare=False)
    throws: dict[str, Mapping[str, "Ring"]] = field(default_factory=dict, init=False, repr=False, compare=False)
    peers: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    # Who may have chosen a member; asked where a few members differ from those of another model, twice.
    choosers: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What site_relays.py has worked out: one map, once somebody has asked.
    relay_maps: list["RelayMap"] = field(default_factory=list, init=False, repr=False, compare=False)
    # What change_impact.py has found between an earlier model, while there is one, and this: (node id, scope).
    compared: list[tuple["ref[Model]", frozenset[tuple[str, Scope]]]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    # What views.py has written of a resource: the same for every node that may know it, so it is never changed.
    written: dict[tuple[str, str], object] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What node_scopes.py has written of a member as others are told of it: by its id, their policy, and whether it is a
    # relay of theirs.
    peer_texts: dict[tuple[str, str, bool], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What views.py has found for a node: which services it is told of.
    assigned: dict[str, tuple[str, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    # What foresight.py has counted: nodes by the id of their policy of degraded mode, and their roles.
    sorts: "Counter[NodeSort]" = field(default_factory=Counter, init=False, repr=False, compare=False)
    # Whether references.py has looked at all of it and found nothing wrong.
    sound: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)

    @cached_property
    def by_kind(self) -> Mapping[str, Mapping[str, Resource]]:
        """Every resource by its kind and id."""
        found: dict[str, dict[str, Resource]] = {}
        for (kind, id_), resource in self.resources.items():
            found.setdefault(kind, {})[id_] = resource
        return found

    @cached_property
    def subjects(self) -> Mapping[str, Subject]:
        """Every member with its declaration, in the order of the ids; without one it has no roles (rules J8)."""
        return {node_id: Subject(member, self.declaration(node_id)) for node_id, member in sorted(self.members.items())}

    @cached_property
    def declared_subjects(self) -> Mapping[str, Subject]:
        """Every declared node as the member that it is to be."""
        return {node.id: declared_subject(node) for node in self.of(Node)}

    @cached_property
    def cluster(self) -> Cluster | None:
        return next(iter(self.of(Cluster)), None)

    @cached_property
    def services(self) -> Mapping[str, Service]:
        return {service.id: service for service in self.of(Service)}

    @cached_property
    def services_of(self) -> Mapping[str, list[Service]]:
        return _by_organization(self.of(Service))

    @cached_property
    def configs(self) -> Mapping[str, Config]:
        return {config.id: config for config in self.of(Config)}

    @cached_property
    def configs_by_selector(self) -> SelectionIndex[Config]:
        return SelectionIndex((config.to, config) for config in self.configs.values())

    @cached_property
    def routes_of(self) -> Mapping[str, list[Route]]:
        return _by_organization(self.of(Route))

    @cached_property
    def entry_policies_of(self) -> Mapping[str, list[EntryPolicy]]:
        return _by_organization(self.of(EntryPolicy))

    @cached_property
    def session_policies_of(self) -> Mapping[str, list[SessionPolicy]]:
        """Of each organization, the one that wins first."""
        return _by_organization(sorted(self.of(SessionPolicy), key=lambda each: (-each.priority, each.id)))

    @cached_property
    def egress_resources(self) -> Mapping[str, EgressResource]:
        return {resource.id: resource for resource in self.of(EgressResource)}

    @cached_property
    def qos_policies(self) -> list[QosPolicy]:
        return self.of(QosPolicy)

    @cached_property
    def storage_endpoints(self) -> list[StorageEndpoint]:
        return self.of(StorageEndpoint)

    @cached_property
    def degraded_policies(self) -> list[DegradedModePolicy]:
        """The one that wins first."""
        return sorted(self.of(DegradedModePolicy), key=lambda each: (-each.priority, each.id))

    @cached_property
    def peer_policies(self) -> list[PeerPolicy]:
        """The one that wins first."""
        return sorted(self.of(PeerPolicy), key=lambda each: (-each.priority, each.id))

    @cached_property
    def rollout_policies(self) -> list[RolloutPolicy]:
        """The one that wins first."""
        return sorted(self.of(RolloutPolicy), key=lambda each: (-each.priority, each.id))

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Every resource of a kind, in the order of the ids."""
        found = self.by_kind.get(kind.KIND, {}).values()
        return sorted((resource for resource in found if isinstance(resource, kind)), key=attrgetter("id"))

    def subject(self, node_id: str) -> Subject | None:
        """Of a member, or of who is declared and has not joined yet."""
        return self.subjects.get(node_id) or self.declared_subjects.get(node_id)

    def declaration(self, node_id: str) -> Node:
        """As nothing, where nothing is declared."""
        found = self.resources.get((Node.KIND, node_id))
        return found if isinstance(found, Node) else Node(node_id)


def with_authorities(model: Model, authorities: tuple[bytes, ...]) -> Model:
    """The same with other CAs."""
    return Model(model.cluster_id, model.resources, model.members, authorities)


def declared_subject(node: Node) -> Subject:
    return Subject(MemberEntry(node.id, node.kind, node.site, ()), node)


def selects(selector: Selector, subject: Subject) -> bool:
    """An empty selector selects every node."""
    if selector.is_empty or subject.node_id in selector.nodes:
        return True
    if not (selector.roles or selector.labels):
        return False
    has_role = not selector.roles or any(role in subject.roles for role in selector.roles)
    labels = subject.declared.labels
    return has_role and all(labels.get(name) == value for name, value in selector.labels.items())


# ---- whom a member may know: by a tenant that both serve; who serves none is known to everybody, and knows those alone
# that serve none either (peers.py chooses, site_relays.py adds the relays of a site)


def policy_of(model: Model, subject: Subject) -> PeerPolicy | None:
    return next((policy for policy in model.peer_policies if selects(policy.applies_to, subject)), None)


def most(policy: PeerPolicy | None, subject: Subject) -> int:
    return min(limit(policy), THIN_PEERS) if is_thin(subject) else limit(policy)


def limit(policy: PeerPolicy | None) -> int:
    return DEFAULT_PEERS if policy is None else policy.most


def name_of(policy: PeerPolicy | None) -> str:
    return policy.id if policy else ""


def is_thin(subject: Subject) -> bool:
    return "thin" in subject.roles


def is_candidate(subject: Subject) -> bool:
    """A witness carries no traffic, and a member without roles nothing at all: they are nobody's peers."""
    return subject.member.kind != "witness" and bool(subject.roles)


def may_know(policy: PeerPolicy | None, other: Subject) -> bool:
    return policy is None or selects(policy.peers, other)


def visible_organizations(subject: Subject) -> tuple[str, ...]:
    return (NOBODYS, *subject.organizations)


def home(subject: Subject) -> tuple[str, ...]:
    return subject.organizations or (NOBODYS,)


def _by_organization(resources: "list[Kind]") -> "dict[str, list[Kind]]":
    groups: dict[str, list[Kind]] = {}
    for resource in resources:
        groups.setdefault(str(getattr(resource, "organization", "")), []).append(resource)
    return groups

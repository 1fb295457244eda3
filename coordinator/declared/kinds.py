"""The kinds of declared resources, each a dataclass whose fields carry their form and their meaning (rules S22, S69).

In a file a resource is `kind`, `id` and `spec`; `spec` has exactly the members of the class. docs/resources.md is made
from this file, and the coordinator compiles nothing but what stands here and who is a member.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass, replace
from typing import ClassVar

from coordinator.declared.fields import (
    ADDRESS,
    BOOLEAN,
    DIGEST,
    DOMAIN,
    ENDPOINT,
    FINGERPRINT,
    HOST,
    HOST_PORT,
    IDENTIFIER,
    NETWORK,
    AnyJson,
    Authorities,
    FieldFault,
    ListForm,
    MappingForm,
    OneOf,
    Open,
    Path,
    PathMapping,
    PublicKeys,
    RecordForm,
    RequirementForm,
    default_of,
    integer,
    is_required,
    lines,
    member,
    members,
    name_of,
    text,
    words,
)
from snapshot import canonical
from snapshot.identifiers import SCOPE_TYPES
from snapshot.mirrors import MOST_AUTHORITIES, MOST_CERTIFICATES
from snapshot.roles import ROLES, THIN_PEERS

NODE_KINDS = ("data", "witness")
ALLOWABLE = (  # rules S55; what S56 names is never to be allowed
    "continue_services",
    "preserve_routes",
    "reconnect_peers",
    "validate_peers",
    "use_storage_endpoints",
    "report_degraded",
)
FILE_MODES = ("0600", "0640", "0644", "0700", "0750", "0755")
FILES = 10_000  # of one Config
PARTS = 256  # of one file
EGRESS_TYPES = ("connector", "vpn_connection", "resource")
TUNNEL_MODES = ("none", "split", "full")
PREPARE_ALL, PREPARE_RING, PREPARE_NONE = PREPARES = ("all", "ring", "none")
ON_FAILURE_HALT, ON_FAILURE_REVERT = ON_FAILURES = ("halt", "revert")
MOST_RINGS = 16
EXPECTATION_ACTIONS = ("enforce", "warn")
INLINE_BYTES = 1 << 20
DAY = 86_400
DEFAULT_PEERS = 19  # rules, Numbers: active 4, warm 12, cold 3


@dataclass(frozen=True)
class Selector:
    """Nodes: those named in `nodes`, and those that have one of `roles` and all of `labels` (of what is given)."""

    nodes: tuple[str, ...] = member(ListForm(IDENTIFIER, 1_000), "node ids", ())
    roles: tuple[str, ...] = member(ListForm(OneOf(tuple(ROLES)), 8), "a node with any of these roles", ())
    labels: Mapping[str, str] = member(MappingForm(text(128), 32), "a node with all of these labels", {})

    @property
    def is_empty(self) -> bool:
        return not (self.nodes or self.roles or self.labels)


@dataclass(frozen=True)
class ServiceEndpoint:
    """Where a service answers. Only what is `exposed` is projected to ingress nodes."""

    name: str = member(IDENTIFIER, "unique within the service")
    protocol: str = member(OneOf(("http", "https", "tcp", "udp")), "what is spoken there")
    host: str = member(HOST, "where it listens")
    port: int = member(integer(1, 65_535), "the port")
    exposed: bool = member(BOOLEAN, "whether ingress nodes of the organization learn of it", default=False)


@dataclass(frozen=True)
class Exemption:
    """A value that looks like a secret to the coordinator and is none; what nodes refuse, nothing exempts."""

    at: str = member(text(256), "where it stands, as the refusal names it without `spec`: `settings.login[0].line`")
    family: str = member(IDENTIFIER, "what it was taken for")
    because: str = member(words(256), "why it is no secret, for the audit log")


@dataclass(frozen=True)
class RouteMatch:
    """What a route takes; a member that is left out matches everything."""

    hosts: tuple[str, ...] = member(ListForm(HOST, 64), "host names asked for", ())
    path_prefix: str = member(text(256), "how the path begins", "")
    protocol: str = member(OneOf(("any", "http", "https", "tcp", "udp")), "what is spoken", "any")
    port: int = member(integer(0, 65_535), "the port that is entered at; 0 is any", 0)


@dataclass(frozen=True)
class ConfigReference:
    """A file of a Config, by name: it is renewed and withdrawn by itself."""

    config: str = member(IDENTIFIER, "the id of a Config that these nodes hold")
    file: str = member(text(255), "the path of the file in it")


@dataclass(frozen=True)
class TokenIssuer:
    """Whose tokens are taken, and by which public keys; exactly one of `jwks` and `jwks_in`."""

    issuer: str = member(words(256), "the `iss` of a token")
    audiences: tuple[str, ...] = member(ListForm(words(256), 16), "the `aud`s of which a token has one")
    jwks: Mapping[str, object] | None = member(PublicKeys(64 << 10), "the issuer's public keys", None)
    jwks_in: ConfigReference | None = member(
        RecordForm(ConfigReference), "the file that holds them, where they change by themselves", None
    )


@dataclass(frozen=True)
class QosClass:
    """One class of traffic."""

    priority: int = member(integer(0, 7), "7 goes first")
    rate_kbit_per_s: int = member(integer(0, 10**9), "0 is unlimited", 0)
    burst_kib: int = member(integer(0, 10**6), "0 leaves it to the node", 0)


@dataclass(frozen=True)
class Resource:
    """What all kinds have in common: one of these, by its kind and id, is one row of declared state."""

    KIND: ClassVar[str] = ""
    ABOUT: ClassVar[str] = ""

    id: str

    @property
    def key(self) -> tuple[str, str]:
        return (self.KIND, self.id)

    def spec(self) -> dict[str, object]:
        """As JSON, every member written out."""
        value: dict[str, object] = json.loads(canonical.dumps(asdict(self)))
        value.pop("id")
        return value

    def brief(self) -> dict[str, object]:
        """As JSON, without the members that say what they would say if they were left out."""
        return _members_of(self)


_DEFAULTS: dict[type[object], tuple[tuple[str, str, object], ...]] = {}


def _members_of(value: object) -> dict[str, object]:
    said = ((name, default, getattr(value, field)) for field, name, default in _defaults(type(value)))
    return {name: _brief(given) for name, default, given in said if given != default}


def _defaults(of: type[object]) -> tuple[tuple[str, str, object], ...]:
    """Of each member the field, its name, and what it is where it is left out. Nothing is equal to MISSING, and there
    are thousands of files.
    """
    if of not in _DEFAULTS:
        _DEFAULTS[of] = tuple(
            (field.name, name_of(field), MISSING if is_required(field) else default_of(field)) for field in members(of)
        )
    return _DEFAULTS[of]


def _is_the_same(mine: Resource, other: object) -> bool:
    """1 and true are two settings, though Python takes them for one."""
    if not isinstance(other, type(mine)):
        return False
    return all(getattr(mine, field.name) == getattr(other, field.name) for field in fields(mine)) and (
        canonical.dumps(mine.spec()) == canonical.dumps(other.spec())
    )


def _brief(value: object) -> object:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if is_dataclass(value):
        return _members_of(value)
    if isinstance(value, (tuple, list)):
        return [_brief(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: _brief(inner) for name, inner in value.items()}
    return value


@dataclass(frozen=True)
class Cluster(Resource):
    KIND = "Cluster"
    ABOUT = "The cluster itself, once; its id is the cluster's id. Every node is told of it at the start."

    coordinators: tuple[str, ...] = member(ListForm(ENDPOINT, 16, is_set=False), "where nodes check in, in this order")
    description: str = member(text(256), "for people", "")


@dataclass(frozen=True)
class Site(Resource):
    KIND = "Site"
    ABOUT = (
        "A group of nodes, with a generation of its own. `init` makes the site `default`, which stays whatever is"
        " declared; any other exists while it is declared, and cannot go while a Node, a member, an entry of the"
        " allowlist or an open token names it."
    )

    description: str = member(text(256), "for people", "")


@dataclass(frozen=True)
class Organization(Resource):
    KIND = "Organization"
    ABOUT = "A tenant. A node is given nothing of an organization that it does not serve."

    name: str = member(text(128), "for people", "")


@dataclass(frozen=True)
class Node(Resource):
    KIND = "Node"
    ABOUT = "What a node is to be. It gets it once it has joined, for which the allowlist and a token are needed."

    kind: str = member(OneOf(NODE_KINDS), "a witness has no roles and carries no services", "data")
    roles: tuple[str, ...] = member(ListForm(OneOf(tuple(ROLES)), 8), "what it may be given", ())
    organizations: tuple[str, ...] = member(ListForm(IDENTIFIER, 256), "whom it serves", ())
    site: str = member(IDENTIFIER, "the Site where it stands", "default")
    addresses: tuple[str, ...] = member(ListForm(HOST_PORT, 16, is_set=False), "where its peers may reach it", ())
    labels: Mapping[str, str] = member(MappingForm(text(128), 32), "to be selected by", {})
    relay: bool = member(
        BOOLEAN, "whether it is a relay of its site: members there that serve its tenants ask it first", default=False
    )


_EXEMPT_SETTINGS: tuple[Exemption, ...] = member(
    ListForm(RecordForm(Exemption), 32, is_set=False), "values of `settings` that look like secrets and are none", ()
)


@dataclass(frozen=True)
class Service(Resource):
    KIND = "Service"
    ABOUT = (
        "A workload of one organization. The nodes that run it get all of it; ingress nodes of the organization get"
        " its exposed endpoints. Only nodes with the role `egress_service` that serve the organization run services."
        " Each is a scope of its own on a node, `service_assignment/<id>`: refused, renewed and withdrawn by itself."
    )

    organization: str = member(IDENTIFIER, "whose it is")
    runs_on: Selector = member(RecordForm(Selector), "the nodes that run it")
    workload: str = member(text(256), "what is run: a name that the node's supervisor knows", "")
    endpoints: tuple[ServiceEndpoint, ...] = member(
        ListForm(RecordForm(ServiceEndpoint), 32, is_set=False), "where it answers", ()
    )
    settings: Mapping[str, object] = member(Open(16 << 10), "the service's own configuration", {})
    resources: tuple[str, ...] = member(
        ListForm(IDENTIFIER, 32), "the EgressResources that it may use, told to the nodes that run it", ()
    )
    exempt: tuple[Exemption, ...] = _EXEMPT_SETTINGS

    def __eq__(self, other: object) -> bool:
        return _is_the_same(self, other)

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class EgressResource(Resource):
    KIND = "EgressResource"
    ABOUT = (
        "What egress services go out by, or reach: told to the nodes that run a Service whose `resources` name it,"
        " beside the service, as section `resources` of `service_assignment/<service>`; with it goes its connector."
        " `/v1/services/<id>` of the local API and `active/services/<id>/resources.json` have those of a service. It"
        " names secrets by `secret_ref` and holds none. `holdfastctl revoke resource ID` takes it, and what is reached"
        " by it, from every node with the next head, whatever else is declared: `resources` shows it no more, and"
        " `/v1/may` refuses `use_resource` and its secrets, also when no coordinator answers afterwards. One list of a"
        " head revokes services and these, so no two share an id."
    )

    organization: str = member(IDENTIFIER, "whose it is: the services'")
    type: str = member(OneOf(EGRESS_TYPES), "what it is")
    connector: str = member(text(64), "the connector that it is reached by: the id of another EgressResource", "")
    settings: Mapping[str, object] = member(Open(16 << 10), "what whoever connects has to know", {})
    schema: Mapping[str, object] = member(
        Open(32 << 10), "a JSON Schema that `settings` must fit; nodes are not told of it", {}
    )
    exempt: tuple[Exemption, ...] = _EXEMPT_SETTINGS

    def __eq__(self, other: object) -> bool:
        return _is_the_same(self, other)

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Route(Resource):
    KIND = "Route"
    ABOUT = (
        "How traffic comes to a service: known to the core and thin nodes of its organization, to the ingress nodes"
        " that it enters at, and to the nodes that run the service."
    )

    organization: str = member(IDENTIFIER, "whose it is: the service's")
    service: str = member(IDENTIFIER, "where it leads")
    enters_at: Selector = member(
        RecordForm(Selector), "which ingress nodes; left out, all of the organization", Selector()
    )
    match: RouteMatch = member(RecordForm(RouteMatch), "what it takes", RouteMatch())
    qos: str = member(text(64), "the id of a QosPolicy, or nothing", "")
    ttl_s: int = member(integer(0, DAY), "how long a session over it may outlive its authority", 3_600)


@dataclass(frozen=True)
class EntryPolicy(Resource):
    KIND = "EntryPolicy"
    ABOUT = (
        "Which clients may come in at ingress nodes, and by which tokens: told to the ingress nodes of its"
        " organization, beside their routes, as section `entry_policies` of `route_policy`. Whoever runs the entrance"
        " enforces it: `/v1/scopes/route_policy/sections/entry_policies` of the local API has all of them. It is"
        " revoked by its name: deleted, the next head withdraws it. It never holds a private key."
    )

    organization: str = member(IDENTIFIER, "whose it is")
    enters_at: Selector = member(
        RecordForm(Selector), "which ingress nodes; left out, all of the organization", Selector()
    )
    services: tuple[str, ...] = member(ListForm(IDENTIFIER, 256), "what may be entered; left out, all exposed", ())
    networks: tuple[str, ...] = member(ListForm(NETWORK, 256), "where clients may come from; left out, anywhere", ())
    issuers: tuple[TokenIssuer, ...] = member(
        ListForm(RecordForm(TokenIssuer, ("jwks", "jwks_in")), 16, is_set=False),
        "whose tokens are taken, one of which a client must have; left out, none is asked for",
        (),
    )

    def spec(self) -> dict[str, object]:
        """Of an issuer's two ways to its keys the one that is given."""
        return {**super().spec(), "issuers": _brief(self.issuers)}


@dataclass(frozen=True)
class SessionBounds:
    """What holds of the sessions of one thin node."""

    ttl_s: int = member(integer(60, 7 * DAY), "how long one lasts at most, however busy")
    idle_s: int = member(integer(0, DAY), "after how long without traffic one ends; 0: never by that", 0)
    most: int = member(integer(1, 1_000), "how many at once", 1)


@dataclass(frozen=True)
class Tunnel:
    """What goes through the tunnel of a thin node: nothing, what is named, or all."""

    mode: str = member(OneOf(TUNNEL_MODES), "`split`: to `networks` and `domains` alone", "none")
    networks: tuple[str, ...] = member(ListForm(NETWORK, 256), "what is reached through it", ())
    dns: tuple[str, ...] = member(ListForm(ADDRESS, 8, is_set=False), "who is asked for names, in this order", ())
    domains: tuple[str, ...] = member(ListForm(DOMAIN, 256), "the domains, with all below them, whose names are", ())


@dataclass(frozen=True)
class SessionPolicy(Resource):
    KIND = "SessionPolicy"
    ABOUT = (
        "The sessions and the tunnel of thin nodes: told to those of its organization that it selects, beside their"
        " routes, as section `session_policies` of `route_policy`. Of those of one organization that apply, the highest"
        " `priority` is a node's, then the lowest id. Whoever runs the tunnel enforces it:"
        " `/v1/scopes/route_policy/sections/session_policies` of the local API has one for each organization. It is"
        " revoked by its name: deleted, the next head withdraws it."
    )

    organization: str = member(IDENTIFIER, "whose it is")
    session: SessionBounds = member(RecordForm(SessionBounds), "how long sessions last, and how many there are")
    applies_to: Selector = member(
        RecordForm(Selector), "which thin nodes; left out, all of the organization", Selector()
    )
    priority: int = member(integer(0, 1_000), "the highest wins", 0)
    tunnel: Tunnel = member(RecordForm(Tunnel), "what goes through the tunnel", Tunnel())


@dataclass(frozen=True)
class QosPolicy(Resource):
    KIND = "QosPolicy"
    ABOUT = "Classes of traffic for core nodes: of one organization, or of all."

    classes: Mapping[str, QosClass] = member(MappingForm(RecordForm(QosClass), 32), "by the class's name")
    organization: str = member(text(64), "whose it is; left out, everybody's", "")


@dataclass(frozen=True)
class StorageEndpoint(Resource):
    KIND = "StorageEndpoint"
    ABOUT = (
        "A store of what is published: an HTTPS file server with the tree that `holdfastctl publish --to` writes."
        " A coordinator keeps it up to date where its coordinator.toml says how (`[storage.<id>]`: a directory, or"
        " an S3-compatible bucket); else somebody does. Nodes ask it for heads and documents where no coordinator"
        " answers. Its certificate is of the same CA as the coordinator's, unless one of `system_roots`,"
        " `authorities` and `certificates` says what it is of; agents from before these pass over such a mirror."
        " Nodes show it no certificate of their own then. It speaks TLS 1.3, and redirects are not followed. It is"
        " believed nothing: what it gives is verified all the same, and whoever runs it sees what is asked for. A"
        " coordinator writes there what `organizations` and `families` say, and nothing of another organization."
        " The node that runs it copies from the endpoints that `replicates` names, which nodes run as well, whatever it"
        " lacks: also while every coordinator is away."
    )

    url: str = member(ENDPOINT, "where it answers")
    organizations: tuple[str, ...] = member(
        ListForm(IDENTIFIER, 256), "for nodes that serve any; left out, for all", ()
    )
    node: str = member(text(64), "the storage_config node that runs it, or nothing", "")
    families: tuple[str, ...] = member(
        ListForm(OneOf(SCOPE_TYPES), len(SCOPE_TYPES)), "the scope types that it is to keep; left out, all", ()
    )
    replicates: tuple[str, ...] = member(ListForm(IDENTIFIER, 16), "endpoints that it is to copy from", ())
    system_roots: bool = member(
        BOOLEAN, "its chain ends at a CA that the node's machine believes anyway: a public CDN", default=False
    )
    authorities: str = member(Authorities(MOST_AUTHORITIES), "its chain ends at one of these CAs", "")
    certificates: tuple[str, ...] = member(
        ListForm(FINGERPRINT, MOST_CERTIFICATES),
        "the SHA-256 of certificates (DER) of which it shows one, whatever name and dates that bears; two while it is"
        " renewed",
        (),
    )


@dataclass(frozen=True)
class DegradedModePolicy(Resource):
    KIND = "DegradedModePolicy"
    ABOUT = (
        "What a node may go on doing without a fresh head (rules S55..S58). Of those that apply, the highest `priority`"
        " is a node's, then the lowest id; without one it may do nothing."
    )

    applies_to: Selector = member(RecordForm(Selector), "which nodes; left out, all", Selector())
    priority: int = member(integer(0, 1_000), "the highest wins", 0)
    allow: tuple[str, ...] = member(ListForm(OneOf(ALLOWABLE), len(ALLOWABLE)), "what it may go on doing", ())
    max_duration_s: int = member(integer(0, 7 * DAY), "counted from the head's expiry", DAY)
    route_ttl_s: int = member(integer(0, DAY), "how long routes are kept", 3_600)
    session_ttl_s: int = member(integer(0, DAY), "how long sessions are kept", 900)
    allow_unconfirmed_start: bool = member(BOOLEAN, "whether a restart without a coordinator goes on", default=False)


MUTUAL_PULL, ALLOW_PULL = "mutual-pull", "allow-pull"
FETCHES = ("pull", ALLOW_PULL, MUTUAL_PULL)


@dataclass(frozen=True)
class PeerPolicy(Resource):
    KIND = "PeerPolicy"
    ABOUT = (
        "Which peers a node is told of, and how many at most: never the whole topology. Of those that apply, the"
        f" highest `priority` is a node's, then the lowest id; without one it is told of {DEFAULT_PEERS}. What is told"
        " (addresses, certificates) is for the services that connect nodes. An agent asks peers that have a"
        " `direct_url` for heads and documents when nobody else gives them, and answers those that its own directory"
        " names (`[peers] listen` in its agent.toml). Among its peers are two relays of its site, where there are two,"
        " which it asks first; a relay is told of those that it is a relay to, beyond what the policy allows."
    )

    applies_to: Selector = member(RecordForm(Selector), "which nodes; left out, all", Selector())
    priority: int = member(integer(0, 1_000), "the highest wins", 0)
    peers: Selector = member(
        RecordForm(Selector), "whom it may know; left out, every member it shares a tenant with", Selector()
    )
    most: int = member(integer(1, 256), f"at most so many; a thin node never more than {THIN_PEERS}", DEFAULT_PEERS)
    fetch: str = member(
        OneOf(FETCHES),
        "who fetches: `pull` these nodes from their peers, `allow-pull` the peers from them, `mutual-pull` both",
        MUTUAL_PULL,
    )
    automatic_refresh: str = member(
        OneOf(("", "yes", "no")),
        "whether a full resync from a peer may start unattended: `yes` on one side of a pair only; left out, as nodes"
        " have it that say nothing of it: what is lost comes by itself",
        "",
    )


@dataclass(frozen=True)
class RolloutRing:
    """How far a change has gone once this ring has it, those before it included: so many `nodes`, or `percent`."""

    nodes: int | None = member(integer(1, 1_000_000), "so many nodes", None)
    percent: int | None = member(integer(1, 100), "so many in a hundred of the nodes that the change touches", None)
    of: Selector = member(
        RecordForm(Selector), "a cohort that is counted by itself, such as a lab; left out, all", Selector()
    )

    def to_value(self) -> object:
        """As JSON, without what it does not say."""
        return _brief(self)


DEFAULT_RINGS = (RolloutRing(nodes=1), RolloutRing(percent=10), RolloutRing(percent=100))


@dataclass(frozen=True)
class RolloutPolicy(Resource):
    KIND = "RolloutPolicy"
    ABOUT = (
        "How a change comes to nodes that have something already: who is asked before, in which rings it goes, and what"
        " is done where it fails. Of those that apply, the highest `priority` is a node's, then the lowest id; without"
        " one all are asked, and it goes to one node, a tenth and all, 30 s each, in one ring where it touches fewer"
        " than three. What is under way goes on by the policy of its apply. Inside a ring the order is by a hash of"
        " change and node; the first prefers nodes that are active and fresh, and whose services have validators."
    )

    applies_to: Selector = member(RecordForm(Selector), "which nodes; left out, all", Selector())
    priority: int = member(integer(0, 1_000), "the highest wins", 0)
    prepare: str = member(
        OneOf(PREPARES),
        "who judges it before the first node of a ring runs it: `all` nodes that it touches, those of the `ring`, or"
        " `none`",
        PREPARE_ALL,
    )
    rings: tuple[RolloutRing, ...] = member(
        ListForm(RecordForm(RolloutRing, ("nodes", "percent")), MOST_RINGS, is_set=False),
        "how far it goes step by step, rising to all: `[{nodes: 1}, {percent: 10}, {percent: 100}]`",
        DEFAULT_RINGS,
    )
    bake_s: int = member(integer(0, DAY), "how long a ring has to run it well before the next one gets it", 30)
    success_percent: int = member(
        integer(1, 100), "how many in a hundred of a ring's reachable nodes must take it and keep it", 99
    )
    on_failure: str = member(
        OneOf(ON_FAILURES), "`halt`: it waits for a person; `revert`: what was before is given back", ON_FAILURE_HALT
    )
    approvals: int = member(
        integer(0, 16),
        "how many operators beside its author have to approve it before anything begins; not more than there are",
        0,
    )

    def spec(self) -> dict[str, object]:
        """Of a ring's two sizes the one that is given."""
        return {**super().spec(), "rings": _brief(self.rings)}


@dataclass(frozen=True)
class FileContent:
    """What a file holds, by the hashes of its parts; the parts themselves are kept apart, once."""

    size: int = member(integer(0, PARTS << 20), "bytes in all")
    parts: tuple[str, ...] = member(
        ListForm(DIGEST, PARTS, is_set=False), "the SHA-256 of each MiB, and of what is left"
    )
    names: tuple[str, ...] = member(
        ListForm(text(256), 1_000), "what a template asks for, found by the coordinator", ()
    )
    origin: str = member(text(1_024), "where it was read from, for people", "")


_NAME = text(1_024)
SOURCES = ("file", "text", "json", "base64", "content")


@dataclass(frozen=True)
class ConfigFile:
    """One file: exactly one of `file`, `text`, `json` and `base64` says what it holds; `content` where that is kept."""

    file: str = member(_NAME, "a file beside this YAML file, or in a folder there; `holdfastctl` reads it", "")
    text: str | None = member(lines(INLINE_BYTES), "what it holds, in UTF-8", None)
    json: object = member(AnyJson(INLINE_BYTES), "what it holds, written as canonical JSON", None)
    base64: str | None = member(lines(2 * INLINE_BYTES), "what it holds, in base64", None)
    content: FileContent | None = member(
        RecordForm(FileContent), "what it holds, where the coordinator keeps it already, as it shows it itself", None
    )
    template: bool = member(BOOLEAN, "whether `${node.id}` and the like stand for a node's own", default=False)
    schema: str = member(
        _NAME,
        "a file with a JSON Schema, beside this YAML file, that the JSON must fit which it holds; of a template each"
        " node's own",
        "",
    )
    mode: str = member(OneOf(FILE_MODES), "its mode; an agent may narrow it", "0644")

    @property
    def stored_content(self) -> FileContent:
        """Of a file that was settled (config_files.py): nothing else is declared."""
        if self.content is None:
            raise AssertionError("this file was not settled")
        return self.content


@dataclass(frozen=True)
class Config(Resource):
    KIND = "Config"
    ABOUT = (
        "Files for any program: a folder of its own on every node that `to` selects, and that serves the organization"
        " where one is given, as the scope `config/<id>`. A witness holds none. Files are uploaded by content, so an"
        " apply sends what has changed. In a template `${node.id}` `${node.site}` `${node.kind}`"
        " `${node.labels.NAME}` `${cluster.id}` stand for the node's own, and `$$` for a dollar; there is no logic."
    )

    to: Selector = member(RecordForm(Selector), "the nodes that hold it")
    files: Mapping[str, ConfigFile] = member(
        PathMapping(RecordForm(ConfigFile, SOURCES), FILES), "by their paths in the folder"
    )
    organization: str = member(text(64), "whose it is; left out, everybody's", "")
    exempt: tuple[Exemption, ...] = member(
        ListForm(RecordForm(Exemption), 32, is_set=False),
        "values of `files` that look like secrets and are none",
        (),
    )

    @property
    def parts(self) -> Iterator[str]:
        """Of all files, once settled."""
        return (part for file in self.files.values() for part in file.stored_content.parts)

    def spec(self) -> dict[str, object]:
        """As JSON; of a file without what it does not say: there are thousands."""
        bare = super(Config, replace(self, files={})).spec()
        return {**bare, "files": _brief(self.files)}


@dataclass(frozen=True)
class Expectation(Resource):
    KIND = "Expectation"
    ABOUT = (
        "What must hold of what nodes are given, whoever changes it: judged on the compiled documents of every node"
        " that an apply touches, and of all that it concerns where the Expectation itself is new or another. Nodes are"
        " told nothing of it. `holdfastctl test -f DIR` judges the same without a coordinator. `pointer` leads into the"
        " sections of the scope (`/routes/north/ttl_s`; a map that is cut into parts is one section, by its name), and"
        " of a Config to a file: `nginx.conf` is the file itself, its presence, its text, or for `at_least` its size;"
        " `limits.json#/tables/users` is what stands there in a file of JSON. `null` is nothing. `at_least` asks for a"
        " number, or for the length of a text, a list or an object, so `{at_least: 1}` is what must be filled in. Where"
        " `of` chooses nodes, each of them must be given the scope, unless it says `absent`; left out, the nodes that"
        " are given it count, and those that would lose it."
    )

    scope: str = member(text(256), "what is looked at: `route_policy`, `service_assignment/web`, `config/nginx`")
    pointer: str = member(words(1_024), "where: `/SECTION/...`, and of a Config `FILE` or `FILE#/...`")
    is_: object = member(RequirementForm(), "what must hold there", name="is")
    of: Selector = member(RecordForm(Selector), "whose; left out, of all that are given the scope", Selector())
    action: str = member(OneOf(EXPECTATION_ACTIONS), "`enforce` refuses the apply, `warn` says it", "enforce")
    description: str = member(text(256), "for people; said where it is not met", "")

    def spec(self) -> dict[str, object]:
        """As it is declared: one of its names is a word of Python's."""
        value = super().spec()
        return {"is": value.pop("is_"), **value}

    def __eq__(self, other: object) -> bool:
        return _is_the_same(self, other)

    def __hash__(self) -> int:
        return hash(self.key)


KINDS: tuple[type[Resource], ...] = (
    Cluster,
    Site,
    Organization,
    Node,
    Service,
    EgressResource,
    Route,
    EntryPolicy,
    SessionPolicy,
    QosPolicy,
    StorageEndpoint,
    DegradedModePolicy,
    PeerPolicy,
    RolloutPolicy,
    Config,
    Expectation,
)
BY_NAME = {kind.KIND: kind for kind in KINDS}
EXEMPTING = (Service, EgressResource, Config)  # those that may say what is no secret


def read(kind: type[Resource], id_: str, spec: object, path: Path, faults: list[FieldFault]) -> Resource | None:
    """The resource, or None after reporting at least one fault."""
    resource: Resource | None = RecordForm(kind).read_as(spec, path, faults, id=id_)
    return resource


def restore(kind: str, id_: str, spec: object) -> Resource:
    """A resource from the database, where only what `read` accepted is kept."""
    faults: list[FieldFault] = []
    value = read(BY_NAME[kind], id_, spec, (), faults)
    if value is None:
        raise AssertionError(f"{kind} {id_} in the database is out of form: {faults}")
    return value

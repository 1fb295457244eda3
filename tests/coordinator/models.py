"""Declared states for tests: one by hand, and hypothesis strategies for any."""

from dataclasses import replace

from hypothesis import strategies as st

from coordinator.declared.kinds import (
    ALLOWABLE,
    Cluster,
    Config,
    ConfigFile,
    DegradedModePolicy,
    EgressResource,
    EntryPolicy,
    Expectation,
    FileContent,
    Node,
    Organization,
    PeerPolicy,
    QosClass,
    QosPolicy,
    Resource,
    RolloutPolicy,
    Route,
    RouteMatch,
    Selector,
    Service,
    ServiceEndpoint,
    SessionBounds,
    SessionPolicy,
    Site,
    StorageEndpoint,
    Tunnel,
)
from coordinator.declared.model import MemberEntry, Model
from snapshot.roles import ROLES

NODES = [f"n{number}" for number in range(7)]
ORGANIZATIONS = ["acme", "umbrella", "wayne"]


def model(*resources: Resource, members: dict[str, MemberEntry] | None = None) -> Model:
    """Every declared node is a member of its declared kind, if nothing else is said."""
    if members is None:
        declared = [each for each in resources if isinstance(each, Node)]
        members = {each.id: entry(each.id, each.kind) for each in declared}
    return Model("prod", {each.key: each for each in resources}, members)


def entry(node_id: str, kind: str = "data", pin: bytes = b"", url: str | None = None) -> MemberEntry:
    return MemberEntry(node_id, kind, "default", (pin or node_id.encode(),), url)


subsets = lambda values, most=3: st.lists(st.sampled_from(values), unique=True, max_size=most).map(  # noqa: E731 - a strategy
    lambda chosen: tuple(sorted(chosen))
)
labels = st.dictionaries(st.sampled_from(["rack", "zone"]), st.sampled_from(["a", "b"]), max_size=2)
selectors = st.builds(Selector, nodes=subsets(NODES), roles=subsets(list(ROLES), 2), labels=labels)
one_organization = st.sampled_from(ORGANIZATIONS)
few = st.integers(0, 3)


def _named(of, names, **fields):
    return st.builds(of, st.sampled_from(names), **fields)


endpoints = st.builds(
    ServiceEndpoint, st.just("web"), st.just("http"), st.just("h"), st.integers(1, 3), exposed=st.booleans()
)
files = st.builds(
    lambda digit, names: ConfigFile(content=FileContent(1, (digit * 64,), names), template=bool(names)),
    st.sampled_from("ab"),
    st.sampled_from([(), ("node.id",), ("node.labels.rack",), ("node.labels.zone", "node.site"), ("cluster.id",)]),
)
resources = st.one_of(
    _named(Cluster, ["prod"], coordinators=subsets(["https://a:1", "https://b:1"])),
    _named(Site, ["default", "east"], description=st.sampled_from(["", "x"])),
    _named(Organization, ORGANIZATIONS, name=st.sampled_from(["", "x"])),
    _named(
        Node, NODES, kind=st.sampled_from(["data", "data", "data", "witness"]), roles=subsets(list(ROLES)),
        organizations=subsets(ORGANIZATIONS), labels=labels, addresses=subsets(["h:1", "h:2"]),
        relay=st.booleans(),
    ),
    _named(
        Service, ["s0", "s1", "s2"], organization=one_organization, runs_on=selectors,
        endpoints=st.lists(endpoints, max_size=2).map(tuple), settings=st.fixed_dictionaries({"n": few}),
        resources=subsets(["x0", "x1", "x2"], 2),
    ),
    _named(
        EgressResource, ["x0", "x1", "x2"], organization=one_organization,
        type=st.sampled_from(["connector", "vpn_connection", "resource"]), connector=st.sampled_from(["", "x0", "x1"]),
        settings=st.fixed_dictionaries({"n": few}),
    ),
    _named(
        SessionPolicy, ["t0", "t1", "t2"], organization=one_organization, applies_to=selectors, priority=few,
        session=st.builds(SessionBounds, st.integers(60, 62)),
        tunnel=st.builds(Tunnel, st.just("split"), networks=subsets(["192.0.2.0/24", "2001:db8::/32"])),
    ),
    _named(
        Route, ["r0", "r1", "r2"], organization=one_organization, service=st.sampled_from(["s0", "s1", "s2"]),
        enters_at=selectors, match=st.builds(RouteMatch, port=few), qos=st.sampled_from(["", "q0"]),
    ),
    _named(
        EntryPolicy, ["e0", "e1"], organization=one_organization, enters_at=selectors,
        services=subsets(["s0", "s1"]), networks=subsets(["192.0.2.0/24", "2001:db8::/32"]),
    ),
    _named(
        QosPolicy, ["q0", "q1"], classes=st.fixed_dictionaries({"c": st.builds(QosClass, few)}),
        organization=st.sampled_from(["", *ORGANIZATIONS]),
    ),
    _named(
        StorageEndpoint, ["e0", "e1"], url=st.sampled_from(["https://e:1", "https://e:2"]),
        organizations=subsets(ORGANIZATIONS), node=st.sampled_from(["", *NODES]), replicates=subsets(["e0", "e1"]),
    ),
    _named(
        DegradedModePolicy, ["d0", "d1"], applies_to=selectors, priority=few, allow=subsets(list(ALLOWABLE)),
        max_duration_s=few,
    ),
    _named(
        Config, ["c0", "c1"], to=selectors.filter(lambda each: not each.is_empty),
        files=st.dictionaries(st.sampled_from(["a", "b"]), files, min_size=1),
        organization=st.sampled_from(["", *ORGANIZATIONS]),
    ),
    _named(RolloutPolicy, ["g0", "g1"], applies_to=selectors, priority=few, bake_s=few),
    st.builds(
        Expectation, st.sampled_from(["w0", "w1"]), st.sampled_from(["route_policy", "peer_directory"]),
        st.just("/routes"), is_=st.sampled_from(["exists", {"at_least": 1}]), of=selectors,
    ),
    _named(PeerPolicy, ["p0", "p1"], applies_to=selectors, priority=few, peers=selectors, most=st.integers(1, 4)),
)  # fmt: skip
_SOME = frozenset({("Service", "s0"), ("Config", "c0"), ("Route", "r0")})
keeps = st.sampled_from([None, None, None, frozenset(), _SOME])  # of members that are draining, and of others
members = st.dictionaries(
    st.sampled_from(NODES),
    st.tuples(st.sampled_from(["data", "data", "witness"]), st.sampled_from([b"1", b"2"]), keeps),
    max_size=7,
).map(
    lambda found: {
        id_: replace(entry(id_, kind, id_.encode() + pin), keeps=kept) for id_, (kind, pin, kept) in found.items()
    }
)
resource_sets = st.lists(resources, max_size=14).map(lambda found: {each.key: each for each in found})


@st.composite
def models(draw):
    return Model("prod", draw(resource_sets), draw(members))


@st.composite
def changes(draw):
    """A state, and another that differs from it in a few resources and members."""
    before = draw(models())
    edited = dict(before.resources)
    for key in draw(st.lists(st.sampled_from(sorted(edited)), max_size=2)) if edited else []:
        edited.pop(key, None)
    for each in draw(st.lists(resources, max_size=3)):
        edited[each.key] = each
    joined = dict(before.members)
    for node_id in draw(subsets(NODES, 1)):
        joined.pop(node_id, None)
    joined |= dict(list(draw(members).items())[:1])
    return before, Model("prod", edited, joined)

"""What the nodes of a declared state do in an outage: each one, and in a sentence for those who apply it. Pure.

    of_declared(model, node_id, outage, settings)    as if all that it is to hold were published when the outage begins
    warnings(model, settings)                        whose nodes would stop with their head, or at a restart

snapshot/outage.py foresees, by the node's own gate. A declared node counts although it has not joined yet: who
writes the first file is to see what it says. Warnings look at one node of each sort (policy, roles), not at thousands.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.declared import views
from coordinator.declared.compiler import compile_scope
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.kinds import Cluster, DegradedModePolicy, Node
from coordinator.declared.model import MemberEntry, Model, NodeSort
from coordinator.declared.node_scopes import degraded_policy, policy_value
from snapshot import canonical
from snapshot.bundle import SCOPE as TRUST_BUNDLE
from snapshot.degraded import GateFacts, HeldScope
from snapshot.grants import GRANTED_BY, POLICY_SCOPE, POLICY_SECTION, Grants, parse_policy, read_grants
from snapshot.identifiers import parse_scope
from snapshot.outage import Foreseen, Named, Outage, foresee, uses_of
from snapshot.roles import allowed_scope_types

MOST_NAMED = 3
LONGEST_S = 30 * DAY  # beyond it whatever is asked about has expired
CARRIED = ("services", "routes")
_SORT = Grants(services=frozenset({"any"}), routes=frozenset({"any"}))


@dataclass(frozen=True)
class DeclaredScope:
    """One scope that a node holds."""

    expires_at: int
    authority_epoch: int
    sections: Mapping[str, bytes]


def with_declared_members(model: Model) -> Model:
    """Every declared node as a member, too; the same model where each is one."""
    declared = {node.id: MemberEntry(node.id, node.kind, node.site, ()) for node in model.of(Node)}
    if declared.keys() <= model.members.keys():
        return model
    return replace(model, members={**declared, **model.members})


def cluster_id_of(resources: Iterable[object]) -> str:
    """Of the declared Cluster; a name for one that is not declared."""
    return next((resource.id for resource in resources if isinstance(resource, Cluster)), "declared")


def foresee_node(model: Model, node_id: str, outage: Outage, settings: CoordinatorSettings) -> Foreseen:
    """KeyError for a node that is neither declared nor a member."""
    model = with_declared_members(model) if node_id not in model.members else model
    subject, began = model.subjects[node_id], int(outage.began)
    until = began + settings.snapshot_lifetime_s
    documents = {
        scope.name: DeclaredScope(until, 1, compile_scope(model, node_id, scope).read_all())
        for scope in views.scopes(model, subject)
        if scope.type != CONFIG
    }
    # What files hold allows nothing, so nobody need read it.
    files = (scope.name for scope in views.scopes(model, subject) if scope.type == CONFIG)
    documents |= {name: DeclaredScope(until, 1, {}) for name in files}
    documents[TRUST_BUNDLE] = DeclaredScope(began + settings.trust_bundle_lifetime_s, 1, {})
    facts = GateFacts(
        head_expires_at=began + settings.head_lifetime_s,
        authority_epoch=1,
        node_id=node_id,
        roles=frozenset(subject.roles),
    )
    return of_documents(documents, facts, outage)


def of_documents(documents: Mapping[str, DeclaredScope], facts: GateFacts, outage: Outage) -> Foreseen:
    """`facts`: what is known of the node beside what it holds."""
    grants = {
        name: read_grants(parse_scope(name)[0], document.sections.items()) for name, document in documents.items()
    }
    named = {name: _carried_names(name, document) for name, document in documents.items()}
    policy = documents.get(POLICY_SCOPE)
    facts = replace(
        facts,
        scopes={
            name: HeldScope(document.expires_at, document.authority_epoch, grants=grants[name])
            for name, document in documents.items()
        },
        policy=parse_policy(policy.sections.get(POLICY_SECTION)) if policy is not None else None,
        running=frozenset(name for section in named.values() for name in section.get("services", ())),
    )
    return foresee(facts, uses_of(named, facts, outage.began), outage)


def _carried_names(scope: str, document: DeclaredScope) -> dict[str, frozenset[str]]:
    """What it does of what a scope names: of services those that it runs, not those that it only leads to."""
    kind = GRANTED_BY.get(parse_scope(scope)[0])
    if kind is None:
        return {}
    granted = read_grants(parse_scope(scope)[0], document.sections.items())
    if kind == "endpoints":
        return {kind: granted.endpoints}
    values = (canonical.loads(data) for name, data in document.sections.items() if name.split(".")[0] == kind)
    entries = {name: entry for value in values if isinstance(value, dict) for name, entry in value.items()}
    names = frozenset(name for name in entries if name in getattr(granted, kind))
    if kind == "services":
        names = frozenset(name for name in names if "workload" in entries[name])
    return {kind: names}


# ---- in a sentence


@dataclass(frozen=True)
class _Sort:
    """Nodes that do the same in an outage. `why`: in words, what makes them stop."""

    stops_s: int | None
    why: str
    restart: str
    policy: str


def warnings(model: Model, settings: CoordinatorSettings) -> tuple[str, ...]:
    """Of nodes that carry something: data nodes with a role."""
    counts: Counter[_Sort] = Counter()
    for (policy_id, roles), count in sorted(_sorts_of(model).items()):
        policy = next((policy for policy in model.degraded_policies if policy.id == policy_id), None)
        counts[_sort(policy, roles, settings)] += count
    return tuple(_sentences(counts, settings))


def _sorts_of(model: Model) -> Counter[NodeSort]:
    if not model.sorts:
        sorts = (_sort_of(model, node_id) for node_id in model.members.keys() | model.declared_subjects.keys())
        model.sorts.update(Counter(sort for sort in sorts if sort is not None))  # at once: others may ask
    return model.sorts


def _sort_of(model: Model, node_id: str) -> NodeSort | None:
    """None of one that carries nothing."""
    subject = model.subject(node_id)
    if subject is None or not subject.roles:
        return None
    policy = degraded_policy(model, subject)
    return (policy.id if policy else "", subject.roles)


def take_over(before: Model, after: Model, changed: Set[str]) -> None:
    """What was counted for `before`, with a few nodes changed, by the same policies."""
    if not before.sorts:
        return
    after.sorts.update(before.sorts)
    after.sorts.subtract(sort for sort in (_sort_of(before, node_id) for node_id in changed) if sort is not None)
    after.sorts.update(sort for sort in (_sort_of(after, node_id) for node_id in changed) if sort is not None)
    for sort in [sort for sort, count in after.sorts.items() if not count]:
        del after.sorts[sort]


def _sort(policy: DegradedModePolicy | None, roles: tuple[str, ...], settings: CoordinatorSettings) -> _Sort:
    """Of one that holds one service and one route where its roles give it such."""
    outage = Outage(0, LONGEST_S)
    calm = _typical(policy, roles, settings, outage)
    after = settings.head_lifetime_s
    stopped = _last_stop(calm)
    restarted = _typical(policy, roles, settings, replace(outage, restart_s=float(after)))
    fenced, else_fenced = restarted.fenced_phase, calm.fenced_phase
    at_once = fenced is not None and fenced.after_s <= after and (else_fenced is None or else_fenced.after_s > after)
    return _Sort(stopped[0], stopped[1], fenced.cause if fenced and at_once else "", policy.id if policy else "")


def _typical(
    policy: DegradedModePolicy | None, roles: tuple[str, ...], settings: CoordinatorSettings, outage: Outage
) -> Foreseen:
    held = allowed_scope_types(roles)
    section = canonical.dumps(policy_value(policy)) if policy is not None else None
    scopes = {
        name: HeldScope(settings.snapshot_lifetime_s, 1, grants=_SORT)
        for name in ("node_bootstrap", POLICY_SCOPE, *sorted(held & GRANTED_BY.keys()))
    }
    facts = GateFacts(
        head_expires_at=settings.head_lifetime_s,
        scopes=scopes,
        policy=parse_policy(section),
        authority_epoch=1,
        node_id="any",
        roles=frozenset(roles),
        running=frozenset({"any"}),
    )
    kinds = {name: GRANTED_BY[name] for name in held & GRANTED_BY.keys() if GRANTED_BY[name] in CARRIED}
    if "egress_service" not in roles:
        kinds.pop("service_assignment", None)
    named: Named = {name: {kind: frozenset({"any"})} for name, kind in kinds.items()}
    return foresee(facts, uses_of(named, facts, outage.began), outage)


def _last_stop(foreseen: Foreseen) -> tuple[int | None, str]:
    """When the last of what it carries stops, or where it carries nothing, when it is fenced; and why."""
    ends = {stop.what: (stop.after_s, stop.reason) for stop in foreseen.stops if stop.what in CARRIED}
    if ends:
        return max(ends.values())
    fenced = foreseen.fenced_phase
    return (None, "") if fenced is None else (fenced.after_s, fenced.cause)


def _sentences(counts: Counter[_Sort], settings: CoordinatorSettings) -> Iterator[str]:
    """`counts`: nodes of each sort."""
    total, head_s = counts.total(), settings.head_lifetime_s
    soon = Counter({sort: count for sort, count in counts.items() if _stops_within(sort, head_s)})
    later = Counter({sort: count for sort, count in counts.items() if sort not in soon and sort.restart})
    parts = []
    if soon:
        parts.append(f"{soon.total()} of {total} nodes stop after {_minutes(head_s)} ({_whys(soon)})")
    if later:
        whose = ", ".join(sorted({sort.policy for sort in later})[:MOST_NAMED])
        parts.append(
            f"{later.total()} of {total} at once after a restart (allow_unconfirmed_start is false: {whose})"
            if soon
            else f"{later.total()} of {total} nodes stop at once after a restart"
            f" (allow_unconfirmed_start is false: DegradedModePolicy {whose})"
        )
    if parts:
        yield f"in an outage {', '.join(parts)}; holdfastctl drill outage 72h says which"


def _stops_within(sort: _Sort, seconds: int) -> bool:
    return sort.stops_s is not None and sort.stops_s <= seconds


def _whys(sorts: Counter[_Sort]) -> str:
    words = {"no_degraded_policy": "no DegradedModePolicy applies"}
    found: Counter[str] = Counter()
    for sort, count in sorts.items():
        found[words.get(sort.why) or f"DegradedModePolicy {sort.policy} gives them nothing longer"] += count
    return "; ".join(f"{why}" if len(found) == 1 else f"{count}: {why}" for why, count in found.most_common(MOST_NAMED))


def _minutes(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds % 60 == 0 else f"{seconds} s"

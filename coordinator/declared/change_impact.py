"""Which scopes of which nodes a change can touch: what has to be compiled again (rules K21). Pure.

A scope is a fold over the resources that concern one node, so a changed resource can touch a scope only where it
concerned the node before the change or does so after it. What a changed node itself is given is looked at, before and
after; the directories of others, where they could show it and would show it otherwise. So a label touches nobody but
its node, unless something is selected by it. The answer may name too much, never too little; a property test holds
that against the views themselves.

No pair of nodes is looked at. Whose directories a node may stand in is found by its place on the ring (peers.py), and
those are chosen before and after, which is exact; where many nodes have changed, all of them are. So one node's change
costs the same in every fleet, and a first apply of a large one takes n log n.

Example. In a fleet of 4,000 a route of organization `acme` gets another service. Its scopes are grouped once by the
type of scope that shows them and by the organization that may know of them; the 90 members that serve `acme` are asked
whether the route concerns them, before and after, and 12 do. No other node is compiled, and no pair of nodes is
compared. When a node gets another role instead, its own scopes are compared, and the directories that could show it:
those that may choose it as a peer.

Too much costs a compilation whose result is equal, which `publication.py` notices by its hash: no version is made of
it. Too little would be a node that never hears of a change: so wherever a cheaper test is not exact, it errs to that
side, and a property test compares the answer with the views of both models for arbitrary changes.

Rejected:

- Compiling everything and comparing hashes: right by construction, and the cost of an apply of one label would grow
  with the fleet.
- Recording for each document which resources it was made of: it has to be kept true by every view, and says nothing
  about a resource that would concern the node only after the change.
- Asking each pair of nodes for directories: quadratic in the fleet, which the paragraph above is about.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from weakref import ref

from coordinator.declared import peers, site_relays
from coordinator.declared.assignment import store_partners_of, used_resources
from coordinator.declared.config_scope import CONFIG
from coordinator.declared.kinds import Config, EgressResource, Node, QosPolicy, Resource, Route, Service
from coordinator.declared.model import Key, Model, ModelOrigin, Subject, selects
from coordinator.declared.next_model import FEW
from coordinator.declared.node_scopes import NodeBootstrap, PeerDirectory
from coordinator.declared.scope_view import ScopeView, Sections
from coordinator.declared.tenant_scopes import StorageDirectory
from coordinator.declared.views import VIEWS, holds, scope_types, sections
from snapshot.identifiers import Scope

Touched = tuple[str, Scope]  # node id, and a scope that it holds before or after
Groups = dict[str, dict[str, dict[Scope, list[Resource]]]]  # by scope type, organization and scope
Pair = tuple[Subject | None, Subject | None]  # a node before and after
_DIRECTORY, _BOOTSTRAP = Scope(PeerDirectory.TYPE), Scope(NodeBootstrap.TYPE)
_STORAGE = Scope(StorageDirectory.TYPE)
MOST_STEPS = 8  # from one model to another, that are looked through
_ANYBODYS = ""  # no organization's: everybody may know of it


def affected_scopes(before: Model, after: Model, few: int = FEW) -> frozenset[Touched]:
    """Every node id with every scope whose sections may differ between two models of one cluster.

    Who makes a change asks, and then who compiles it: the answer stays with `after`.
    """
    for known, found in after.compared:
        if known() is before:
            return found
    found = _work_out(before, after, few)
    after.compared[:] = [(ref(before), found)]
    return found


def scopes_on_the_way(before: Model, after: Model) -> frozenset[Touched]:
    """The same, and perhaps more: where the one was made from the other in several steps, what each of them touches,
    which whoever made it has worked out. While nodes join, who publishes looks at every second state or so.
    """
    steps = _steps(before, after)
    return frozenset[Touched]().union(*(affected_scopes(*step) for step in steps or [(before, after)]))


def _work_out(before: Model, after: Model, few: int) -> frozenset[Touched]:
    changed = changed_resources(before, after)
    nodes = changed_members(before, after) | {id_ for kind, id_ in changed if kind == Node.KIND}
    pairs = {node_id: (before.subjects.get(node_id), after.subjects.get(node_id)) for node_id in sorted(nodes)}
    found: set[Touched] = set()
    for old, new in pairs.values():
        found.update(_own(before, after, old, new))
    seen = {node_id: pair for node_id, pair in pairs.items() if _is_seen_otherwise(before, after, *pair)}
    found.update(_directories(before, after, seen, found, few))
    found.update(_copying_stores(before, after, seen))
    for model in (before, after):
        found.update(_scopes_about(model, changed | _services_that_use(model, changed), found))
        if before.authorities != after.authorities:
            found.update((node_id, _BOOTSTRAP) for node_id in model.members)
    return frozenset(scope for scope in found if not _is_the_same_config(before, after, *scope))


def _is_the_same_config(before: Model, after: Model, node_id: str, scope: Scope) -> bool:
    """Of a Config that changed, whether this node's files did not: it may be `to` others now, or exempt something. A
    file may be a large one, so a Config is named exactly where it differs.
    """
    old, new = before.subjects.get(node_id), after.subjects.get(node_id)
    if scope.type != CONFIG or old is None or new is None or _standing(old) != _standing(new):
        return False
    return _sections(before, old, scope) == _sections(after, new, scope)


def changed_resources(before: Model, after: Model) -> set[Key]:
    origin = _origin(before, after)
    keys = origin.resources if origin is not None else before.resources.keys() | after.resources.keys()
    pairs = ((key, before.resources.get(key), after.resources.get(key)) for key in keys)
    return {key for key, old, new in pairs if old is not new and old != new}


def _services_that_use(model: Model, changed: Set[Key]) -> set[Key]:
    """What a service goes out by is told beside the service."""
    gone_out_by = {id_ for kind, id_ in changed if kind == EgressResource.KIND}
    using = (service for service in model.services.values() if gone_out_by and service.resources)
    return {
        service.key
        for service in using
        if any(resource.id in gone_out_by for resource in used_resources(service, model.egress_resources))
    }


def changed_members(before: Model, after: Model) -> set[str]:
    origin = _origin(before, after)
    ids = origin.members if origin is not None else before.members.keys() | after.members.keys()
    pairs = ((node_id, before.members.get(node_id), after.members.get(node_id)) for node_id in ids)
    return {node_id for node_id, old, new in pairs if old is not new and old != new}


def _origin(before: Model, after: Model) -> ModelOrigin | None:
    """Where the one was made from the other, in a few steps: then nobody need look at all of both."""
    origins = [made.origin for _, made in _steps(before, after) if made.origin is not None]
    if not origins:
        return None
    resources = frozenset[Key]().union(*(origin.resources for origin in origins))
    return ModelOrigin(ref(before), resources, frozenset[str]().union(*(origin.members for origin in origins)))


def _steps(before: Model, after: Model) -> list[tuple[Model, Model]]:
    """By which the one was made from the other, the last first; none where that is not known."""
    found: list[tuple[Model, Model]] = []
    made = after
    while made is not before and len(found) < MOST_STEPS:
        earlier = None if made.origin is None else made.origin.before()
        if earlier is None:
            return []
        found.append((earlier, made))
        made = earlier
    return found if made is before else []


def _own(before: Model, after: Model, old: Subject | None, new: Subject | None) -> Iterator[Touched]:
    """All of its scopes where it comes, goes, has another entry (rules K21), or other roles or organizations, which
    every envelope names; else those that say something else. Without other labels it is selected by whatever selected
    it before, so only what says something of its declaration may.
    """
    stays = old is not None and new is not None and _standing(old) == _standing(new)
    is_selected_alike = old is not None and new is not None and old.declared.labels == new.declared.labels
    for model, subject in ((before, old), (after, new)):
        if subject is None:
            continue
        for scope_type in scope_types(subject):
            if stays and is_selected_alike and not VIEWS[scope_type].TELLS_OF_NODE:
                continue
            for scope in VIEWS[scope_type].scopes(model, subject):
                if not stays or _sections(before, old, scope) != _sections(after, new, scope):
                    yield subject.node_id, scope


def _sections(model: Model, subject: Subject | None, scope: Scope) -> Sections | None:
    """None where it does not hold the scope."""
    return sections(model, subject.node_id, scope) if subject is not None and holds(model, subject, scope) else None


def _standing(subject: Subject) -> tuple[object, ...]:
    return subject.member, subject.roles, subject.organizations


def _is_seen_otherwise(before: Model, after: Model, old: Subject | None, new: Subject | None) -> bool:
    """Whether any directory may show it anew, or differently, or no more."""
    if old is None or new is None or _face(old) != _face(new):
        return True
    if site_relays.standing(before, old) != site_relays.standing(after, new):
        return True
    policies = [*before.peer_policies, *after.peer_policies]
    return any(selects(policy.peers, old) != selects(policy.peers, new) for policy in policies)


def _face(subject: Subject) -> tuple[object, ...]:
    """What others are shown of it, and what makes it a peer at all (peers.py); who is selected is asked apart."""
    return _standing(subject), subject.declared.addresses, subject.declared.relay


def _directories(
    before: Model, after: Model, seen: Mapping[str, Pair], found: Set[Touched], few: int
) -> Iterator[Touched]:
    """Those beyond `found` that choose otherwise, or one of the `seen`. Who comes or goes is found already."""
    is_short = len(seen) <= few and not _are_pairs_policed_otherwise(before, after)
    for node_id in {*seen, *_choosers(before, after, seen)} if is_short else after.subjects:
        old, new, scope = before.subjects.get(node_id), after.subjects.get(node_id), (node_id, _DIRECTORY)
        if old is None or new is None or scope in found or _DIRECTORY.type not in scope_types(new):
            continue
        shows_seen = not seen.keys().isdisjoint(peers.chosen_ids(after, new))
        if shows_seen or _directory_of(before, old) != _directory_of(after, new):
            yield scope


def _directory_of(model: Model, subject: Subject) -> tuple[object, ...]:
    """Which others, and which of them as relays."""
    return peers.chosen_ids(model, subject), peers.shown_relays(model, subject)


def _are_pairs_policed_otherwise(before: Model, after: Model) -> bool:
    """Whose policy changed is found by it (`_scopes_about`); where there are relays the other end is told, too."""
    has_relays = site_relays.has_relays(before) or site_relays.has_relays(after)
    return has_relays and before.peer_policies != after.peer_policies


def _copying_stores(before: Model, after: Model, seen: Mapping[str, Pair]) -> Iterator[Touched]:
    """Those that copy from a store of one of the `seen`, or the other way round: they know it by its certificates."""
    for model in (before, after):
        running = {endpoint.node for endpoint in model.storage_endpoints} & seen.keys()
        for partner in (partner for node_id in running for partner in store_partners_of(model, node_id)):
            if partner in model.subjects and holds(model, model.subjects[partner], _STORAGE):
                yield partner, _STORAGE


def _choosers(before: Model, after: Model, seen: Mapping[str, Pair]) -> set[str]:
    """Who may have chosen one of them before, or does so now."""
    found: set[str] = set()
    for old, new in seen.values():
        for model, subject in ((before, old), (after, new)):
            found |= set() if subject is None else peers.possible_choosers(model, subject)
    return found


def _scopes_about(model: Model, changed: Set[Key], found: Set[Touched]) -> list[Touched]:
    """The scopes beyond `found` that say something of one of the changed resources."""
    groups = _group(model, changed)
    subjects = model.subjects.values() if groups else ()
    asked = ((subject, scope, group) for subject in subjects for scope, group in _groups_of(groups, subject))
    return [
        (subject.node_id, scope)
        for subject, scope, resources in asked
        if (subject.node_id, scope) not in found and _says(model, subject, scope, resources)
    ]


def _group(model: Model, changed: Set[Key]) -> Groups:
    """By the type of the scopes that they show in, and by the one organization that may know of them: then few are
    asked.
    """
    groups: Groups = {}
    for resource in filter(None, map(model.resources.get, sorted(changed))):
        owner = resource.organization if isinstance(resource, (Service, Route, QosPolicy, Config)) else _ANYBODYS
        for view in _views_of(type(resource)):
            scope = view.scope_of(resource)
            groups.setdefault(view.TYPE, {}).setdefault(owner, {}).setdefault(scope, []).append(resource)
    return groups


def _views_of(kind: type[Resource]) -> Iterator[ScopeView]:
    return (view for view in VIEWS.values() if kind in view.SHOWN)


def _groups_of(groups: Groups, subject: Subject) -> Iterator[tuple[Scope, Sequence[Resource]]]:
    """What the subject may know of, by the scope that would say it."""
    types = scope_types(subject)
    for scope_type, of_type in groups.items():
        for owner in (_ANYBODYS, *subject.organizations) if scope_type in types else ():
            yield from of_type.get(owner, {}).items()


def _says(model: Model, subject: Subject, scope: Scope, resources: Sequence[Resource]) -> bool:
    return any(VIEWS[scope.type].concerns(model, resource, subject) for resource in resources)

"""Which scopes of which nodes a change can touch: what has to be compiled again (rules K21). Pure.

A scope is a fold over the resources that concern one node, so a changed resource can touch a scope only where it
concerned the node before the change or does so after it. What a changed node itself is given is looked at, before and
after; the directories of others, where they could show it and would show it otherwise. So a label touches nobody but
its node, unless something is selected by it. The answer may name too much, never too little; a property test holds
that against the views themselves.

No pair of nodes is looked at where many have changed: a few are asked for in every directory, which is cheap for one
that joins; for more than that each directory is chosen before and after, which is exact and costs the same for two
changed nodes and for all. So a first apply of a large fleet takes n log n.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from weakref import ref

from coordinator.declared import peers
from coordinator.declared.kinds import (
    Cluster,
    DegradedModePolicy,
    Node,
    PeerPolicy,
    QosPolicy,
    Resource,
    Route,
    Service,
    StorageEndpoint,
)
from coordinator.declared.model import Key, Model, Subject, selects
from coordinator.declared.views import SERVICES, Sections, holds, is_assigned, scope_types, scopes, sections, takes
from snapshot.identifiers import Scope

Touched = tuple[str, Scope]  # node id, and a scope that it holds before or after
Groups = dict[str, dict[str, dict[Scope, list[Resource]]]]  # by scope type, organization and scope
Pair = tuple[Subject | None, Subject | None]  # a node before and after
FEW = 16  # changed nodes: for more, choosing every directory twice is cheaper
_DIRECTORY = Scope("peer_directory")
_ANYBODYS = ""  # no organization's: everybody may know of it


def affected(before: Model, after: Model, few: int = FEW) -> frozenset[Touched]:
    """Every node id with every scope whose sections may differ between two models of one cluster.

    Who makes a change asks, and then who compiles it: the answer stays with `after`.
    """
    for known, found in after.compared:
        if known() is before:
            return found
    found = _affected(before, after, few)
    after.compared[:] = [(ref(before), found)]
    return found


def _affected(before: Model, after: Model, few: int) -> frozenset[Touched]:
    changed = changed_resources(before, after)
    nodes = changed_members(before, after) | {id_ for kind, id_ in changed if kind == Node.KIND}
    pairs = {node_id: (before.subjects.get(node_id), after.subjects.get(node_id)) for node_id in sorted(nodes)}
    found: set[Touched] = set()
    for old, new in pairs.values():
        found.update(_own(before, after, old, new))
    seen = {node_id: pair for node_id, pair in pairs.items() if _is_seen_otherwise(before, after, *pair)}
    found.update(_few(before, after, seen) if len(seen) <= few else _many(before, after, seen.keys(), found))
    for model in (before, after):
        found.update(_concerned(model, changed, found))
    return frozenset(found)


def changed_resources(before: Model, after: Model) -> set[Key]:
    keys = before.resources.keys() | after.resources.keys()
    pairs = ((key, before.resources.get(key), after.resources.get(key)) for key in keys)
    return {key for key, old, new in pairs if old is not new and old != new}


def changed_members(before: Model, after: Model) -> set[str]:
    ids = before.members.keys() | after.members.keys()
    pairs = ((node_id, before.members.get(node_id), after.members.get(node_id)) for node_id in ids)
    return {node_id for node_id, old, new in pairs if old is not new and old != new}


def _own(before: Model, after: Model, old: Subject | None, new: Subject | None) -> Iterator[Touched]:
    """All of its scopes where it comes, goes, has another entry (rules K21), or other roles or organizations, which
    every envelope names; else those that say something else.
    """
    stays = old is not None and new is not None and _standing(old) == _standing(new)
    for model, subject in ((before, old), (after, new)):
        if subject is None:
            continue
        for scope in scopes(model, subject):
            if not stays or _said(before, old, scope) != _said(after, new, scope):
                yield subject.node_id, scope


def _said(model: Model, subject: Subject | None, scope: Scope) -> Sections | None:
    """None where it does not hold the scope."""
    return sections(model, subject.node_id, scope) if subject is not None and holds(model, subject, scope) else None


def _standing(subject: Subject) -> tuple[object, ...]:
    return subject.member, subject.roles, subject.organizations


def _is_seen_otherwise(before: Model, after: Model, old: Subject | None, new: Subject | None) -> bool:
    """Whether any directory may show it anew, or differently, or no more."""
    if old is None or new is None or _face(old) != _face(new):
        return True
    policies = [*before.peer_policies, *after.peer_policies]
    return any(selects(policy.peers, old) != selects(policy.peers, new) for policy in policies)


def _face(subject: Subject) -> tuple[object, ...]:
    """What others are shown of it, and what makes it a peer at all (peers.py); who is selected is asked apart."""
    return _standing(subject), subject.declared.addresses


def _few(before: Model, after: Model, seen: Mapping[str, Pair]) -> Iterator[Touched]:
    for old, new in seen.values():
        yield from _directories(before, old)
        yield from _directories(after, new)


def _directories(model: Model, subject: Subject | None) -> Iterator[Touched]:
    """Those that it may stand in. A new member has no roles yet: nobody need be asked."""
    if subject is None or not peers.is_candidate(subject):
        return
    for other in model.subjects.values():
        if _DIRECTORY.type in scope_types(other) and peers.could_choose(model, other, subject):
            yield other.node_id, _DIRECTORY


def _many(before: Model, after: Model, seen: Set[str], found: Set[Touched]) -> Iterator[Touched]:
    """Those beyond `found` that choose otherwise, or one of the `seen`. Who comes or goes is found already."""
    for node_id, new in after.subjects.items():
        old, scope = before.subjects.get(node_id), (node_id, _DIRECTORY)
        if old is None or scope in found or _DIRECTORY.type not in scope_types(new):
            continue
        shown = peers.chosen_ids(after, new)
        if shown != peers.chosen_ids(before, old) or not seen.isdisjoint(shown):
            yield scope


def _concerned(model: Model, changed: Set[Key], found: Set[Touched]) -> list[Touched]:
    """The scopes beyond `found` that say something of one of the changed resources."""
    groups = _grouped(model, changed)
    subjects = model.subjects.values() if groups else ()
    asked = ((subject, scope, each) for subject in subjects for scope, each in _asked(groups, subject))
    return [
        (subject.node_id, scope)
        for subject, scope, resources in asked
        if (subject.node_id, scope) not in found and _says(model, subject, resources)
    ]


def _grouped(model: Model, changed: Set[Key]) -> Groups:
    """By the type of the scopes that they show in, and by the one organization that may know of them: then few are
    asked.
    """
    groups: Groups = {}
    for key in sorted(changed):
        resource = model.resources.get(key)
        if resource is None:
            continue
        owner = resource.organization if isinstance(resource, (Service, Route, QosPolicy)) else _ANYBODYS
        for scope_type in _SHOWN_IN.get(type(resource), ()):
            scope = Scope(scope_type, (resource.id,) if scope_type == SERVICES else ())
            groups.setdefault(scope_type, {}).setdefault(owner, {}).setdefault(scope, []).append(resource)
    return groups


def _asked(groups: Groups, subject: Subject) -> Iterator[tuple[Scope, Sequence[Resource]]]:
    """What the subject may know of, by the scope that would say it."""
    for scope_type in scope_types(subject):
        of_type = groups.get(scope_type, {})
        for owner in (_ANYBODYS, *subject.organizations) if of_type else ():
            yield from of_type.get(owner, {}).items()


def _says(model: Model, subject: Subject, resources: Sequence[Resource]) -> bool:
    return any(_CONCERNS[type(each)](model, each, subject) for each in resources)


def _service(_model: Model, service: Resource, subject: Subject) -> bool:
    return isinstance(service, Service) and is_assigned(service, subject)


def _route(model: Model, route: Resource, subject: Subject) -> bool:
    return isinstance(route, Route) and takes(route, model.services.get(route.service), subject)


def _qos(_model: Model, policy: Resource, subject: Subject) -> bool:
    if not isinstance(policy, QosPolicy) or "core_mesh" not in subject.roles:
        return False
    return not policy.organization or subject.serves(policy.organization)


def _storage(_model: Model, endpoint: Resource, subject: Subject) -> bool:
    if not isinstance(endpoint, StorageEndpoint):
        return False
    return subject.serves_any(endpoint.organizations) or endpoint.node == subject.node_id


def _applies(_model: Model, policy: Resource, subject: Subject) -> bool:
    return isinstance(policy, (DegradedModePolicy, PeerPolicy)) and selects(policy.applies_to, subject)


# Sites and organizations stand here by their absence: no view holds anything of them but their ids.
_SHOWN_IN: Mapping[type[Resource], tuple[str, ...]] = {
    Cluster: ("node_bootstrap",),
    Service: (SERVICES, "route_policy"),  # where a service runs, its routes are known
    Route: ("route_policy",),
    QosPolicy: ("qos_policy",),
    StorageEndpoint: ("storage_directory",),
    DegradedModePolicy: ("degraded_mode_policy",),
    PeerPolicy: (_DIRECTORY.type,),
}

_CONCERNS: Mapping[type[Resource], Callable[[Model, Resource, Subject], bool]] = {
    Cluster: lambda _model, _resource, _subject: True,
    Service: _service,
    Route: _route,
    QosPolicy: _qos,
    StorageEndpoint: _storage,
    DegradedModePolicy: _applies,
    PeerPolicy: _applies,
}

"""Which scopes of which nodes a change can touch: what has to be compiled again (rules K21). Pure.

A scope is a fold over the resources that concern one node, so a changed resource can touch a scope only where it
concerned the node before the change or does so after it. What a changed node itself is given is looked at, before and
after; the directories of others, where they could show it and would show it otherwise. So a label touches nobody but
its node, unless something is selected by it. The answer may name too much, never too little; a property test holds
that against the views themselves.
"""

from collections.abc import Callable, Iterator, Mapping

from coordinator import peers
from coordinator.kinds import (
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
from coordinator.model import Key, Model, Subject, selects
from coordinator.views import is_projected, runs, scope_types, sections, takes

Scope = tuple[str, str]  # node id, scope type


def affected(before: Model, after: Model) -> frozenset[Scope]:
    """Every (node id, scope type) whose sections may differ between two models of one cluster."""
    changed = changed_resources(before, after)
    nodes = changed_members(before, after) | {id_ for kind, id_ in changed if kind == Node.KIND}
    found: set[Scope] = set()
    for node_id in sorted(nodes):
        old, new = before.subjects.get(node_id), after.subjects.get(node_id)
        found.update(_own(before, after, old, new))
        if _is_seen_otherwise(before, after, old, new):
            found.update(_directories(before, old))
            found.update(_directories(after, new))
    for model in (before, after):
        for key in sorted(changed):
            resource = model.resources.get(key)
            if resource is not None:
                found.update(_of_resource(model, resource))
    return frozenset(found)


def changed_resources(before: Model, after: Model) -> set[Key]:
    keys = before.resources.keys() | after.resources.keys()
    pairs = ((key, before.resources.get(key), after.resources.get(key)) for key in keys)
    return {key for key, old, new in pairs if old is not new and old != new}


def changed_members(before: Model, after: Model) -> set[str]:
    ids = before.members.keys() | after.members.keys()
    pairs = ((node_id, before.members.get(node_id), after.members.get(node_id)) for node_id in ids)
    return {node_id for node_id, old, new in pairs if old is not new and old != new}


def _own(before: Model, after: Model, old: Subject | None, new: Subject | None) -> Iterator[Scope]:
    """All of its scopes where it comes, goes, has another entry (rules K21), or other roles or organizations, which
    every envelope names; else those that say something else.
    """
    stays = old is not None and new is not None and _standing(old) == _standing(new)
    for subject in (old, new):
        for scope in _scopes(subject):
            if not stays or sections(before, *scope) != sections(after, *scope):
                yield scope


def _scopes(subject: Subject | None) -> list[Scope]:
    return [] if subject is None else [(subject.node_id, scope_type) for scope_type in scope_types(subject)]


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


def _directories(model: Model, subject: Subject | None) -> Iterator[Scope]:
    """Those that it may stand in. A new member has no roles yet: nobody need be asked."""
    if subject is None or not peers.is_candidate(subject):
        return
    for other in model.subjects.values():
        if "peer_directory" in scope_types(other) and peers.could_choose(model, other, subject):
            yield other.node_id, "peer_directory"


def _of_resource(model: Model, resource: Resource) -> Iterator[Scope]:
    concern = _CONCERNS.get(type(resource))
    if concern is None:
        return
    scope_type, concerns = concern
    for subject in model.subjects.values():
        if scope_type in scope_types(subject) and concerns(model, resource, subject):
            yield subject.node_id, scope_type
            if isinstance(resource, Service):
                yield subject.node_id, "route_policy"  # where a service runs, its routes are known


def _service(_model: Model, service: Resource, subject: Subject) -> bool:
    return isinstance(service, Service) and (runs(service, subject) or is_projected(service, subject))


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
_CONCERNS: Mapping[type[Resource], tuple[str, Callable[[Model, Resource, Subject], bool]]] = {
    Cluster: ("node_bootstrap", lambda _model, _resource, _subject: True),
    Service: ("service_assignment", _service),
    Route: ("route_policy", _route),
    QosPolicy: ("qos_policy", _qos),
    StorageEndpoint: ("storage_directory", _storage),
    DegradedModePolicy: ("degraded_mode_policy", _applies),
    PeerPolicy: ("peer_directory", _applies),
}

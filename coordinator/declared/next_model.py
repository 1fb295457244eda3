"""A declared state that differs from another one in a few resources and members. Pure.

    next_model(before, resources, members)    None for what is not there any more

Of 10,000 nodes one is declared otherwise, or one more has joined: read anew, all of the model would be sorted, indexed
and grouped again for it, and so would what peers.py has worked out, 100 ms of work with each of thousands of joins. So
what is the same is taken over from the model before, and what is another is put into its place. Dictionaries are
copied as a whole, which costs microseconds, so a model is never changed, and whoever holds the one before keeps it.

Only what was asked of the model before is taken over; all else is worked out when somebody asks. It never says anything
else than a model that was read whole: a property test compares them. For more nodes than FEW what depends on them is
worked out anew, since that is cheaper than so many single steps.

Rejected: persistent trees, which share what is the same by themselves. They are slower to read than dictionaries by an
order of magnitude, and a model is read thousands of times as often as it is made.
"""

from collections.abc import Iterator, Mapping, Set
from typing import TypeVar
from weakref import ref

from coordinator.declared import foresight, peers
from coordinator.declared.kinds import (
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
    Service,
    SessionPolicy,
    StorageEndpoint,
)
from coordinator.declared.model import Key, MemberEntry, Model, ModelOrigin, Subject, declared_subject

Name = TypeVar("Name")
Value = TypeVar("Value")
FEW = 16  # changed nodes
# The indexes of a model that are of one kind of resources: the same where none of the kind has changed.
INDEXES: Mapping[str, type[Resource]] = {
    "cluster": Cluster,
    "configs": Config,
    "configs_by_selector": Config,
    "degraded_policies": DegradedModePolicy,
    "egress_resources": EgressResource,
    "entry_policies_of": EntryPolicy,
    "peer_policies": PeerPolicy,
    "qos_policies": QosPolicy,
    "rollout_policies": RolloutPolicy,
    "routes_of": Route,
    "services": Service,
    "services_of": Service,
    "session_policies_of": SessionPolicy,
    "storage_endpoints": StorageEndpoint,
}


def next_model(
    before: Model, resources: Mapping[Key, Resource | None], members: Mapping[str, MemberEntry | None] | None = None
) -> Model:
    members = members or {}
    after = Model(
        before.cluster_id, _put(before.resources, resources), _put(before.members, members), before.authorities
    )
    object.__setattr__(after, "origin", ModelOrigin(ref(before), frozenset(resources), frozenset(members)))
    kinds = {kind for kind, _ in resources}
    known = before.__dict__
    for name, kind in INDEXES.items():
        if name in known and kind.KIND not in kinds:
            after.__dict__[name] = known[name]
    if "by_kind" in known:
        after.__dict__["by_kind"] = _by_kind(before.by_kind, resources)
    if not resources:
        after.sound.extend(before.sound)
    _take_over_texts(before, after, resources)
    _take_over_nodes(before, after, kinds, {id_ for kind, id_ in resources if kind == Node.KIND} | members.keys())
    return after


def _put(before: Mapping[Name, Value], changed: Mapping[Name, Value | None]) -> dict[Name, Value]:
    found = dict(before)
    for key, value in changed.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def _by_kind(
    before: Mapping[str, Mapping[str, Resource]], changed: Mapping[Key, Resource | None]
) -> dict[str, Mapping[str, Resource]]:
    found = dict(before)
    of_kind: dict[str, dict[str, Resource | None]] = {}
    for (kind, id_), resource in changed.items():
        of_kind.setdefault(kind, {})[id_] = resource
    for kind, resources in of_kind.items():
        found[kind] = _put(before.get(kind, {}), resources)
    return found


def _take_over_texts(before: Model, after: Model, changed: Mapping[Key, Resource | None]) -> None:
    """What is written of resources: that of a node is never kept."""
    ids = {id_ for kind, id_ in changed if kind != Node.KIND}
    after.written.update({key: value for key, value in before.written.copy().items() if key[1] not in ids})


def _take_over_nodes(before: Model, after: Model, kinds: Set[str], changed: Set[str]) -> None:
    if len(changed) > FEW:
        return
    if "declared_subjects" in before.__dict__:
        nodes = {id_: after.resources.get((Node.KIND, id_)) for id_ in changed}
        told = {id_: declared_subject(node) if isinstance(node, Node) else None for id_, node in nodes.items()}
        after.__dict__["declared_subjects"] = _in_order(before.declared_subjects, told)
    if "subjects" in before.__dict__:
        after.__dict__["subjects"] = _in_order(before.subjects, dict(_subjects(after, changed)))
        _take_over_choices(before, after, kinds, changed)


def _subjects(model: Model, node_ids: Set[str]) -> Iterator[tuple[str, Subject | None]]:
    for node_id in node_ids:
        entry = model.members.get(node_id)
        yield node_id, None if entry is None else Subject(entry, model.declaration(node_id))


def _in_order(before: Mapping[str, Subject], changed: Mapping[str, Subject | None]) -> dict[str, Subject]:
    """In the order of the ids, also with one that is new."""
    found: dict[str, Subject] = _put(before, changed)
    return found if changed.keys() <= before.keys() else {id_: found[id_] for id_ in sorted(found)}


def _take_over_choices(before: Model, after: Model, kinds: Set[str], changed: Set[str]) -> None:
    if Service.KIND not in kinds:
        after.assigned.update(before.assigned.copy())
        for node_id in changed:
            after.assigned.pop(node_id, None)
    if PeerPolicy.KIND not in kinds:
        peers.take_over(before, after, changed)
    if DegradedModePolicy.KIND not in kinds and "declared_subjects" in before.__dict__:
        foresight.take_over(before, after, changed)

"""Which peers a node is told of: a bounded, spread, steady subset, never the whole topology (rules K1, X21).

Members stand on a ring at hashes of their ids. A node throws as many points on the ring as it may have peers, also by
hash; each point takes the next member that may be known and is not taken yet. So every replica chooses the same, the
graph of peers is a random one (few hops across), and a member that comes or goes changes about as many directories as a
directory has entries. A node sees the rings of its own organizations, and that of the members who serve none.

Example. 1,000 members, eight peers each. node-17 throws eight points, which by its id are the same at every
coordinator and after every restart; each takes the next member clockwise. When node-500 leaves, only those whose point
lay just before it take the one behind it: about eight directories change, none of the other 990. When the policy asks
for ten instead of eight, the first eight stay and two are added.

Of a site with relays each member is told of some of these, and they of it (site_relays.py).

Who is draining (rules J30) stands on rings of its own, which are looked at where the others have nobody left: it is
chosen only where no other can be.

Rejected:

- Everybody: a directory of the fleet in each node is quadratic in bytes, and shows every member to whoever takes one.
- The nearest by name, or a ring of neighbours: few links hold the graph together, and a rack that fails cuts it.
- By chance, and remembered: replicas would have to agree on rows about chance, and a lost database would give every
  node another directory at once.
- By load or measured distance: it changes all the time, and each change is a document to sign.
"""

import hashlib
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from coordinator.declared import site_relays
from coordinator.declared.kinds import PeerPolicy
from coordinator.declared.model import (
    Model,
    Ring,
    Subject,
    home,
    is_candidate,
    is_thin,
    limit,
    may_know,
    most,
    name_of,
    policy_of,
    visible_organizations,
)
from snapshot.roles import THIN_PEERS

_CIRCLE = 1 << 64
_EMPTY = Ring([], [])


def chosen_peers(model: Model, subject: Subject) -> list[Subject]:
    """The peers of one member, in the order of their ids."""
    return [model.subjects[node_id] for node_id in chosen_ids(model, subject)]


def chosen_ids(model: Model, subject: Subject) -> tuple[str, ...]:
    """Asked to know what a change touches and to compile it: chosen once for a model."""
    if subject.node_id not in model.peers:
        model.peers[subject.node_id] = _choose(model, subject)
    return model.peers[subject.node_id]


def shown_relays(model: Model, subject: Subject) -> frozenset[str]:
    """Those of its peers that it may ask as relays of its site."""
    return frozenset(site_relays.relays_of(model, subject))


def _choose(model: Model, subject: Subject) -> tuple[str, ...]:
    """Of a relay, its neighbours beside all others; of everybody, its relays in the place of the last others."""
    allowed = most(policy_of(model, subject), subject)
    first, neighbours = site_relays.relays_of(model, subject), site_relays.neighbours_of(model, subject)
    others = [node_id for node_id in _choose_on_rings(model, subject, allowed) if node_id not in first]
    if is_thin(subject):  # all that it is told of is bounded, and is held against that where it is verified
        others = [node_id for node_id in others if node_id not in neighbours]
        allowed = min(allowed, THIN_PEERS - len(neighbours))
    return tuple(sorted({*first, *others[: max(0, allowed - len(first))], *neighbours}))


def _choose_on_rings(model: Model, subject: Subject, count: int) -> list[str]:
    """In the order of its points."""
    policy = policy_of(model, subject)
    organizations = visible_organizations(subject)
    rings = _rings_of(model, policy, organizations)
    leaving = _rings_of(model, policy, map(_leaving, organizations))
    found: list[str] = []
    taken = {subject.node_id}
    for point in _points(subject.node_id, count):
        next_one = _next(rings, point, taken) or _next(leaving, point, taken)
        if next_one is None:
            break
        taken.add(next_one)
        found.append(next_one)
    return found


def _rings_of(model: Model, policy: PeerPolicy | None, organizations: Iterable[str]) -> list[Ring]:
    """Those on which anybody stands."""
    found = (_ring(model, policy, organization) for organization in organizations)
    return [ring for ring in found if ring.places]


def possible_choosers(model: Model, other: Subject) -> frozenset[str]:
    """The members who may have chosen `other`, and some who have not; never one too few.

    It is taken only from a point behind which, on every ring, all members up to it are taken already; and so only from
    a point among its nearest predecessors. Who throws points there is found by their places, and named where they are
    enough to reach it: in a fleet of any size about as many as a directory has entries. Worked out once for a model.
    """
    if other.node_id not in model.choosers:
        model.choosers[other.node_id] = frozenset(_find_choosers(model, other) if is_candidate(other) else ())
    return model.choosers[other.node_id]


def _find_choosers(model: Model, other: Subject) -> set[str]:
    found = site_relays.possible_choosers(model, other)
    for policy in (*model.peer_policies, None):
        if not may_know(policy, other):
            continue
        for organization in home(other):
            ring, thrown = _ring(model, policy, organization), _throws_on(model, policy, organization)
            if len(ring.places) <= limit(policy) + 2:
                found.update(thrown.node_ids)
            elif not other.member.is_draining:  # else whoever could know it knows enough others
                found |= _fillers(ring, thrown, _place(other.node_id), limit(policy))
    return found - {other.node_id}


def _fillers(ring: Ring, thrown: Ring, place: int, most: int) -> set[str]:
    """Whose points can have reached the member at a place of a ring that has more of them than somebody may take.

    Which members are taken does not depend on the order of the points, as with a table that is probed linearly: one is
    taken where, of the last `n` members up to it, for some `n`, at least `n` points lie among them. Who chooses never
    takes itself, as if one more point lay there.
    """
    at = bisect_left(ring.places, place)
    members = [_distance(ring.places[at - back], place) for back in range(most + 3)]
    steps: dict[str, list[int]] = {}
    for point, node_id in _behind(thrown, place, members[-1]):
        steps.setdefault(node_id, []).append(bisect_right(members, (place - point) % _CIRCLE))
    return {
        node_id
        for node_id, own in steps.items()
        if 1 in own or _is_reached([*own, bisect_right(members, _distance(_place(node_id), place))])
    }


def _distance(point: int, place: int) -> int:
    """How far it is from a point to a place behind it."""
    return (place - point) % _CIRCLE


def _is_reached(steps: list[int]) -> bool:
    return any(count <= number for number, count in enumerate(sorted(steps), 1))


def _behind(points: Ring, place: int, reach: int) -> Iterator[tuple[int, str]]:
    """Points that are at most so far before a place, and whose."""
    first, last = bisect_left(points.places, (place - reach) % _CIRCLE), bisect_right(points.places, place)
    parts = [(first, last)] if reach <= place else [(0, last), (first, len(points.places))]
    for start, end in parts:
        yield from zip(points.places[start:end], points.node_ids[start:end], strict=True)


def _ring(model: Model, policy: PeerPolicy | None, organization: str) -> Ring:
    """Who may be chosen by whom the policy applies to."""
    key = name_of(policy)
    if key not in model.rings:
        model.rings[key] = _rings(model, policy)
    return model.rings[key].get(organization, _EMPTY)


def _throws_on(model: Model, policy: PeerPolicy | None, organization: str) -> Ring:
    """The points of those to whom the policy applies and who see the ring of the organization."""
    if not model.throws:
        model.throws.update(_throws(model))
    return model.throws.get(name_of(policy), {}).get(organization, _EMPTY)


def _rings(model: Model, policy: PeerPolicy | None) -> dict[str, Ring]:
    """All that a policy knows, from one walk over the members: there may be as many organizations as members."""
    places: dict[str, list[tuple[int, str]]] = {}
    for subject in model.subjects.values():
        for organization in _homes_on(policy, subject):
            places.setdefault(organization, []).append((_place(subject.node_id), subject.node_id))
    return {organization: _sort(found) for organization, found in places.items()}


def _homes_on(policy: PeerPolicy | None, subject: Subject) -> tuple[str, ...]:
    """The rings of a policy on which a member stands."""
    if not is_candidate(subject) or not may_know(policy, subject):
        return ()
    return tuple(map(_leaving, home(subject))) if subject.member.is_draining else home(subject)


def _leaving(organization: str) -> str:
    """The ring of those that are draining; the name is no organization's."""
    return f"draining/{organization}"


def _throws(model: Model) -> dict[str, dict[str, Ring]]:
    points: dict[str, dict[str, list[tuple[int, str]]]] = {}
    for subject in model.subjects.values():
        policy, thrown = _throw(model, subject)
        for organization in visible_organizations(subject):
            points.setdefault(policy, {}).setdefault(organization, []).extend(thrown)
    return {policy: {of: _sort(found) for of, found in thrown.items()} for policy, thrown in points.items()}


def _throw(model: Model, subject: Subject) -> tuple[str, list[tuple[int, str]]]:
    """By which policy, and its points."""
    policy = policy_of(model, subject)
    return name_of(policy), [(point, subject.node_id) for point in _points(subject.node_id, most(policy, subject))]


def _sort(found: list[tuple[int, str]]) -> Ring:
    found.sort()
    return Ring([place for place, _ in found], [node_id for _, node_id in found])


def take_over(before: Model, after: Model, changed: Set[str]) -> None:
    """What was worked out for `before`, as it is with a few members changed, by the same policies."""
    _take_over_rings(before, after, changed)
    _take_over_throws(before, after, changed)
    site_relays.take_over(before, after, changed)
    if not before.peers:
        return
    asked = set(changed)
    for node_id in changed:
        for model in (before, after):
            if (subject := model.subjects.get(node_id)) is not None:
                asked |= possible_choosers(model, subject)
    after.peers.update(before.peers.copy())
    for node_id in asked:
        after.peers.pop(node_id, None)


def _take_over_rings(before: Model, after: Model, changed: Set[str]) -> None:
    policies = {name_of(policy): policy for policy in (*before.peer_policies, None)}
    for name, rings in before.rings.copy().items():
        edits: Edits = {}
        for node_id in changed:
            place = (_place(node_id), node_id)
            old, new = (_on_rings(policies[name], model.subjects.get(node_id)) for model in (before, after))
            for organization in old - new:
                _find_edit(edits, organization).gone.append(place)
            for organization in new - old:
                _find_edit(edits, organization).come.append(place)
        after.rings[name] = _edit_rings(rings, edits)


def _on_rings(policy: PeerPolicy | None, subject: Subject | None) -> frozenset[str]:
    return frozenset() if subject is None else frozenset(_homes_on(policy, subject))


def _take_over_throws(before: Model, after: Model, changed: Set[str]) -> None:
    if not before.throws:
        return
    edits: dict[str, Edits] = {}
    for node_id in changed:
        old, new = (dict(_throws_of(model, model.subjects.get(node_id))) for model in (before, after))
        for (policy, organization), thrown in old.items() if old != new else ():
            _find_edit(edits.setdefault(policy, {}), organization).gone.extend(thrown)
        for (policy, organization), thrown in new.items() if old != new else ():
            _find_edit(edits.setdefault(policy, {}), organization).come.extend(thrown)
    known = before.throws.copy()
    after.throws.update({name: _edit_rings(known.get(name, {}), edits.get(name, {})) for name in {*known, *edits}})


def _throws_of(model: Model, subject: Subject | None) -> Iterator[tuple[tuple[str, str], list[tuple[int, str]]]]:
    """By policy and organization, the points of one member."""
    if subject is not None:
        policy, thrown = _throw(model, subject)
        yield from (((policy, organization), thrown) for organization in visible_organizations(subject))


@dataclass
class _Edit:
    """What goes from a ring and what comes onto it: a place, and whose."""

    gone: list[tuple[int, str]] = field(default_factory=list)
    come: list[tuple[int, str]] = field(default_factory=list)


Edits = dict[str, _Edit]  # by organization


def _find_edit(edits: Edits, organization: str) -> _Edit:
    return edits.setdefault(organization, _Edit())


def _edit_rings(rings: Mapping[str, Ring], edits: Edits) -> Mapping[str, Ring]:
    """Copied once for all that is another: nobody's ring has the points of the whole fleet."""
    return {**rings, **{of: _edit_ring(rings.get(of, _EMPTY), edit) for of, edit in edits.items()}} if edits else rings


def _edit_ring(ring: Ring, edit: _Edit) -> Ring:
    places, node_ids = ring.places.copy(), ring.node_ids.copy()
    for place, node_id in edit.gone:
        at = node_ids.index(node_id, bisect_left(places, place))
        del places[at], node_ids[at]
    for place, node_id in edit.come:
        at = bisect_left(places, place)
        places.insert(at, place)
        node_ids.insert(at, node_id)
    return Ring(places, node_ids)


def _next(rings: list[Ring], point: int, taken: set[str]) -> str | None:
    """The first member at or after a point, over all rings, that is not taken."""
    nearest: tuple[int, str] | None = None
    for ring in rings:
        places, node_ids = ring.places, ring.node_ids
        start = bisect_left(places, point)
        for index in chain(range(start, len(places)), range(start)):
            if node_ids[index] not in taken:
                found = ((places[index] - point) % _CIRCLE, node_ids[index])
                nearest = found if nearest is None else min(nearest, found)
                break
    return nearest[1] if nearest else None


@lru_cache(maxsize=65_536)
def _place(node_id: str) -> int:
    return int.from_bytes(hashlib.sha256(node_id.encode()).digest()[:8], "big")


@lru_cache(maxsize=65_536)
def _points(node_id: str, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}Q", hashlib.shake_128(node_id.encode()).digest(8 * count))

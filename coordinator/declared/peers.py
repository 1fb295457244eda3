"""Which peers a node is told of: a bounded, spread, steady subset, never the whole topology (rules K1, X21).

Members stand on a ring at hashes of their ids. A node throws as many points on the ring as it may have peers, also by
hash; each point takes the next member that may be known and is not taken yet. So every replica chooses the same, the
graph of peers is a random one (few hops across), and a member that comes or goes changes about as many directories as a
directory has entries. A node sees the rings of its own organizations, and that of the members who serve none.

Example. 1,000 members, eight peers each. node-17 throws eight points, which by its id are the same at every
coordinator and after every restart; each takes the next member clockwise. When node-500 leaves, only those whose point
lay just before it take the one behind it: about eight directories change, none of the other 990. When the policy asks
for ten instead of eight, the first eight stay and two are added.

Rejected:

- Everybody: a directory of the fleet in each node is quadratic in bytes, and shows every member to whoever takes one.
- The nearest by name, or a ring of neighbours: few links hold the graph together, and a rack that fails cuts it.
- By chance, and remembered: replicas would have to agree on rows about chance, and a lost database would give every
  node another directory at once.
- By load or measured distance: it changes all the time, and each change is a document to sign.
"""

import hashlib
import struct
from bisect import bisect_left
from functools import lru_cache

from coordinator.declared.kinds import DEFAULT_PEERS, PeerPolicy
from coordinator.declared.model import Model, Ring, Subject, selects
from snapshot.roles import THIN_PEERS

_CIRCLE = 1 << 64
NOBODYS = ""  # the ring of members that serve no organization
_EMPTY = Ring([], [])


def chosen_peers(model: Model, subject: Subject) -> list[Subject]:
    """The peers of one member, in the order of their ids."""
    return [model.subjects[node_id] for node_id in chosen_ids(model, subject)]


def chosen_ids(model: Model, subject: Subject) -> tuple[str, ...]:
    """Asked to know what a change touches and to compile it: chosen once for a model."""
    if subject.node_id not in model.peers:
        model.peers[subject.node_id] = _choose(model, subject)
    return model.peers[subject.node_id]


def _choose(model: Model, subject: Subject) -> tuple[str, ...]:
    policy = policy_of(model, subject)
    rings = [_ring(model, policy, organization) for organization in _visible_organizations(subject)]
    taken = {subject.node_id}
    for point in _points(subject.node_id, most(policy, subject)):
        found = _next(rings, point, taken)
        if found is None:
            break
        taken.add(found)
    return tuple(sorted(taken - {subject.node_id}))


def policy_of(model: Model, subject: Subject) -> PeerPolicy | None:
    return next((policy for policy in model.peer_policies if selects(policy.applies_to, subject)), None)


def most(policy: PeerPolicy | None, subject: Subject) -> int:
    bound = DEFAULT_PEERS if policy is None else policy.most
    return min(bound, THIN_PEERS) if "thin" in subject.roles else bound


def could_choose(model: Model, subject: Subject, other: Subject) -> bool:
    """Whether `other` may be among the chosen of `subject`; never False when it is.

    It is taken only from a point behind which, on every ring, all members up to it are taken already; and so only from
    a point among its nearest predecessors. That is cheap to ask of thousands of nodes.
    """
    if not is_candidate(other) or other.node_id == subject.node_id:
        return False
    policy = policy_of(model, subject)
    if policy is not None and not selects(policy.peers, other):
        return False
    if not any(home in _visible_organizations(subject) for home in _home(other)):
        return False
    place, bound = _place(other.node_id), most(policy, subject)
    rings = (_ring(model, policy, organization) for organization in _visible_organizations(subject))
    reach = min(_reach(ring, place, bound + 2) for ring in rings)
    return any((place - point) % _CIRCLE <= reach for point in _points(subject.node_id, bound))


def is_candidate(subject: Subject) -> bool:
    """A witness carries no traffic, and a member without roles nothing at all: they are nobody's peers."""
    return subject.member.kind != "witness" and bool(subject.roles)


def _reach(ring: Ring, place: int, count: int) -> int:
    """How far before a place the `count`-th member stands; the whole circle where there are not so many."""
    if len(ring.places) <= count:
        return _CIRCLE
    return (place - ring.places[bisect_left(ring.places, place) - count]) % _CIRCLE


def _visible_organizations(subject: Subject) -> tuple[str, ...]:
    return (NOBODYS, *subject.organizations)


def _home(subject: Subject) -> tuple[str, ...]:
    return subject.organizations or (NOBODYS,)


def _ring(model: Model, policy: PeerPolicy | None, organization: str) -> Ring:
    key = policy.id if policy else ""
    if key not in model.rings:
        model.rings[key] = _rings(model, policy)
    return model.rings[key].get(organization, _EMPTY)


def _rings(model: Model, policy: PeerPolicy | None) -> dict[str, Ring]:
    """All that a policy knows, from one walk over the members: there may be as many organizations as members."""
    places: dict[str, list[tuple[int, str]]] = {}
    for subject in model.subjects.values():
        if is_candidate(subject) and (not policy or selects(policy.peers, subject)):
            for organization in _home(subject):
                places.setdefault(organization, []).append((_place(subject.node_id), subject.node_id))
    return {organization: _sort(found) for organization, found in places.items()}


def _sort(found: list[tuple[int, str]]) -> Ring:
    found.sort()
    return Ring([place for place, _ in found], [node_id for _, node_id in found])


def _next(rings: list[Ring], point: int, taken: set[str]) -> str | None:
    """The first member at or after a point, over all rings, that is not taken."""
    nearest: tuple[int, str] | None = None
    for ring in rings:
        start = bisect_left(ring.places, point)
        for step in range(len(ring.places)):
            index = (start + step) % len(ring.places)
            if ring.node_ids[index] not in taken:
                found = ((ring.places[index] - point) % _CIRCLE, ring.node_ids[index])
                nearest = found if nearest is None else min(nearest, found)
                break
    return nearest[1] if nearest else None


@lru_cache(maxsize=65_536)
def _place(node_id: str) -> int:
    return int.from_bytes(hashlib.sha256(node_id.encode()).digest()[:8], "big")


@lru_cache(maxsize=65_536)
def _points(node_id: str, count: int) -> tuple[int, ...]:
    return struct.unpack(f">{count}Q", hashlib.shake_128(node_id.encode()).digest(8 * count))

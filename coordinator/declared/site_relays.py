"""Which relays of its site a member is told of, and which neighbours a relay: the same pairs, seen from both ends
(rules K1, K5, K6, X21, X27). Pure.

A relay is of use to a node that knows it, and that it lets in, and it lets in whom its own directory names. The ring of
peers.py promises neither: of forty nodes with eight peers each most do not know the one relay, and those that do it
does not know. So each member is told of two relays of its site where there are two, within the `most` of its policy,
and each relay of the members that are told of it, beyond its own.

    relays_of       of a member, its relays
    neighbours_of   of a relay, whose it is

A pair stands at one site, serves a tenant in common (or none, both), and each may know the other by its policy. Of
several relays each member prefers those where the hash of both ids is the lowest (rendezvous hashing), and one that is
draining last: so the load is spread, a relay that comes or goes takes along its share alone, and every replica chooses
the same.

Example. At site `ulm` are relays `u1` and `u2` and 38 others. Each of the 38 is told of both, and both of each other
and of all the 38. `u3` becomes a relay: a third of the pairs become pairs with it. Another node joins: its two relays'
directories change, and nobody else's.

Bounded: at one site and for one organization MOST_RELAYS are made use of, and a relay has MOST_NEIGHBOURS at most. It
takes those that prefer it before all others first, so of two relays at a site of 400 one may be told of fewer second
choices, and each member has its first one. The directory of who finds no room names no relay, and it asks the
coordinator as before.

Rejected:

- Relays on the ring, several points each: their shares differ by a factor of two with a handful of relays.
- That a relay is told of its whole site: a site of ten thousand would make each join a document of megabytes.
- A relay that lets in whoever shows a certificate of the cluster: nothing at a node tells these (rules K48).
"""

import hashlib
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Set
from functools import lru_cache

from coordinator.declared.model import (
    Model,
    RelayMap,
    RelayWish,
    SitePlace,
    Subject,
    home,
    is_candidate,
    is_thin,
    may_know,
    most,
    policy_of,
)
from snapshot.roles import THIN_PEERS

RELAYS = 2  # that a member is told of
MOST_RELAYS = 16
MOST_NEIGHBOURS = 256
DISPLACED = 16  # neighbours that a few changed members can push out or let in; next_model.FEW


def relays_of(model: Model, subject: Subject) -> tuple[str, ...]:
    """The best first."""
    return tuple(wish_at for wish_at, wish in _wishes_of(model, subject) if _is_taken(model, wish_at, wish))


def neighbours_of(model: Model, subject: Subject) -> tuple[str, ...]:
    wishes = relay_map(model).wishes.get(subject.node_id, [])
    return tuple(node_id for _, _, node_id in wishes[: _room(subject)])


def standing(model: Model, subject: Subject) -> tuple[object, ...]:
    """What the directories of others at its site follow from: they change where this does."""
    is_used = subject.node_id in relay_map(model).relay_ids
    return tuple(_wishes_of(model, subject)), policy_of(model, subject) if is_used else None


def possible_choosers(model: Model, other: Subject) -> set[str]:
    """In whose directory it may stand as a relay or as a neighbour, or who is told otherwise since it is there: never
    one too few. Of a relay that is its whole site.
    """
    found: set[str] = set()
    for relay_id, _ in _wishes_of(model, other):
        room = _room(model.subjects[relay_id])
        wishes = relay_map(model).wishes.get(relay_id, [])
        found |= {relay_id, *(node_id for _, _, node_id in wishes[room : room + DISPLACED])}
    if other.node_id in relay_map(model).relay_ids:
        site = other.member.site_id
        found |= {node_id for node_id, subject in model.subjects.items() if subject.member.site_id == site}
    return found - {other.node_id}


def has_relays(model: Model) -> bool:
    return bool(relay_map(model).relays)


# ---- worked out once for a model


def relay_map(model: Model) -> RelayMap:
    if not model.relay_maps:
        relays = _find_relays(model)
        model.relay_maps.append(RelayMap(relays, _find_wishes(model, relays)))
    return model.relay_maps[0]


def take_over(before: Model, after: Model, changed: Set[str]) -> None:
    """What was worked out for `before`, with a few members changed, by the same policies. Where a relay is among them
    it is worked out anew.
    """
    if not before.relay_maps:
        return
    known = before.relay_maps[0]
    asked = [model.subjects[node_id] for model in (before, after) for node_id in changed if node_id in model.subjects]
    relays = _find_relays(after) if any(subject.declared.relay for subject in asked) else known.relays
    if relays != known.relays or not known.relay_ids.isdisjoint(changed):
        return
    wishes = dict(known.wishes)
    for node_id in changed:
        old, new = (_wishes_at(model, relays, model.subjects.get(node_id)) for model in (before, after))
        for relay_id, wish in old.items():
            wishes[relay_id] = [other for other in wishes[relay_id] if other != wish]
        for relay_id, wish in new.items():
            wishes[relay_id] = wishes.get(relay_id, []).copy()
            insort(wishes[relay_id], wish)
    after.relay_maps.append(RelayMap(relays, wishes))


def _find_relays(model: Model) -> dict[SitePlace, tuple[str, ...]]:
    found: dict[SitePlace, list[tuple[bool, bytes, str]]] = {}
    for node_id, subject in model.subjects.items():
        if subject.declared.relay and is_candidate(subject):
            for organization in home(subject):
                rank = (subject.member.is_draining, _hash(node_id, ""), node_id)
                found.setdefault((subject.member.site_id, organization), []).append(rank)
    return {place: tuple(node_id for _, _, node_id in sorted(ranks)[:MOST_RELAYS]) for place, ranks in found.items()}


def _find_wishes(model: Model, relays: Mapping[SitePlace, tuple[str, ...]]) -> dict[str, list[RelayWish]]:
    found: dict[str, list[RelayWish]] = {}
    for subject in model.subjects.values() if relays else ():
        for relay_id, wish in _wishes_at(model, relays, subject).items():
            found.setdefault(relay_id, []).append(wish)
    for wishes in found.values():
        wishes.sort()
    return found


# ---- of one member


def _wishes_of(model: Model, subject: Subject) -> list[tuple[str, RelayWish]]:
    return list(_wishes_at(model, relay_map(model).relays, subject).items())


def _wishes_at(
    model: Model, relays: Mapping[SitePlace, tuple[str, ...]], subject: Subject | None
) -> dict[str, RelayWish]:
    """By relay, the best first."""
    if not relays or subject is None or not is_candidate(subject):
        return {}
    options = sorted(
        (model.subjects[relay_id].member.is_draining, _hash(relay_id, subject.node_id), relay_id)
        for relay_id in set(_options(model, relays, subject))
    )
    count = min(RELAYS, most(policy_of(model, subject), subject))
    return {relay_id: (choice, digest, subject.node_id) for choice, (_, digest, relay_id) in enumerate(options[:count])}


def _options(model: Model, relays: Mapping[SitePlace, tuple[str, ...]], subject: Subject) -> Iterator[str]:
    """Whom it may know, and who may know it."""
    policy = policy_of(model, subject) if relays else None
    for organization in home(subject):
        for relay_id in relays.get((subject.member.site_id, organization), ()):
            relay = model.subjects[relay_id]
            if relay_id != subject.node_id and may_know(policy, relay) and may_know(policy_of(model, relay), subject):
                yield relay_id


def _is_taken(model: Model, relay_id: str, wish: RelayWish) -> bool:
    return bisect_left(relay_map(model).wishes[relay_id], wish) < _room(model.subjects[relay_id])


def _room(relay: Subject) -> int:
    """A thin node's directory is bounded where it is verified: its relays and neighbours are all of it."""
    return THIN_PEERS - RELAYS if is_thin(relay) else MOST_NEIGHBOURS


@lru_cache(maxsize=65_536)
def _hash(one: str, other: str) -> bytes:
    return hashlib.sha256(f"{one}\n{other}".encode()).digest()[:16]

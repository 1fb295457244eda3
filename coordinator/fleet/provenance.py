"""From where nodes have what they run, and who hands it on at a site: as they say it themselves (rules S70). Pure.

came_from(scopes)      of one node: how many of its active versions came by whom
relay_of(said)         what it keeps for its neighbours, where it does
overview(...)          of a fleet: versions and nodes by way, and the relays with who takes from them
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wire.forms import OTHER, record
from wire.messages import WAYS, DocumentOrigin, RelayCondition
from wire.operators.fleet_answers import CameBy, RelayStanding

UNKNOWN = "unknown"  # its agent does not say: it is from before, or was told by another one
_ORIGIN, _RELAY = record(DocumentOrigin), record(RelayCondition)


@dataclass(frozen=True, order=True)
class GivenBy:
    """`way`: one of `WAYS`, `other` for one of a later release, or `unknown`. `node_id`: of a peer or relay."""

    way: str
    node_id: str = ""

    @property
    def words(self) -> str:
        return f"{self.way} {self.node_id}".strip()


@dataclass(frozen=True)
class NodeProvenance:
    """What one node says."""

    node_id: str
    site_id: str
    came_from: Mapping[GivenBy, int]
    relay: RelayCondition | None


def came_from(scopes: Mapping[str, Mapping[str, Any]]) -> dict[GivenBy, int]:
    """Of what is active."""
    active = [said for said in scopes.values() if said.get("active") is not None]
    return dict(sorted(Counter(_giver(origin_of(said)) for said in active).items()))


def origin_of(said: Mapping[str, Any]) -> DocumentOrigin | None:
    """Of one scope of a report; None where it does not say, or what an earlier version kept is in another form."""
    origin = said.get("origin")
    return _ORIGIN.make(origin) if _ORIGIN.takes(origin) else None


def relay_of(said: Mapping[str, Any]) -> RelayCondition | None:
    """Of a whole report."""
    relay = said.get("relay")
    return _RELAY.make(relay) if _RELAY.takes(relay) else None


def overview(nodes: Sequence[NodeProvenance]) -> tuple[tuple[CameBy, ...], tuple[RelayStanding, ...]]:
    """The relays whose nodes are most first."""
    takers = Counter(giver.node_id for node in nodes for giver in node.came_from if giver.node_id)
    relays = [
        RelayStanding(node.node_id, node.site_id, takers[node.node_id], node.relay)
        for node in nodes
        if node.relay is not None
    ]
    return _by_way(nodes), tuple(sorted(relays, key=lambda each: (-each.taken_by, each.node_id)))


def _by_way(nodes: Iterable[NodeProvenance]) -> tuple[CameBy, ...]:
    versions, holders = Counter[str](), Counter[str]()
    for node in nodes:
        for giver, count in node.came_from.items():
            versions[giver.way] += count
        holders.update({giver.way for giver in node.came_from})
    return tuple(CameBy(way, versions[way], holders[way]) for way in (*WAYS, OTHER, UNKNOWN) if versions[way])


def _giver(origin: DocumentOrigin | None) -> GivenBy:
    if origin is None or origin.way is None:
        return GivenBy(UNKNOWN)
    return GivenBy(origin.way, origin.node_id or "")

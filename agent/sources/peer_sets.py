"""Which peers are asked, and in which order: active, warm and cold ones (rules L21, S64; Numbers: peer sets). Pure.

    sort_peers   the three sets, of the peers that may be asked now and of what is remembered of them

active   asked first: who is well, near ones before far ones
warm     asked where no active one has it: who is well, and for whom there was no place
cold     asked last, in turn: who failed when it was asked last, and bootstrap peers that have never worked

Who is well has worked when it was last asked, or was never asked. Near is who stands at the same site: what it gives
costs the site's link to the others nothing. Before them all comes a relay of the site. Among equals each node has an
order of its own, by hash, so that a site that wakes up does not ask one and the same peer. Who fails is cold at once,
and well again with the first document that it gives, so a peer that lies, stalls or is behind costs one attempt, and
after that its turn among the cold ones, each after its back-off (wire/backoff.py).

Example. Site A has three peers here and ten elsewhere; nothing is remembered. Active are the three and one from
elsewhere, warm the other nine. One of the three is taken off the network: it is cold, a second one from elsewhere takes
its place. Back again, it is tried in its turn as one of three cold ones, gives a document, and is active. Over a
restart all of this is as before.

Rejected:

- By measured delay: it changes all the time, and a peer at the same site wins anyhow.
- All peers at once, the first answer wins: each document would be sent as many times as there are peers.
- Keeping connections open to warm peers: hundreds of nodes would hold thousands of them for what is rarely asked.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from wire.endpoint import Endpoint


class Flow(StrEnum):
    """Who fetches from whom, as the node has it whose entry it is (rules K6)."""

    PULL = "pull"  # we from them
    ALLOW_PULL = "allow-pull"  # they from us
    MUTUAL_PULL = "mutual-pull"

    @property
    def we_fetch(self) -> bool:
        return self is not Flow.ALLOW_PULL

    @property
    def they_fetch(self) -> bool:
        return self is not Flow.PULL


@dataclass(frozen=True, order=True)
class Peer:
    """`pins`: its certificates, DER; two while it renews one. `is_bootstrap`: agent.toml names it, and no directory.
    `endpoint`: None where it is not reached from here. `automatic_refresh`: a full resync from it may start unattended
    (rules K7). `is_manual`: of a manual map, which rests on no document. `is_relay`: of this node's own site
    (agent/relay/).
    """

    node_id: str
    endpoint: Endpoint | None = field(compare=False)
    pins: frozenset[bytes] = field(compare=False)
    site_id: str = field(default="", compare=False)
    is_bootstrap: bool = field(default=False, compare=False)
    flow: Flow = field(default=Flow.MUTUAL_PULL, compare=False)
    automatic_refresh: bool = field(default=True, compare=False)
    is_manual: bool = field(default=False, compare=False)
    is_relay: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class PeerRecord:
    """What is remembered of a peer; Unix seconds, 0: never. `failed_at`: it gave nothing, or had nothing to give."""

    worked_at: int = 0
    failed_at: int = 0

    @property
    def is_failing(self) -> bool:
        return self.failed_at > self.worked_at

    @property
    def asked_at(self) -> int:
        return max(self.worked_at, self.failed_at)


@dataclass(frozen=True)
class PeerSetSizes:
    active: int
    warm: int
    cold: int


@dataclass(frozen=True)
class PeerSets:
    active: tuple[Peer, ...]
    warm: tuple[Peer, ...]
    cold: tuple[Peer, ...]


NEVER_ASKED = PeerRecord()


def sort_peers(
    peers: Iterable[Peer], records: Mapping[str, PeerRecord], sizes: PeerSetSizes, own_id: str, own_site: str
) -> PeerSets:
    """`peers`: that may be asked now, each once."""

    def record(peer: Peer) -> PeerRecord:
        return records.get(peer.node_id, NEVER_ASKED)

    def is_well(peer: Peer) -> bool:
        return not record(peer).is_failing and (bool(record(peer).worked_at) or not peer.is_bootstrap)

    def preference(peer: Peer) -> tuple[bool, bool, bool, bytes]:
        return (
            not peer.is_relay,
            not is_near(peer, own_site),
            not record(peer).worked_at,
            _order_of(own_id, peer.node_id),
        )

    def turn(peer: Peer) -> tuple[bool, int, bytes]:
        return not peer.is_relay, record(peer).asked_at, _order_of(own_id, peer.node_id)

    known = sorted(peers)
    well = sorted(filter(is_well, known), key=preference)
    first, most = sizes.active, sizes.active + sizes.warm
    others = [*(peer for peer in known if not is_well(peer)), *well[most:]]
    in_turn = sorted(
        others, key=lambda peer: (not peer.is_relay, record(peer).asked_at, _order_of(own_id, peer.node_id))
    )
    return PeerSets(tuple(well[:first]), tuple(well[first:most]), tuple(in_turn[: sizes.cold]))


def is_near(peer: Peer, own_site: str) -> bool:
    return bool(own_site) and peer.site_id == own_site


def _order_of(own_id: str, node_id: str) -> bytes:
    return hashlib.sha256(f"{own_id}/{node_id}".encode()).digest()

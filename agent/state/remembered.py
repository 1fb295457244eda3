"""What outlives a process beside the documents, as it was when this one began. Synchronous: it reads.

Each part goes on from its own, and keeps it from then on: the row is its, and so is the key of it.
"""

from collections.abc import Mapping
from dataclasses import field

from agent.base.guarded_clock import Stopwatch
from agent.state import endpoint_sets, origins, sights
from agent.state.endpoint_sets import EndpointSets
from agent.state.health_rows import ADDRESSES_ROW, AUTHORITIES_ROW, OUTAGE_ROW, PEERS_ROW, REVOKED_ROW
from agent.state.origins import Origin
from agent.state.sights import SeenRunning
from snapshot.frozen import frozen
from store.base.tables import Name
from store.store import Store


@frozen
class Remembered:
    """`endpoints`: of coordinators, as node_bootstraps listed them. `sights`: services that were seen running."""

    outage: Stopwatch | None = None
    revoked: object = None  # the row, see OwnRevocation
    origins: Mapping[str, Origin] = field(default_factory=dict)
    endpoints: EndpointSets = field(default_factory=EndpointSets)
    sights: Mapping[str, SeenRunning] = field(default_factory=dict)
    authorities: object = None  # the row, see agent/sources/authorities.py
    addresses: object = None  # the row, see agent/sources/addresses.py
    peers: object = None  # the row, see agent/sources/peer_cache.py

    @classmethod
    def read(cls, store: Store) -> "Remembered":
        health = store.table(Name.HEALTH)
        return cls(
            _stopwatch(health.get(OUTAGE_ROW)),
            health.get(REVOKED_ROW),
            origins.from_row(health.get(origins.ROW)),
            endpoint_sets.from_row(health.get(endpoint_sets.ROW)),
            sights.from_rows(store.table(Name.WATERMARKS).items()),
            health.get(AUTHORITIES_ROW),
            store.table(Name.ROUTES).get(ADDRESSES_ROW),
            store.table(Name.PEERS).get(PEERS_ROW),
        )


NOTHING = Remembered()


def _stopwatch(row: object) -> Stopwatch | None:
    if not isinstance(row, Mapping):
        return None
    return Stopwatch(str(row["about"]), str(row["boot_id"]), float(row["began"]), float(row["since"]))

"""A store on the disk, opened to read: on a stopped or a running agent's root, by its owner.

Readers lock, and make `lock.mdb` where none is, so it must be the agent's own user who looks.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from store.base import journal, rejections
from store.base import pending as slots
from store.base.disk import Disk
from store.base.documents import StoreReading
from store.base.environment import Environment, LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.floors import FloorRecord
from store.base.journal import Event
from store.base.layout import Root
from store.base.pending import SlotContent
from store.base.records import Rejection
from store.fsck.check import MAPS_BADLY, check, merged_floors


@dataclass(frozen=True)
class StoreLook:
    """What one look sees, inside its block."""

    reading: StoreReading
    floors: FloorRecord
    _transaction: LmdbTransaction

    def pending(self) -> list[SlotContent]:
        return slots.slot_contents(self._transaction)

    def events(self, most: int) -> list[Event]:
        """The last ones, oldest first."""
        after = max(0, self.reading.meta.next_event - 1 - most)
        return list(islice(journal.events(self._transaction, after), most))

    def last_rejection(self, scope: str) -> Rejection | None:
        return rejections.last(self._transaction, scope)


@contextlib.contextmanager
def look(root: Path, cluster_id: str) -> Iterator[StoreLook]:
    """The store of a cluster. StoreError: bad_permissions, not_found, store_corrupt (nothing is mapped then)."""
    paths = Root.look(root).paths(cluster_id)
    if not (paths.store / "data.mdb").exists():
        raise StoreError(StoreFault.NOT_FOUND, f"no store of {cluster_id} in {root}")
    for fault in check(root, cluster_id):
        if fault.code in MAPS_BADLY:
            raise StoreError(StoreFault.STORE_CORRUPT, str(fault))
    environment = Environment(paths.store, Disk(), readonly=True)
    try:
        with environment.read() as transaction:
            yield StoreLook(StoreReading(transaction), merged_floors(paths.floors, cluster_id), transaction)
    finally:
        environment.close()

"""The store's own record: whose it is, which incarnation, which generation, and the counters."""

import secrets
from functools import lru_cache

from snapshot.frozen import replace_members
from store.base import floors, sealed
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.floors import FloorRecord
from store.base.migration import FORMAT
from store.base.records import MetaRecord, pack, pack_value, unpack, unpack_value

_META = b"store"
_FORMAT = b"format"
_FLOOR = b"floor"


def create(transaction: LmdbTransaction, cluster_id: str, generation: int) -> MetaRecord:
    """A new store: a new incarnation; the generation goes on from `generation`, so that no reader sees it fall."""
    meta = MetaRecord(cluster_id, secrets.token_hex(16), generation)
    transaction.put("meta", _FORMAT, pack_value(FORMAT))
    write(transaction, meta)
    return meta


def read(transaction: LmdbTransaction) -> MetaRecord:
    data = transaction.get("meta", _META)
    if data is None:
        raise StoreError(StoreFault.STORE_CORRUPT, "the store's own record is missing")
    return _meta_of(data)


@lru_cache(maxsize=2)
def _meta_of(data: bytes) -> MetaRecord:
    """By all of its bytes: a swap asks for it eight times, and what it says is another one twice."""
    return unpack(MetaRecord, data)


def write(transaction: LmdbTransaction, meta: MetaRecord) -> None:
    transaction.put("meta", _META, pack(meta))


def change(transaction: LmdbTransaction, **changes: object) -> MetaRecord:
    """Read, replace, write."""
    meta = replace_members(read(transaction), **changes)
    write(transaction, meta)
    return meta


def read_format(transaction: LmdbTransaction) -> int:
    """The format that the store was written in; 0 for an environment in which nothing was written yet."""
    data = transaction.get("meta", _FORMAT)
    found = 0 if data is None else unpack_value(data)
    if type(found) is not int:
        raise StoreError(StoreFault.STORE_CORRUPT, "the store's format is no number")
    return found


def write_format(transaction: LmdbTransaction, found: int) -> None:
    transaction.put("meta", _FORMAT, pack_value(found))


def write_floor(transaction: LmdbTransaction, record: FloorRecord) -> None:
    """The copy of the floors that the store itself keeps (threats D-24)."""
    transaction.put("meta", _FLOOR, pack_value(floors.to_payload(record)))


def read_floor(transaction: LmdbTransaction, cluster_id: str) -> FloorRecord:
    """The copy; nothing at all where there is none, or none that can be read."""
    data = transaction.get("meta", _FLOOR)
    found = None if data is None else _floor_of(data)
    return found if found is not None and found.cluster_id == cluster_id else FloorRecord(cluster_id)


@lru_cache(maxsize=1)
def _floor_of(data: bytes) -> FloorRecord | None:
    """By all of its bytes; it names every scope, and most look at it more than once before it is another."""
    try:
        value = unpack_value(data)
        return floors.from_payload(0, value) if isinstance(value, dict) else None
    except (StoreError, sealed.UnreadableFile):
        return None

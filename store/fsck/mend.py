"""Records that cannot be read are taken out, so that everything else goes on (rules A14, L33, L34).

A store whose pages hold together is not given up for a flipped bit in it: a lost document is a damaged active, a lost
scope comes back from the floors, a lost event is told as one.
"""

from collections.abc import Iterator

from store.base import blobs, meta, pending
from store.base.documents import StoredDocument
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.journal import Event, Happened, key_of
from store.base.records import DocumentRecord, ScopeRecord, pack, scope_key, unpack, unpack_value

_SEALED = ("snapshots", "scopes", "trust", "updates", "peers", "routes", "services", "health")


def mend(transaction: LmdbTransaction, now: float) -> int:
    """Remove every record that is damaged or under a key that is not its own; how many there were."""
    rows = [(database, key) for database in _SEALED for key in _unreadable(transaction, database)]
    for database, key in rows:
        transaction.delete(database, key)
    return len(rows) + _mend_slots(transaction) + _mend_journal(transaction, now)


def _unreadable(transaction: LmdbTransaction, database: str) -> list[bytes]:
    return [key for key, data in transaction.items(database) if not _is_good(database, key, data)]


def _is_good(database: str, key: bytes, data: bytes) -> bool:
    try:
        if database == "snapshots":
            record = unpack(DocumentRecord, data)
            held = StoredDocument(record, key, lambda _: b"")
            return blobs.digest_of(record.envelope) == key and held.envelope.state_hash == record.content_hash
        if database == "scopes":
            return scope_key(unpack(ScopeRecord, data).scope) == key
        unpack_value(data)
    except StoreError:
        return False
    return True


def _mend_slots(transaction: LmdbTransaction) -> int:
    """A slot that cannot be read or lacks a blob goes; what it held is fetched again."""
    damaged = list(pending.damaged_keys(transaction))
    for key in damaged:
        transaction.delete("pending", key)
    return len(damaged)


def _mend_journal(transaction: LmdbTransaction, now: float) -> int:
    """Numbers stay without a gap: in place of an event that is lost stands that it is."""
    wrong = [key for key, data in transaction.items("journal") if not _is_event(key, data)]
    for key in wrong:
        transaction.delete("journal", key)
    numbers = [int.from_bytes(key, "big") for key in transaction.keys("journal")]
    last = meta.read(transaction).next_event
    lost = list(_gaps(numbers, last))
    for number in lost:
        transaction.put("journal", key_of(number), pack(Event(number, now, Happened.RECORD_LOST)))
    return max(len(wrong), len(lost))


def _gaps(numbers: list[int], last: int) -> Iterator[int]:
    """The numbers that are missing between the first one and `last`."""
    held = set(numbers)
    if numbers:
        yield from (number for number in range(numbers[0], last) if number not in held)


def _is_event(key: bytes, data: bytes) -> bool:
    try:
        return key_of(unpack(Event, data).sequence) == key
    except StoreError:
        return False

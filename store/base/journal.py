"""What happened, bounded, in order, with numbers that survive restarts (rules A13; protocol.md 3).

An event is appended in the transaction of what it tells. The heartbeat delivers what lies after the acknowledged
number; beyond the bound the oldest go, and how many of them were never acknowledged is counted.
"""

import struct
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice

from snapshot.frozen import frozen
from snapshot.reasons import safe_text
from store.base import meta
from store.base.environment import Environment, LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.records import pack, unpack

MOST_EVENTS = 10_000  # rules, Numbers
_KEY = struct.Struct(">Q")
_TABLE = "journal"
_NAME_CHARACTERS = 64


class Happened(StrEnum):
    """The events that the store itself writes; the agent adds its own (degraded, fenced, ...)."""

    APPLIED = "applied"
    WITHDRAWN = "withdrawn"
    REJECTED = "rejected"
    VERSION_CONFLICT = "version_conflict"
    RECOVERY_KEPT = "recovery_kept"
    ROLLED_FORWARD = "rolled_forward"
    RUNNING_ON_PREVIOUS = "running_on_previous"
    ACTIVE_LOST = "active_lost"
    STORE_REBUILT = "store_rebuilt"
    STORE_REGRESSED = "store_regressed"
    STORE_MIGRATED = "store_migrated"
    FLOOR_LOST = "floor_lost"
    FLOOR_REPAIRED = "floor_repaired"
    RECORD_LOST = "record_lost"
    SECTION_DAMAGED = "section_damaged"
    PROBATION_PASSED = "probation_passed"
    REVERTED = "reverted"
    NOTHING_TO_GO_BACK_TO = "nothing_to_go_back_to"
    QUARANTINE_CLEARED = "quarantine_cleared"


@frozen
class Event:
    sequence: int
    at: float
    event: str
    scope: str = ""
    detail: str = ""


class Journal:
    """The journal of an open store."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def record(self, event: str, at: float, scope: str = "", detail: str = "") -> int:
        """Keep an event durably; its number."""
        with self._environment.write() as transaction:
            return append(transaction, event, at, scope, detail)

    def events(self, after: int | None = None, most: int = 1000) -> list[Event]:
        """Up to `most` events above `after`, oldest first; without it, above what was acknowledged."""
        with self._environment.read() as transaction:
            start = meta.read(transaction).acknowledged_event if after is None else after
            return list(islice(events(transaction, start), most))

    def acknowledge(self, sequence: int) -> None:
        """The other side has everything up to that number. It never goes back."""
        with self._environment.write() as transaction:
            acknowledge(transaction, sequence)

    def lost_events(self) -> int:
        """How many events went beyond the bound before they were acknowledged."""
        with self._environment.read() as transaction:
            return meta.read(transaction).lost_events


def key_of(sequence: int) -> bytes:
    return _KEY.pack(sequence)


def append(transaction: LmdbTransaction, event: str, at: float, scope: str = "", detail: str = "") -> int:
    """Number and keep an event; text is escaped and cut to 256 characters (threats D-59)."""
    present = meta.read(transaction)
    sequence = present.next_event
    if not event.isascii() or len(event) > _NAME_CHARACTERS:
        raise StoreError(StoreFault.TOO_LARGE, f"an event's name has at most {_NAME_CHARACTERS} ASCII characters")
    record = Event(sequence, at, event, scope, safe_text(detail))
    transaction.put(_TABLE, _KEY.pack(sequence), pack(record))
    lost = present.lost_events
    for dropped in _surplus_keys(transaction):
        transaction.delete(_TABLE, dropped)
        lost += _KEY.unpack(dropped)[0] > present.acknowledged_event
    meta.change(transaction, next_event=sequence + 1, lost_events=lost)
    return sequence


def events(transaction: LmdbTransaction, after: int = 0) -> Iterator[Event]:
    """The events with a number above `after`, oldest first."""
    for _, data in transaction.items(_TABLE, after=_KEY.pack(after + 1)):
        yield unpack(Event, data)


def acknowledge(transaction: LmdbTransaction, sequence: int) -> None:
    """Everything up to `sequence` has arrived. It never goes back, and never beyond what was written."""
    present = meta.read(transaction)
    reached = min(sequence, present.next_event - 1)
    if reached > present.acknowledged_event:
        meta.change(transaction, acknowledged_event=reached)


def _surplus_keys(transaction: LmdbTransaction) -> list[bytes]:
    surplus = transaction.count(_TABLE) - MOST_EVENTS
    keys = transaction.keys(_TABLE)
    return [next(keys) for _ in range(surplus)]

"""What of a scope has proved itself, and what is on probation: the rows, and how long that lasts. Time is given.

A probation is timed by the boot clock, which no wall clock moves, and in another boot by the guarded clock, for want
of a better: but never for longer than it was to last. Starts after an end that was not in order are counted: content
that takes the agent or the machine down leaves nobody who could ask a check.

No row of what is good: what is active is. So it is in stores of before, and where only one content ever was.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.records import DocumentRecord, Good, GoodRecord, ProbationRecord, ScopeRecord, pack, scope_key, unpack
from store.base.timefloor import Boot

MOST_GOOD = 3
MOST_CRASHES, MOST_REBOOTS = 3, 2
GOOD_PREFIX = b"good/"
PROBATION_PREFIX = b"probation/"
_TABLE = "updates"


def left_s(row: ProbationRecord, boot: Boot, now: float) -> float:
    """Seconds until it is over, 0 where it is."""
    if row.boot_id == boot.boot_id:
        return max(0.0, row.ends - boot.elapsed)
    return min(max(0.0, row.until - now), row.lasts_s)


def after_start(row: ProbationRecord, boot: Boot, now: float) -> ProbationRecord:
    """The row at a start of the agent: timed by this boot's clock, and an end without order counted."""
    was_seen = row.boot_id != ""
    unclean, rebooted = was_seen and not row.is_stopped, row.boot_id != boot.boot_id
    return replace(
        row,
        boot_id=boot.boot_id,
        ends=boot.elapsed + left_s(row, boot, now),
        is_stopped=False,
        crashes=row.crashes + (unclean and not rebooted),
        reboots=row.reboots + (unclean and rebooted),
    )


def start_fault(row: ProbationRecord) -> str:
    """Why so many starts are a failed check, in words; empty when they are none."""
    if row.reboots >= MOST_REBOOTS:
        return f"the machine ended {row.reboots} times without order"
    return f"the agent ended {row.crashes} times without order" if row.crashes >= MOST_CRASHES else ""


# ---- rows


def probation(transaction: LmdbTransaction, scope: str) -> ProbationRecord | None:
    data = transaction.get(_TABLE, PROBATION_PREFIX + scope_key(scope))
    try:
        return None if data is None else unpack(ProbationRecord, data)
    except StoreError:
        return None


def probations(transaction: LmdbTransaction) -> Iterator[ProbationRecord]:
    """Those that can be read; a damaged row is the business of the start."""
    for _, data in transaction.items(_TABLE, PROBATION_PREFIX):
        try:
            yield unpack(ProbationRecord, data)
        except StoreError:
            continue


def put_probation(transaction: LmdbTransaction, row: ProbationRecord) -> None:
    transaction.put(_TABLE, PROBATION_PREFIX + scope_key(row.scope), pack(row))


def end_probation(transaction: LmdbTransaction, scope: str) -> bool:
    """Without a verdict; whether there was one."""
    return transaction.delete(_TABLE, PROBATION_PREFIX + scope_key(scope))


def good(transaction: LmdbTransaction, record: ScopeRecord) -> tuple[Good, ...]:
    """What has proved itself, the newest first."""
    data = transaction.get(_TABLE, GOOD_PREFIX + scope_key(record.scope))
    try:
        if data is not None:
            return tuple(Good(*entry) for entry in unpack(GoodRecord, data).good)
    except (StoreError, TypeError):
        pass  # as if it were not there: the start takes it out
    if record.active is None or probation(transaction, record.scope) is not None:
        return ()
    content = content_of(transaction, record.active)
    return () if content is None else (Good(record.active, content),)


def put_good(transaction: LmdbTransaction, scope: str, entries: Sequence[Good]) -> None:
    """The first three of them."""
    row = GoodRecord(scope, tuple(tuple(entry) for entry in entries[:MOST_GOOD]))  # type: ignore[misc]
    transaction.put(_TABLE, GOOD_PREFIX + scope_key(scope), pack(row))


def forget_good(transaction: LmdbTransaction, scope: str) -> None:
    transaction.delete(_TABLE, GOOD_PREFIX + scope_key(scope))


def content_of(transaction: LmdbTransaction, digest: bytes | None) -> bytes | None:
    """The digest of a document's content; None where there is no document that can be read."""
    data = None if digest is None else transaction.get("snapshots", digest)
    try:
        return None if data is None else unpack(DocumentRecord, data).state
    except StoreError:
        return None

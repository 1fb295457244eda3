"""Content that failed its probation: the last of each scope, for people, and what is not activated again.

    last, put_last, forget_last     what a scope tried last, until other content comes
    in_quarantine, is_quarantined   by scope and content, whatever the version; a person clears it

The quarantine is bounded: of a scope the last sixteen. What has gone from it is tried once more, on probation.
"""

from collections.abc import Iterator

from store.base.environment import LmdbTransaction
from store.base.errors import StoreError
from store.base.records import FailedContent, digest_from_name, pack, scope_key, unpack

MOST_OF_A_SCOPE = 16
QUARANTINE_PREFIX = b"quarantine/"
LAST_PREFIX = b"reverted/"
_TABLE = "updates"


def last(transaction: LmdbTransaction, scope: str) -> FailedContent | None:
    return _read(transaction.get(_TABLE, LAST_PREFIX + scope_key(scope)))


def put_last(transaction: LmdbTransaction, failed: FailedContent) -> None:
    transaction.put(_TABLE, LAST_PREFIX + scope_key(failed.scope), pack(failed))


def forget_last(transaction: LmdbTransaction, scope: str) -> None:
    transaction.delete(_TABLE, LAST_PREFIX + scope_key(scope))


def in_quarantine(transaction: LmdbTransaction, scope: str | None = None) -> Iterator[FailedContent]:
    """Of one scope, or of all; what cannot be read is the business of the start."""
    prefix = QUARANTINE_PREFIX + (scope_key(scope) if scope is not None else b"")
    yield from filter(None, (_read(data) for _, data in transaction.items(_TABLE, prefix)))


def is_quarantined(transaction: LmdbTransaction, scope: str, content_hash: str) -> bool:
    return transaction.get(_TABLE, _key(scope, content_hash)) is not None


def put_in_quarantine(transaction: LmdbTransaction, failed: FailedContent) -> None:
    """The oldest make room for it, and never it for them: a clock may have gone back since."""
    transaction.delete(_TABLE, _key(failed.scope, failed.content_hash))
    held = sorted(in_quarantine(transaction, failed.scope), key=lambda entry: entry.at)
    for oldest in held[: max(0, len(held) + 1 - MOST_OF_A_SCOPE)]:
        transaction.delete(_TABLE, _key(oldest.scope, oldest.content_hash))
    transaction.put(_TABLE, _key(failed.scope, failed.content_hash), pack(failed))


def clear_quarantine(transaction: LmdbTransaction, scope: str) -> list[FailedContent]:
    """What was in it."""
    held = list(in_quarantine(transaction, scope))
    for entry in held:
        transaction.delete(_TABLE, _key(scope, entry.content_hash))
    return held


def _key(scope: str, content_hash: str) -> bytes:
    return QUARANTINE_PREFIX + scope_key(scope) + digest_from_name(content_hash)


def _read(data: bytes | None) -> FailedContent | None:
    try:
        return None if data is None else unpack(FailedContent, data)
    except StoreError:
        return None

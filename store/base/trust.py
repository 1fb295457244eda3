"""Kept recoveries and spent nonces (rules S87; threats D-16). The trust bundle itself is a scope like any other."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from snapshot import container
from store.base import journal
from store.base.blobs import digest_of
from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.journal import Happened
from store.base.records import KeptRecovery, pack, pack_value, scope_key, unpack, unpack_value

if TYPE_CHECKING:  # the child that looks at a store verifies nothing, and does without
    from snapshot.verify import Verified

MOST_RECOVERIES = 256
_TABLE = "trust"
RECOVERY_PREFIX = b"recovery/"
_NONCE = b"nonce/"


def keep_recovery(transaction: LmdbTransaction, verified: "Verified", now: float) -> None:
    """Keep a verified recovery as it came, until its scope is above the version that it gives up."""
    record = KeptRecovery(verified.scope, verified.envelope_bytes, verified.signatures, verified.manifest_bytes, now)
    key = RECOVERY_PREFIX + scope_key(verified.scope) + digest_of(verified.envelope_bytes)[:16]
    if transaction.get(_TABLE, key) is not None:
        return
    transaction.put(_TABLE, key, pack(record))
    if sum(1 for _ in transaction.items(_TABLE, RECOVERY_PREFIX)) > MOST_RECOVERIES:
        raise StoreError(StoreFault.TOO_LARGE, f"at most {MOST_RECOVERIES} kept recoveries")
    journal.append(transaction, Happened.RECOVERY_KEPT, now, verified.scope, verified.envelope.snapshot_id)


def spend(transaction: LmdbTransaction, scope: str, nonce: str) -> None:
    """The nonce is used, for ever; the recovery stays for the check at start."""
    transaction.put(_TABLE, _NONCE + digest_of(nonce.encode()), pack_value((nonce, scope)))


def drop_recoveries(transaction: LmdbTransaction, scope: str) -> None:
    """The scope has gone above what its recoveries gave up: they can serve no more."""
    for key, _ in list(transaction.items(_TABLE, RECOVERY_PREFIX + scope_key(scope))):
        transaction.delete(_TABLE, key)


def nonces(transaction: LmdbTransaction) -> Iterator[str]:
    for _, data in transaction.items(_TABLE, _NONCE):
        value = unpack_value(data)
        if isinstance(value, tuple):
            yield str(value[0])


def recoveries(transaction: LmdbTransaction) -> Iterator[KeptRecovery]:
    for _, data in transaction.items(_TABLE, RECOVERY_PREFIX):
        yield unpack(KeptRecovery, data)


def containers(transaction: LmdbTransaction) -> tuple[bytes, ...]:
    """The kept recoveries as the verifier takes them."""
    return tuple(
        b"".join(container.encode(kept.envelope, kept.signatures, kept.manifest, ()))
        for kept in recoveries(transaction)
    )

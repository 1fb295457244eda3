"""Content-addressed bytes: sections and manifests, by their SHA-256 (rules L28, L29).

A blob of up to a chunk is one value; a larger one lies in chunks, so that LMDB never looks for a long run of free
pages. Shared by all versions and scopes that refer to it. What is read is hashed again, each time.
"""

import hashlib
import hmac
import struct
from collections.abc import Iterable, Iterator
from itertools import takewhile

from store.base.environment import LmdbTransaction
from store.base.errors import StoreError, StoreFault

CHUNK_BYTES = 1 << 20
DIGEST_BYTES = 32
_INDEX = struct.Struct(">I")
_TABLE = "sections"


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def put(transaction: LmdbTransaction, data: bytes) -> bytes:
    """Keep the bytes and return their digest."""
    digest = digest_of(data)
    put_known(transaction, digest, data)
    return digest


def put_known(transaction: LmdbTransaction, digest: bytes, data: bytes) -> None:
    """Keep bytes whose digest was computed already. A copy that is damaged is written again."""
    if transaction.put_blobs is not None:
        transaction.put_blobs.add(digest)
    if len(data) <= CHUNK_BYTES and transaction.put_new(_TABLE, digest, data):
        return
    if _read(transaction, digest) == data:
        return
    remove(transaction, digest)
    if len(data) <= CHUNK_BYTES:
        transaction.put(_TABLE, digest, data)
    else:
        for index, start in enumerate(range(0, len(data), CHUNK_BYTES)):
            transaction.put(_TABLE, digest + _INDEX.pack(index), data[start : start + CHUNK_BYTES])


def get(transaction: LmdbTransaction, digest: bytes) -> bytes:
    """The bytes, hashed; StoreError not_found, or store_corrupt: bytes with a wrong hash are never handed out."""
    data = transaction.get(_TABLE, digest)
    if data is None:
        data = _read(transaction, digest)
    if data is None:
        raise StoreError(StoreFault.NOT_FOUND, f"blob {digest.hex()}")
    if not hmac.compare_digest(hashlib.sha256(data).digest(), digest):
        raise StoreError(StoreFault.STORE_CORRUPT, f"blob {digest.hex()} has other bytes than its hash says")
    return data


def has(transaction: LmdbTransaction, digest: bytes) -> bool:
    """Whether it is there; its bytes are not looked at."""
    return not lacking(transaction, (digest,))


def lacking(transaction: LmdbTransaction, wanted: Iterable[bytes]) -> list[bytes]:
    """Those of the digests that are not there, in the order in which they are asked for; no bytes are looked at."""
    first = transaction.first_key_of(_TABLE)
    return [digest for digest in wanted if not first(digest).startswith(digest)]


def is_whole(transaction: LmdbTransaction, digest: bytes) -> bool:
    """Whether its bytes are what its hash says."""
    try:
        get(transaction, digest)
    except StoreError:
        return False
    return True


def remove(transaction: LmdbTransaction, digest: bytes) -> None:
    for key in list(_keys(transaction, digest)):
        transaction.delete(_TABLE, key)


def digests(transaction: LmdbTransaction, after: bytes = b"") -> Iterator[bytes]:
    """The digest of each blob, in order, from the first that is not below `after`; chunks count once."""
    last = None
    for key in transaction.keys(_TABLE, after):
        digest = key[:DIGEST_BYTES]
        if digest != last:
            yield digest
        last = digest


def _read(transaction: LmdbTransaction, digest: bytes) -> bytes | None:
    values = [value for _, value in transaction.items(_TABLE, prefix=digest)]
    return b"".join(values) if values else None


def _keys(transaction: LmdbTransaction, digest: bytes) -> Iterator[bytes]:
    return takewhile(lambda key: key.startswith(digest), transaction.keys(_TABLE, digest))

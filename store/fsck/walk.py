"""All of an environment walked once, in a child process, which what is damaged may kill (rules L30; threats D-25).

Every page is looked at, every database read to its end, every blob hashed, a write tried and taken back. What the
records say is read afterwards (`store.fsck.probe`): so this loads little: the first answer of each start waits for it.
"""

from pathlib import Path

import lmdb

from store.base import blobs
from store.base.environment import DATABASES, MAP_BYTES, MAX_DATABASES, Databases, LmdbTransaction, Raw
from store.base.errors import StoreError
from store.fsck.metapage import inspect
from store.fsck.pages import PageFaultError, require_sound


def run(path: str) -> dict[str, object]:
    """The child's whole life: `fault`, or how many `blobs` there are and the digests (hex) of `damaged` ones."""
    try:
        data_file = Path(path) / "data.mdb"
        require_sound(data_file, inspect(data_file).page_size)
        return _walk(path)
    except (PageFaultError, lmdb.Error, StoreError) as error:
        return {"fault": str(error)[:256]}


def ends(transaction: LmdbTransaction, database: str) -> bool:
    """Read a database; damage can make its pages a ring, so it may not have more entries than it counts."""
    most, touched = transaction.count(database), 0
    for seen, (_, value) in enumerate(transaction.items(database)):
        touched += len(value)
        if seen >= most:
            return False
    return True


def open_aside(path: str, *, readonly: bool) -> Raw:
    """Where nobody else is: without a lock file, so that a dead child leaves no trace."""
    return lmdb.open(path, map_size=MAP_BYTES, max_dbs=MAX_DATABASES, lock=False, create=False, readonly=readonly)


def databases_of(environment: Raw) -> Databases:
    return {name: environment.open_db(name.encode(), create=False) for name in DATABASES}


def _walk(path: str) -> dict[str, object]:
    environment = open_aside(path, readonly=False)
    with environment.begin() as transaction:
        names = {bytes(key).decode("ascii", "replace") for key, _ in transaction.cursor()}
    if set(DATABASES) - names:
        return {"fault": "a database is missing"}
    databases = databases_of(environment)
    with environment.begin() as reading:
        found = _read(LmdbTransaction(reading, databases))
    _try_a_write(environment, databases)
    return found


def _read(transaction: LmdbTransaction) -> dict[str, object]:
    for name in DATABASES:
        if not ends(transaction, name):
            return {"fault": f"{name}: more entries than it counts"}
    digests = list(blobs.digests(transaction))
    damaged = [digest.hex() for digest in digests if not blobs.is_whole(transaction, digest)]
    return {"blobs": len(digests), "damaged": damaged}


def _try_a_write(environment: Raw, databases: Databases) -> None:
    """What a damaged free list does to a writer, it does here; nothing is committed."""
    transaction = environment.begin(write=True)
    try:
        transaction.put(b"probe", bytes(64 << 10), db=databases["updates"])
    finally:
        transaction.abort()

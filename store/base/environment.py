"""The LMDB environment: opened once, always synchronous, one write transaction at a time (rules L24..L27).

    read        a consistent read transaction, closed at the end of the block
    write       a write transaction: committed at the end of the block, or aborted with a StoreError
    Room        how much of the map a write may fill: what scopes bring never takes what the repair needs

Neither may cross an `await`, nor change threads (rules L26, M4).
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

import lmdb

from store.base.disk import Disk, refusal
from store.base.errors import StoreError, StoreFault

MIB, GIB = 1 << 20, 1 << 30
MAP_BYTES = 4 * GIB  # rules, Numbers
# Heads (three of 4 MiB), trust bundles (three of 1 MiB), recoveries, and the bounded books: journal, rejections, rows.
REPAIR_BYTES = 64 * MIB

# rules L5 names trust, snapshots, peers, routes, services, health, updates.
DATABASES = (
    "meta",  # format, cluster, incarnation, generation, counters
    "sections",  # content-addressed blobs
    "snapshots",  # one record for each document, by the hash of its envelope
    "scopes",  # the pointers and the mark of each scope
    "pending",  # downloads, one slot for each scope
    "trust",  # kept recoveries and spent nonces
    "updates",  # rejections, evidence, watermarks
    "journal",  # what happened, by sequence number
    "peers",
    "routes",
    "services",
    "health",
)
# lmdb has stubs from 3.0 on, Debian's 1.4 has none: its objects are untyped here, and typed beyond this file.
Raw: TypeAlias = Any
Databases: TypeAlias = Mapping[str, Raw]

MAX_DATABASES = 32
MAX_READERS = 126
# Never nosync, nometasync, map_async or writemap (threats D-25): with writemap a full disk is SIGBUS.
FLAGS: dict[str, Any] = {
    "subdir": True,
    "metasync": True,
    "sync": True,
    "map_async": False,
    "writemap": False,
    "mode": 0o600,
}


class WriteRoom(Enum):
    """What a write is for, and so how full it may leave the store (rules L35).

    Whoever signs scopes can fill `SCOPES`, and nothing else: the head and the trust bundle that take his key away
    still fit, and so does every small record on the way there. `GARBAGE` is for deleting, which wants pages first.
    """

    SCOPES = "scopes"
    REPAIR = "repair"
    GARBAGE = "garbage"


class Environment:
    """One open environment. Not for two threads to write at once: the second waits, the same one is refused."""

    def __init__(self, path: Path, disk: Disk, map_bytes: int = MAP_BYTES, *, readonly: bool = False) -> None:
        self.path = path
        self.disk = disk
        self.map_bytes = map_bytes
        self.readonly = readonly
        self._writing = threading.Lock()
        self._writer: int | None = None
        self.put_blobs: set[bytes] | None = None  # those put while garbage is collected, which it spares
        self._open()

    def _open(self) -> None:
        try:
            self.lmdb = lmdb.open(
                str(self.path),
                map_size=self.map_bytes + REPAIR_BYTES + self.reserve_bytes,
                max_dbs=MAX_DATABASES,
                max_readers=MAX_READERS,
                readonly=self.readonly,
                create=not self.readonly,
                **FLAGS,
            )
        except lmdb.Error as error:
            raise refusal(error) from error
        try:
            self.forget_dead_readers()
            self.databases = self._open_databases()
        except (lmdb.Error, OSError) as error:
            self.lmdb.close()
            raise refusal(error) from error

    def _open_databases(self) -> Databases:
        if self.readonly:
            return {name: self.lmdb.open_db(name.encode(), create=False) for name in DATABASES}
        transaction = self.lmdb.begin(write=True)
        try:
            names = {name: self.lmdb.open_db(name.encode(), txn=transaction) for name in DATABASES}
        except BaseException:
            transaction.abort()
            raise
        self.disk.commit(transaction)
        return names

    @property
    def reserve_bytes(self) -> int:
        """Room beyond the others that only garbage collection may use."""
        return max(MIB, self.map_bytes // 16)

    def close(self) -> None:
        self.lmdb.close()

    def forget_dead_readers(self) -> None:
        """A reading process that was killed would keep every page from being used again."""
        self.lmdb.reader_check()

    @contextlib.contextmanager
    def read(self) -> Iterator["LmdbTransaction"]:
        try:
            transaction = self._begin(write=False)
            try:
                yield LmdbTransaction(transaction, self.databases, self.put_blobs)
            finally:
                transaction.abort()
        except lmdb.Error as error:
            raise refusal(error) from error

    @contextlib.contextmanager
    def write(self, room: WriteRoom = WriteRoom.REPAIR) -> Iterator["LmdbTransaction"]:
        """What the block puts is durable when it ends, or nothing is and StoreError says why."""
        if self._writer == threading.get_ident():
            raise RuntimeError("a write transaction inside another one would hang for ever (rules M3)")
        with self._writing:
            self._writer = threading.get_ident()
            try:
                with self._transaction(self._most_bytes(room)) as transaction:
                    yield transaction
                    transaction.refuse_full()
            except (lmdb.Error, OSError) as error:
                raise refusal(error) from error
            finally:
                self._writer = None

    def _most_bytes(self, room: WriteRoom) -> int | None:
        return {
            WriteRoom.SCOPES: self.map_bytes,
            WriteRoom.REPAIR: self.map_bytes + REPAIR_BYTES,
            WriteRoom.GARBAGE: None,
        }[room]

    @contextlib.contextmanager
    def _transaction(self, most_bytes: int | None) -> Iterator["LmdbTransaction"]:
        transaction = self._begin(write=True)
        try:
            yield LmdbTransaction(transaction, self.databases, self.put_blobs, most_bytes)
        except BaseException:
            transaction.abort()
            raise
        try:
            self.disk.commit(transaction)
        except BaseException:
            with contextlib.suppress(lmdb.Error):  # a commit that failed inside LMDB has ended it
                transaction.abort()
            raise

    def _begin(self, *, write: bool) -> Raw:
        try:
            return self.lmdb.begin(write=write)
        except lmdb.PanicError:
            # A meta page could not be written. LMDB refuses everything from then on; opened anew it goes on from
            # the last commit, which is what was acknowledged.
            self.lmdb.close()
            self._open()
            return self.lmdb.begin(write=write)

    @property
    def commit_number(self) -> int:
        """The number of the last commit. It begins no transaction, so that it may be asked anywhere."""
        try:
            return int(self.lmdb.info()["last_txnid"])
        except lmdb.Error:  # closed, or opened anew at this moment
            return -1

    def fill_level(self) -> float:
        """The share of the map that is in use, 0..1; free pages are not counted."""
        with self.read() as transaction:
            return transaction.used_bytes() / self.map_bytes


class LmdbTransaction:
    """One LMDB transaction and the names of its databases."""

    __slots__ = ("_databases", "_is_counted", "_most_bytes", "lmdb", "put_blobs")

    def __init__(
        self,
        transaction: Raw,
        databases: Databases,
        put_blobs: set[bytes] | None = None,
        most_bytes: int | None = None,
    ) -> None:
        self.lmdb = transaction
        self.put_blobs = put_blobs
        self._databases = databases
        self._most_bytes = most_bytes
        self._is_counted = False  # what was put so far: a swap asks before it raises the floors, and nothing follows

    @property
    def number(self) -> int:
        """Of a reading one: of the commit that it sees."""
        return int(self.lmdb.id())

    def get(self, database: str, key: bytes) -> bytes | None:
        value: bytes | None = self.lmdb.get(key, db=self._databases[database])
        return value

    def put(self, database: str, key: bytes, value: bytes) -> None:
        self._is_counted = False
        self.lmdb.put(key, value, db=self._databases[database])

    def put_new(self, database: str, key: bytes, value: bytes) -> bool:
        """Whether there was none; else what is there stays."""
        self._is_counted = False
        return bool(self.lmdb.put(key, value, overwrite=False, db=self._databases[database]))

    def delete(self, database: str, key: bytes) -> bool:
        return bool(self.lmdb.delete(key, db=self._databases[database]))

    def used_bytes(self) -> int:
        """What the pages of all databases come to."""
        stats = [self.lmdb.stat(handle) for handle in self._databases.values()]
        pages = sum(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"] for stat in stats)
        return int(pages * stats[0]["psize"])

    def refuse_full(self) -> None:
        """StoreError store_full when what was put goes beyond its room; asked before every commit."""
        if self._most_bytes is None or self._is_counted:
            return
        if (used := self.used_bytes()) > self._most_bytes:
            raise StoreError(StoreFault.STORE_FULL, f"{used} bytes are in use, {self._most_bytes} may be")
        self._is_counted = True

    def count(self, database: str) -> int:
        return int(self.lmdb.stat(self._databases[database])["entries"])

    def items(self, database: str, prefix: bytes = b"", after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Keys and values in byte order, those with the prefix, from the first key that is not below `after`."""
        cursor = self.lmdb.cursor(db=self._databases[database])
        start = max(prefix, after)
        if not (cursor.set_range(start) if start else cursor.first()):
            return
        for key, value in cursor.iternext():
            if not key.startswith(prefix):
                return
            yield key, value

    def first_key_of(self, database: str) -> Callable[[bytes], bytes]:
        """Of a key the first that is not below it, empty where there is none. One cursor does for many."""
        cursor = self.lmdb.cursor(db=self._databases[database])

        def first_key(least: bytes) -> bytes:
            return bytes(cursor.key()) if cursor.set_range(least) else b""

        return first_key

    def keys(self, database: str, after: bytes = b"") -> Iterator[bytes]:
        """Keys alone, in byte order; values are not read."""
        cursor = self.lmdb.cursor(db=self._databases[database])
        if cursor.set_range(after) if after else cursor.first():
            yield from cursor.iternext(keys=True, values=False)

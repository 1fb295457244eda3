"""Small bounded tables of what the agent remembers: peers, routes, services, health, watermarks (rules L5, S84).

Nothing here gives authority: no code reads a role, a key or a policy from a table (rules L3).
"""

import contextlib
from collections.abc import Iterator, Mapping
from enum import StrEnum

from store.base.environment import Environment, LmdbTransaction
from store.base.errors import StoreError, StoreFault
from store.base.records import pack_value, unpack_value

MOST_ENTRIES = 10_000
MOST_BYTES = 64 << 10
MOST_KEY_BYTES = 400


class Name(StrEnum):
    PEERS = "peers"
    ROUTES = "routes"
    SERVICES = "services"
    HEALTH = "health"
    WATERMARKS = "updates"


class Table:
    """Values are None, bool, int, float, str, bytes, and tuples and dicts of these; lists come back as tuples."""

    def __init__(self, environment: Environment, name: Name) -> None:
        self._environment = environment
        self._database = str(name)
        self._prefix = b"watermark/" if name is Name.WATERMARKS else b""

    def get(self, key: str) -> object:
        """The value; None when there is none."""
        with self._environment.read() as transaction:
            data = transaction.get(self._database, self._key(key))
        return None if data is None else unpack_value(data)

    def items(self) -> dict[str, object]:
        with self._environment.read() as transaction:
            return dict(self._items(transaction))

    def put(self, key: str, value: object) -> None:
        self.put_many({key: value})

    def put_many(self, values: dict[str, object]) -> None:
        """All of them in one transaction. StoreError too_large beyond the bounds."""
        with self._environment.write() as transaction:
            for key, value in values.items():
                transaction.put(self._database, self._key(key), _check_size(pack_value(value), key))
            if transaction.count(self._database) > MOST_ENTRIES:
                raise StoreError(StoreFault.TOO_LARGE, f"{self._database} holds at most {MOST_ENTRIES} entries")

    def put_beside(self, transaction: LmdbTransaction, values: Mapping[str, object]) -> None:
        """In a transaction that is about something else, and never fails for it: what is too large stays as it was."""
        for key, value in values.items():
            with contextlib.suppress(StoreError):
                transaction.put(self._database, self._key(key), _check_size(pack_value(value), key))

    def delete(self, key: str) -> None:
        with self._environment.write() as transaction:
            transaction.delete(self._database, self._key(key))

    def clear(self) -> None:
        with self._environment.write() as transaction:
            for key, _ in list(transaction.items(self._database, self._prefix)):
                transaction.delete(self._database, key)

    def _items(self, transaction: LmdbTransaction) -> Iterator[tuple[str, object]]:
        for key, data in transaction.items(self._database, self._prefix):
            yield key[len(self._prefix) :].decode(), unpack_value(data)

    def _key(self, key: str) -> bytes:
        encoded = key.encode()
        if not 0 < len(encoded) <= MOST_KEY_BYTES:
            raise StoreError(StoreFault.TOO_LARGE, f"a key has 1 to {MOST_KEY_BYTES} bytes")
        return self._prefix + encoded


def _check_size(data: bytes, key: str) -> bytes:
    if len(data) > MOST_BYTES:
        raise StoreError(StoreFault.TOO_LARGE, f"the value of {key!r} has more than {MOST_BYTES} bytes")
    return data

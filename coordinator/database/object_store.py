"""Content-addressed objects over the database, and pointers (rules H8, H9, H11, H13, H14).

    get(key)                  the bytes; `not_found`; an object is hashed as it is read: `hash_mismatch`
    put_all(kind, values)     objects, each under `kind/<its SHA-256>`; again is the same
    pointer(key)              where it points, and who has signed that; None where it is absent
    compare_and_swap(...)     a pointer from exactly what it was to something new; `conflict`, and it stays

All of them work inside a transaction of `coordinator.database.database`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Table, bindparam, update
from sqlalchemy.dialects import postgresql, sqlite

from coordinator.base.refusal import Code, Refused
from coordinator.database import schema
from coordinator.database.database import Transaction

VALUE_BYTES = 4 << 20

_SWAP = (  # made once: making a statement costs as much as running it, and each change moves a pointer
    update(schema.pointers)
    .where(schema.pointers.c.key == bindparam("of"), schema.pointers.c.value == bindparam("before"))
    .values({name: bindparam(name) for name in ("value", "signature", "signer")})
    .returning(schema.pointers.c.key)
)
_KEY = re.compile(r"[a-z]+/([0-9a-f]{64})", re.ASCII)


def object_key(kind: str, value: bytes) -> str:
    return f"{kind}/{hashlib.sha256(value).hexdigest()}"


def get(transaction: Transaction, key: str) -> bytes:
    _check_key(key)
    row = transaction.find(schema.objects, key)
    return check_value(key, None if row is None else row.value)


def check_value(key: str, value: bytes | None) -> bytes:
    """What was read under a key, by whatever statement: `not_found` for None, `hash_mismatch` for another object."""
    if value is None:
        raise Refused(Code.NOT_FOUND, f"nothing is kept under {key}")
    address, value = _KEY.fullmatch(key), bytes(value)
    if address is None or hashlib.sha256(value).hexdigest() != address[1]:
        raise Refused(Code.HASH_MISMATCH, f"{key} does not hold what its name says", remedy="restore the database")
    return value


def put_all(transaction: Transaction, kind: str, values: Iterable[bytes], *, most: int = VALUE_BYTES) -> list[str]:
    """The keys, in the order of the values. Refused before anything is written when one is too large."""
    keyed = with_keys(kind, values, most=most)
    put_keyed(transaction, keyed)
    return [key for key, _ in keyed]


def with_keys(kind: str, values: Iterable[bytes], *, most: int = VALUE_BYTES) -> list[tuple[str, bytes]]:
    """In the order of the values. Refused when one is too large."""
    keyed = [(object_key(kind, value), value) for value in values]
    for key, value in keyed:
        _check_key(key)
        _check_size(key, value, most)
    return keyed


def put_keyed(transaction: Transaction, keyed: Iterable[tuple[str, bytes]]) -> None:
    unique: Mapping[str, bytes] = dict(keyed)
    rows = [{"key": key, "value": value} for key, value in sorted(unique.items())]
    transaction.put(schema.objects, rows, keep=True)


class Pointer(NamedTuple):
    """`signature`: base64. `signer`: the id of a key; nobody has to believe it."""

    value: str
    signature: str
    signer: str


def pointer(transaction: Transaction, key: str) -> Pointer | None:
    row = transaction.find(schema.pointers, key)
    return None if row is None else Pointer(row.value, row.signature, row.signer)


def compare_and_swap(transaction: Transaction, key: str, before: Pointer | None, after: Pointer) -> None:
    """Absent (None) differs from empty."""
    table, new = schema.pointers, after._asdict()
    if before is None:
        first = insert_into(transaction, table).on_conflict_do_nothing(index_elements=[table.c.key])
        done = transaction.row(first.values(key=key, **new).returning(table.c.key))
    else:
        done = transaction.row(_SWAP, {"of": key, "before": before.value, **new})
    if done is None:
        raise Refused(Code.CONFLICT, f"{key} was moved meanwhile", remedy="look at it again")


def insert_into(transaction: Transaction, table: Table) -> postgresql.Insert | sqlite.Insert:
    """INSERT in the dialect's own words, so that it may say what becomes of what is there."""
    return sqlite.insert(table) if transaction.connection.dialect.name == "sqlite" else postgresql.insert(table)


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise Refused(Code.BAD_KEY, "a key is [a-z]+/ and the 64 hex digits of a SHA-256")


def _check_size(key: str, value: bytes, most: int) -> None:
    if len(value) > most:
        raise Refused(
            Code.TOO_LARGE, f"{key} has {len(value)} bytes, the store takes {most}", remedy="split it into objects"
        )

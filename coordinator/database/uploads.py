"""Parts of declared files, which come before the apply that names them: each an object by the SHA-256 of its bytes.

    missing(transaction, hashes)           those that are not kept; the others are kept for another day
    add(transaction, sha256, value)        one part, if it is what its name says
    lock(transaction, keys)                before rows of several are written by one statement

A part is kept under the same key as a document's section (documents.py): a file that is declared, and the documents of
a thousand nodes that carry it, are one row. Nothing here is authority, so it is written as reports are, beside changes
and without an audit row: the apply that names a part has one.

Who asks is about to apply: that moves the time by which retention.py goes, in one statement, before the answer. A part
whose row retention takes at the same moment is told missing, and is uploaded again.
"""

import hashlib
from collections.abc import Collection

from sqlalchemy import select, update

from coordinator.base.byte_order import ByteOrder
from coordinator.base.refusal import Code, Refused
from coordinator.database import object_store, schema
from coordinator.database.database import Database, Transaction
from coordinator.database.documents import SECTIONS, chunks, section_key
from snapshot.limits import DEFAULT

PART_BYTES = DEFAULT.section_bytes


def missing(database: Database, hashes: Collection[str], *, now: float) -> list[str]:
    """In hexadecimal, sorted. What a document carries and nobody has uploaded is missing too."""
    table, wanted = schema.uploads, sorted(set(hashes))
    with database.record(now=now) as transaction:
        for chunk in chunks(wanted):
            keys = list(map(section_key, chunk))
            lock(transaction, keys)
            transaction.run(update(table).where(table.c.object_key.in_(keys)).values(asked_at=now))
        return sorted(set(wanted) - existing_parts(transaction, wanted))


def lock(transaction: Transaction, keys: Collection[str]) -> None:
    """Rows that are written next, in the order in which uploads write them (`keep`), so that nobody waits for one who
    waits for him: a server takes the rows of a statement as it finds them. SQLite has one writer at a time.
    """
    if transaction.connection.dialect.name != "sqlite":
        key = schema.uploads.c.object_key
        transaction.rows(select(key).where(key.in_(keys)).order_by(ByteOrder(key)).with_for_update())


def existing_parts(transaction: Transaction, hashes: Collection[str]) -> set[str]:
    """Those of the parts that an apply may name."""
    table, objects = schema.uploads, schema.objects
    joined = table.join(objects, table.c.object_key == objects.c.key)
    chosen = select(table.c.object_key).select_from(joined)
    return {
        row.object_key.partition("/")[2]
        for chunk in chunks(sorted(hashes))
        for row in transaction.rows(chosen.where(table.c.object_key.in_(list(map(section_key, chunk)))))
    }


def add(database: Database, sha256: str, value: bytes, *, now: float) -> None:
    """`bad_request` for bytes that are not those: nothing is kept of them."""
    if hashlib.sha256(value).hexdigest() != sha256:
        raise Refused(Code.BAD_REQUEST, "these bytes have another SHA-256", remedy="read the file again, and repeat")
    with database.record(now=now) as transaction:
        keep(transaction, [value])


def add_all(database: Database, values: Collection[bytes], *, now: float) -> None:
    """All of them, or none: of one upload, or what a declaration says itself."""
    if values:
        with database.record(now=now) as transaction:
            keep(transaction, values)


def keep(transaction: Transaction, values: Collection[bytes]) -> None:
    """Parts under the names that they have. Their rows come first, as those go first: who takes them at this moment is
    waited for, and then it is seen whether the bytes are there still.
    """
    keyed = object_store.with_keys(SECTIONS, values, most=PART_BYTES)
    rows = [{"object_key": key, "asked_at": transaction.now} for key in sorted(dict(keyed))]
    insert = object_store.insert_into(transaction, schema.uploads)
    newer = insert.on_conflict_do_update(
        index_elements=[schema.uploads.c.object_key], set_={"asked_at": insert.excluded.asked_at}
    )
    transaction.run(newer, rows)
    object_store.put_keyed(transaction, keyed)

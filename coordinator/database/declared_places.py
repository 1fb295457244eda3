"""Where each resource was declared: the file, as whoever applied it has named it, and the line.

A table of its own, beside the resources: a line that is put in at the top of a file moves all that stand below, and
changes none of them. So what moved is written without a new revision, and no node hears of it.

Of what was applied before there was this table, nothing is known until it is applied again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from sqlalchemy import ColumnElement, delete, select

from coordinator.base.refusal import bound_text
from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.database.documents import chunks
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared

Place = tuple[str, int]
FEW = 500  # resources
NAME_LENGTH = 1_024  # as problems name it


def place_of(entry: Declared) -> Place:
    return bound_text(entry.file, NAME_LENGTH), entry.source.line(())


def read(transaction: Transaction, keys: Collection[Key]) -> dict[Key, Place]:
    """Of those that are known. Of many, all that there are are read: naming them takes longer."""
    table = schema.declared_places
    columns = select(table.c.kind, table.c.id, table.c.file, table.c.line)
    asked = [columns.where(these) for these in _these(keys)] if len(keys) <= FEW else [columns]
    rows = (row for statement in asked for row in transaction.rows(statement))
    return {(row.kind, row.id): (row.file, row.line) for row in rows}


def follow(transaction: Transaction, places: Mapping[Key, Place], gone: Collection[Key]) -> int:
    """Write what has moved, and forget what is gone; how many have moved."""
    known = read(transaction, places.keys())
    moved = {key: place for key, place in places.items() if known.get(key) != place}
    for these in _these(gone):
        transaction.run(delete(schema.declared_places).where(these))
    rows = [{"kind": kind, "id": id_, "file": file, "line": line} for (kind, id_), (file, line) in moved.items()]
    transaction.put(schema.declared_places, rows)
    return len(moved)


def _these(keys: Iterable[Key]) -> Iterator[ColumnElement[bool]]:
    """Many with each statement: all of a large file may have moved. By the kind first, which the key begins with."""
    table = schema.declared_places
    ids: dict[str, list[str]] = {}
    for kind, id_ in keys:
        ids.setdefault(kind, []).append(id_)
    for kind, wanted in ids.items():
        for chunk in chunks(sorted(wanted)):
            yield (table.c.kind == kind) & table.c.id.in_(chunk)

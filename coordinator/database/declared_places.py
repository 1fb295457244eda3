"""Where each resource was declared: the file, as whoever applied it has named it, and the line.

A table of its own, beside the resources: a line that is put in at the top of a file moves all that stand below, and
changes none of them. So what moved is written without a new revision, and no node hears of it.

Of what was applied before there was this table, nothing is known until it is applied again.
"""

from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import ColumnElement, delete, insert, select

from coordinator.base.refusal import bound_text
from coordinator.database import schema
from coordinator.database.database import Transaction
from coordinator.database.documents import chunks
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared

Place = tuple[str, int]
NAME_LENGTH = 1_024  # as problems name it


def place_of(entry: Declared) -> Place:
    return bound_text(entry.file, NAME_LENGTH), entry.source.line(())


def read(transaction: Transaction, keys: Iterable[Key]) -> dict[Key, Place]:
    """Of those that are known."""
    table = schema.declared_places
    return {
        (row.kind, row.id): (row.file, row.line)
        for these in _these(keys)
        for row in transaction.rows(select(table).where(these))
    }


def follow(transaction: Transaction, declared: Mapping[Key, Declared], gone: Iterable[Key]) -> int:
    """Write what has moved; how many those are."""
    table, gone = schema.declared_places, list(gone)
    known = read(transaction, [*declared, *gone])
    places = {key: place_of(entry) for key, entry in declared.items()}
    moved = {key: place for key, place in places.items() if known.get(key) != place}
    _forget(transaction, (key for key in (*moved, *gone) if key in known))
    rows = [{"kind": kind, "id": id_, "file": file, "line": line} for (kind, id_), (file, line) in moved.items()]
    transaction.run(insert(table), rows)
    return len(moved)


def _forget(transaction: Transaction, keys: Iterable[Key]) -> None:
    for these in _these(keys):
        transaction.run(delete(schema.declared_places).where(these))


def _these(keys: Iterable[Key]) -> Iterator[ColumnElement[bool]]:
    """Many with each statement: all of a large file may have moved. By the kind first, which the key begins with."""
    table = schema.declared_places
    ids: dict[str, list[str]] = {}
    for kind, id_ in keys:
        ids.setdefault(kind, []).append(id_)
    for kind, wanted in ids.items():
        for chunk in chunks(sorted(wanted)):
            yield (table.c.kind == kind) & table.c.id.in_(chunk)

"""All that a database holds, for a migrated one of the same kind that is empty.

    restore = copies.of(database)
    restore(another)

    value = copies.made(database, name, make)      by `make(database)` once a process; the rows alone for the next one

On PostgreSQL it is one text of statements for all rows: a copy of the database itself would be the server's work of a
tenth of a second (emptied.py), more than most of what is copied takes to make.
"""

import sqlite3
from collections.abc import Callable, Hashable, Iterator
from contextlib import closing
from functools import partial
from typing import TypeVar

import psycopg
from psycopg import sql

from coordinator.database import schema
from coordinator.database.database import Database

# Tables may name each other.
_BEGIN = "SET LOCAL session_replication_role = replica"
_SEQUENCES = """
    SELECT format('SELECT setval(%L, %s)', sequencename, last_value) FROM pg_sequences
    WHERE schemaname = 'public' AND last_value IS NOT NULL
"""

Made = TypeVar("Made")
_MADE: dict[tuple[bool, Hashable], tuple[Callable[[Database], None], object]] = {}


def made(database: Database, name: Hashable, make: Callable[[Database], Made]) -> Made:
    """What `make` fills an empty database with, and what it has given: the same one to everybody, so a value that
    nobody changes.
    """
    key = database.is_sqlite, name
    if key not in _MADE:
        value = make(database)
        _MADE[key] = of(database), value
        return value
    restore, known = _MADE[key]
    restore(database)
    return known  # type: ignore[return-value]


def of(database: Database) -> Callable[[Database], None]:
    with closing(database.engine.raw_connection()) as connection:
        if database.is_sqlite:
            copy = sqlite3.connect(":memory:", check_same_thread=False)
            connection.driver_connection.backup(copy)
            return partial(_restore_sqlite, copy)
        return partial(_restore_postgresql, ";".join(_statements(connection.driver_connection)))


def _restore_sqlite(copy: sqlite3.Connection, database: Database) -> None:
    with closing(database.engine.raw_connection()) as connection:
        copy.backup(connection.driver_connection)


def _restore_postgresql(statements: str, database: Database) -> None:
    with closing(database.engine.raw_connection()) as connection:
        connection.driver_connection.execute(statements)
        connection.commit()


def _statements(connection: psycopg.Connection) -> Iterator[str]:
    yield _BEGIN
    for name in map(sql.Identifier, schema.metadata.tables):
        rows = connection.execute(sql.SQL("SELECT * FROM {}").format(name)).fetchall()
        if rows:
            values = sql.SQL(",").join(sql.SQL("({})").format(sql.SQL(",").join(map(sql.Literal, row))) for row in rows)
            yield sql.SQL("INSERT INTO {} VALUES {}").format(name, values).as_string(connection)
    yield from (text for (text,) in connection.execute(_SEQUENCES))

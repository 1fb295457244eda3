"""All rows of a database as plain values, of any of our databases, and into any other one that is empty.

    pack      one consistent view, as MessagePack: the tables in the order in which rows may refer to each other
    unpack    values that were read of it, into a database that holds none, one transaction for all of it
    copy      from one database into another

So a cluster goes from SQLite to PostgreSQL, or back, and neither `pg_dump` nor a page of a file is part of it. What
is of one coordinator's work alone, and of no state, stays where it is.

    {"table", "columns"}   then [value, ...] for each row of it, in that order; at last {"rows"}: how many there were
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgpack
from sqlalchemy import Column, Connection, Table, func, insert, inspect, select, text
from sqlalchemy.exc import StatementError

from coordinator.base.refusal import Code, Refused
from coordinator.database import migrations, schema
from coordinator.database.database import Database

PASSED_OVER = frozenset({"coordinator_reports", "publishing_claims", "readiness", "storage_reports"})
MOST_BYTES = 1 << 30  # of one row
_ROWS = 200  # at a time
_NUMBERS = -(1 << 63), (1 << 63) - 1  # that both databases keep


class BadRowsError(Exception):
    """What is read is not what `pack` writes."""


def tables() -> tuple[Table, ...]:
    return tuple(table for table in schema.metadata.sorted_tables if table.name not in PASSED_OVER)


def pack(database: Database) -> Iterator[bytes]:
    pack_one, count = msgpack.Packer(use_bin_type=True).pack, 0
    with database.read() as transaction:
        for table in tables():
            yield pack_one({"table": table.name, "columns": [column.name for column in table.columns]})
            for row in transaction.stream(select(table)):
                count += 1
                yield pack_one(list(row))
    yield pack_one({"rows": count})


def read_values(pieces: Iterable[bytes]) -> Iterator[object]:
    """The values of MessagePack, as they come. BadRowsError."""
    reading = msgpack.Unpacker(raw=False, strict_map_key=True, max_buffer_size=MOST_BYTES)
    try:
        for piece in pieces:
            reading.feed(piece)
            yield from reading
    except (ValueError, msgpack.UnpackException) as error:
        raise BadRowsError(f"it cannot be read: {type(error).__name__}") from None


def unpack(values: Iterable[object], database: Database) -> int:
    """How many rows. BadRowsError; Refused `already_initialised` where the database holds any. All or nothing."""
    with database.engine.begin() as connection:
        _begin(connection)
        try:
            return _Unpacking(connection).read(values)
        except (StatementError, TypeError) as error:  # a value of another kind than its column
            raise BadRowsError(f"a row does not fit: {type(error).__name__}") from None


def copy(source: Database, target: Database) -> None:
    """Refused as above."""
    with source.read() as transaction, target.engine.begin() as connection:
        _begin(connection)
        for table in tables():
            names, batch = [column.name for column in table.columns], []
            for row in transaction.stream(select(table)):
                batch.append(dict(zip(names, row, strict=True)))
                if len(batch) == _ROWS:
                    connection.execute(insert(table), batch)
                    batch = []
            if batch:
                connection.execute(insert(table), batch)
            _go_on_counting(connection, table)


def check_empty(database: Database) -> None:
    with database.engine.connect() as connection:
        _check_empty(connection)


def holds(database: Database, cluster_id: str) -> bool:
    """Whether it is of this cluster."""
    if not inspect(database.engine).has_table(schema.cluster.name):
        return False
    with database.engine.connect() as connection:
        return connection.execute(select(schema.cluster.c.cluster_id)).scalar() == cluster_id


def _begin(connection: Connection) -> None:
    migrations.upgrade(connection)
    _check_empty(connection)


def _check_empty(connection: Connection) -> None:
    known = {table.name for table in tables()}
    present = known.intersection(inspect(connection).get_table_names())
    for table in tables():
        if table.name in present and connection.execute(select(func.count()).select_from(table)).scalar():
            remedy = "name an empty database, or move this one away"
            raise Refused(Code.ALREADY_INITIALISED, f"the database holds {table.name} already", remedy=remedy)


class _Unpacking:
    """Rows go in as they come, some at a time."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._left = list(tables())
        self._table: Table | None = None
        self._batch: list[dict[str, object]] = []
        self._count = 0

    def read(self, values: Iterable[object]) -> int:
        said: object = None
        for value in values:
            if said is not None:
                raise BadRowsError("something follows its end")
            if isinstance(value, list):
                self._add(value)
            elif isinstance(value, dict) and value.keys() == {"table", "columns"}:
                self._turn_to(value["table"], value["columns"])
            elif isinstance(value, dict) and value.keys() == {"rows"}:
                said = value["rows"]
            else:
                raise BadRowsError("a value is out of form")
        self._write()
        if said != self._count or self._left:
            raise BadRowsError("rows are missing")
        return self._count

    def _turn_to(self, name: object, columns: object) -> None:
        self._write()
        table = self._left.pop(0) if self._left else None
        if table is None or (name, columns) != (table.name, [column.name for column in table.columns]):
            raise BadRowsError("its tables are not those of this program")
        self._table = table

    def _add(self, values: Sequence[object]) -> None:
        if self._table is None or len(values) != len(self._table.columns):
            raise BadRowsError("a row is out of form")
        if not all(map(_fits, self._table.columns, values)):
            raise BadRowsError(f"a value of {self._table.name} is not what its column is for")
        self._batch.append({column.name: value for column, value in zip(self._table.columns, values, strict=True)})
        self._count += 1
        if len(self._batch) >= _ROWS:
            self._flush(self._table)

    def _flush(self, table: Table) -> None:
        if self._batch:
            self._connection.execute(insert(table), self._batch)
            self._batch = []

    def _write(self) -> None:
        if self._table is not None:
            self._flush(self._table)
            _go_on_counting(self._connection, self._table)


def _fits(column: Column[Any], value: object) -> bool:
    """SQLite keeps anything anywhere, and whoever reads it again expects what the schema says."""
    kind = column.type.python_type
    if value is None:
        return bool(column.nullable)
    if kind in (int, float):
        least, most = _NUMBERS
        return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
    return isinstance(value, kind)


def _go_on_counting(connection: Connection, table: Table) -> None:
    """PostgreSQL numbers rows by a sequence of its own, which has not seen these."""
    numbered = table.autoincrement_column
    if connection.dialect.name == "sqlite" or numbered is None:
        return
    newest = connection.execute(select(func.max(numbered))).scalar()
    if newest is not None:
        named = {"table": table.name, "column": numbered.name, "newest": newest}
        connection.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :newest)"), named)

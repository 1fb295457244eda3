"""Names in the order in which Python sorts them, whatever order the database has for words.

    select(...).order_by(ByteOrder(table.c.node_id)).with_for_update()

Rows are locked in one order by all who lock them, or two of them wait for each other for ever. Some do so by one
statement, which the server puts in order, and some by a statement for each name, which we sort. A PostgreSQL database
has the order of its locale: in that of a language "a_1" may come before "a-1", and to Python it comes after it.

Rejected: to demand a database in the locale C. Those that there are would have to be made anew.
"""

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NULLTYPE


class ByteOrder(FunctionElement[Any]):
    """Of a column of names. SQLite has no other order."""

    inherit_cache = True
    type = NULLTYPE

    def __init__(self, column: ColumnElement[str]) -> None:
        super().__init__(column)


@compiles(ByteOrder)
def _by_collation(element: ByteOrder, compiler: SQLCompiler, **named: object) -> str:
    (column,) = (compiler.process(clause, **named) for clause in element.clauses)
    return f'{column} COLLATE "C"'


@compiles(ByteOrder, "sqlite")
def _as_it_is(element: ByteOrder, compiler: SQLCompiler, **named: object) -> str:
    (column,) = (compiler.process(clause, **named) for clause in element.clauses)
    return column

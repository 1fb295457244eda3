"""One statement over many rows, as the driver takes them.

    execute(connection, statement, rows)    `statement`: one that was made once, for all who carry it out

On their way to the driver, SQLAlchemy looks at each value of each row, which takes longer than it takes SQLite to keep
them. What stands in our columns are strings, bytes, numbers, booleans and None, which both drivers take as they are: so
here the statement is made into the dialect's text once, and the rows go to the driver.

Rejected: the text itself in place of a statement, which would say the schema a second time.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter

from sqlalchemy import Connection, Dialect, Executable
from sqlalchemy.sql import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

MOST_STATEMENTS = 256  # of which the text is kept


def execute(connection: Connection, statement: Executable, rows: Sequence[Mapping[str, object]]) -> int:
    """How many were touched. All rows have the names that the first one has."""
    if not rows:
        return 0
    text, order = _text_of(statement, connection.dialect, tuple(rows[0]))
    if not order:
        return connection.exec_driver_sql(text, [dict(row) for row in rows]).rowcount
    of = itemgetter(*order)
    return connection.exec_driver_sql(text, [of(row) if len(order) > 1 else (of(row),) for row in rows]).rowcount


@lru_cache(maxsize=MOST_STATEMENTS)
def _text_of(statement: Executable, dialect: Dialect, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """And in which order a row's values go in; nothing where they go by name."""
    if not isinstance(statement, ClauseElement):
        raise AssertionError("a statement that has no text")
    compiled = statement.compile(dialect=dialect, column_keys=list(names))
    if not isinstance(compiled, SQLCompiler):
        raise AssertionError("a statement that takes no rows")
    return compiled.string, tuple(compiled.positiontup or ())

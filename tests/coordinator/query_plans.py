"""By which ways a database would find what it is asked."""

from collections.abc import Callable, Iterator

from sqlalchemy import event

from coordinator.database.database import Database, Transaction


def plans_of(database: Database, ask: Callable[[Transaction], object]) -> Iterator[str]:
    """Of each statement that is read with, how the database would find its rows."""
    asked: list[tuple[str, object]] = []

    def keep(_connection, _cursor, statement, parameters, _context, _many) -> None:
        asked.append((statement, parameters))

    with database.read() as transaction:
        event.listen(transaction.connection, "before_cursor_execute", keep)
        ask(transaction)
        event.remove(transaction.connection, "before_cursor_execute", keep)
        explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
        for statement, parameters in asked:
            found = transaction.connection.exec_driver_sql(explain + statement, parameters)
            yield "\n".join(str(row[-1]) for row in found)

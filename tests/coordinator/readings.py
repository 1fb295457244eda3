"""Readings of the database that end when a test wants it: what happens meanwhile is news to them."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from coordinator.database.database import Database


@contextmanager
def held_reading(database: Database, table: str) -> Iterator[threading.Event]:
    """The next reading of the table ends when the block does. Set once it has read.

    Of that table alone: a transaction of a daemon's own work may hold a lock that the test itself waits for.
    """
    read, go = threading.Event(), threading.Event()

    def hold(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if re.search(rf"\bFROM {table}\b", statement) and not read.is_set():
            read.set()
            go.wait(60)

    event.listen(database.engine, "after_cursor_execute", hold)
    try:
        yield read
    finally:
        go.set()

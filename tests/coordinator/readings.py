"""Readings of the database that end when a test wants it: what happens meanwhile is news to them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from coordinator.database.database import Database


@contextmanager
def held_reading(database: Database) -> Iterator[threading.Event]:
    """The next transaction has read what it reads, and ends when the block does. Set once it has read."""
    read, go = threading.Event(), threading.Event()

    def hold(_connection: object) -> None:
        if not read.is_set():
            read.set()
            go.wait(60)

    event.listen(database.engine, "commit", hold)
    try:
        yield read
    finally:
        go.set()

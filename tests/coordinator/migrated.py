"""SQLite files of the newest schema, copies of one that was migrated once: test_migrations has how that is done.

`share()` has every migration of a new SQLite file from then on come to the same, and one of a database that is up to
date read no revisions: in a process that tests have forked, or in theirs, each of them would be a third of an `init`.
What is older, newer or of another kind is migrated by the product alone, and so is all in a program that is started.
"""

import sqlite3
import sqlite3.dump  # who acts as another account cannot load it any more
import tempfile
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import TypeVar

from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from coordinator.database import migrations
from coordinator.database.database import Database

Upgrade = Callable[[Connection], str]
Found = TypeVar("Found")


def at(file: Path) -> str:
    """A new file; its URL."""
    file.touch(0o600, exist_ok=False)
    file.write_bytes(_template())
    return f"sqlite:///{file}"


def share() -> None:
    migrations.upgrade = wraps(plain())(partial(_upgrade, plain()))


def plain() -> Upgrade:
    """What the product does by itself."""
    upgrade: Upgrade = getattr(migrations.upgrade, "__wrapped__", migrations.upgrade)
    return upgrade


def warm() -> None:
    """For who is forked from here on."""
    _statements()


def _upgrade(by_itself: Upgrade, connection: Connection) -> str:
    newest, statements = _statements()
    if MigrationContext.configure(connection).get_current_revision() == newest:
        return newest
    if connection.dialect.name != "sqlite" or inspect(connection).get_table_names():
        return by_itself(connection)
    for statement in statements:
        connection.exec_driver_sql(statement)
    return newest


@cache
def _template() -> bytes:
    return _migrated(Path.read_bytes)


@cache
def _statements() -> tuple[str, list[str]]:
    """The newest revision, and all that its schema is made by."""
    return _migrated(_dump)


def _migrated(read: Callable[[Path], Found]) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        shared, migrations.upgrade = migrations.upgrade, plain()
        try:
            database = Database(f"sqlite:///{file}")
            database.migrate()
            database.close()
        finally:
            migrations.upgrade = shared
        return read(file)


def _dump(file: Path) -> tuple[str, list[str]]:
    with sqlite3.connect(file) as connection:
        ((newest,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        statements = [line for line in connection.iterdump() if line not in ("BEGIN TRANSACTION;", "COMMIT;")]
    connection.close()
    return newest, statements

"""What is said of a database that fails: a full disk by its code, on both databases."""

import errno
import sqlite3
from pathlib import Path

import psycopg.errors
import pytest
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.database.database_fault import is_full, line_of


def test_a_full_disk_has_a_code_of_its_own(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/state.db")
    database.migrate()
    row = {"node_id": "n", "incarnation": "i", "sequence": 1, "received_at": 1.0, "body": "x" * 100_000}
    with pytest.raises(SQLAlchemyError) as found, database.record() as transaction:
        transaction.connection.exec_driver_sql("PRAGMA max_page_count = 1")
        transaction.run(insert(schema.events), [row])
    assert line_of(found.value) == "store_full: OperationalError: database or disk is full"
    assert database.write_fault == line_of(found.value)
    database.engine.dispose()
    with database.record() as transaction:
        transaction.run(insert(schema.events), [row])
    assert database.write_fault == ""
    database.close()


def test_postgresql_says_it_by_its_number() -> None:
    """53100 of its table of codes"""
    error = OperationalError("INSERT", {}, psycopg.errors.DiskFull("could not extend file: No space left on device"))
    assert line_of(error).startswith("store_full: OperationalError: could not extend file")


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), True),
        (OSError(errno.EACCES, "Permission denied"), False),
        (sqlite3.OperationalError("database is locked"), False),
        (OperationalError("INSERT", {}, psycopg.errors.AdminShutdown("the server goes")), False),
        (None, False),
    ],
)
def test_nothing_else_is_a_full_disk(error: BaseException | None, full: bool) -> None:
    assert is_full(error) is full

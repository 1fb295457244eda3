"""What is said of a database that fails: a full disk by its code, on both databases."""

import errno
import sqlite3
from pathlib import Path

import psycopg.errors
import pytest
from sqlalchemy import insert
from sqlalchemy.exc import OperationalError, ProgrammingError, SQLAlchemyError

from coordinator.database import schema
from coordinator.database.database import Database
from coordinator.database.database_fault import is_full, is_silence, line_of
from coordinator.servers import servers


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


@pytest.mark.parametrize(
    ("state", "is_silent"),
    [
        (None, True),
        ("08006", True),
        ("57P01", True),
        ("57P03", True),
        ("57014", True),
        ("28P01", False),
        ("42501", False),
    ],
)
def test_who_answers_is_not_silent(state: str | None, is_silent: bool) -> None:
    class Said(Exception):
        sqlstate = state

    assert is_silence(OperationalError("", None, Said())) is is_silent
    assert not is_silence(ProgrammingError("", None, Said()))


@pytest.mark.parametrize(
    ("said", "is_refusal"),
    [
        ('connection to server at "db" (10.0.0.1), port 5432 failed: Connection refused', False),
        ('connection to server on socket "/s" failed: FATAL:  role "c2" is not permitted to log in', True),
        ('connection to server at "db" failed: FATAL:  password authentication failed for user "c2"', True),
        (
            'connection failed: connection to server on socket "/s" failed: FATAL:  the database system is starting up',
            False,
        ),
        ("connection timeout expired", False),
        ("server closed the connection unexpectedly", False),
    ],
)
def test_a_server_that_refuses_is_told_from_none(said: str, is_refusal: bool) -> None:
    assert servers._is_refusal(Exception(said)) is is_refusal

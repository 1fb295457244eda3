"""A copy of the database as it is at one moment, made while it is used, and the way back.

SQLite copies itself page by page within one read transaction (its backup API): writers go on meanwhile. Of PostgreSQL
`pg_dump` does the same. Copying the file is none: what lies in the log beside it is missing from it.
"""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from sqlalchemy import inspect
from sqlalchemy.engine import URL

from coordinator.base.refusal import Code, Refused
from coordinator.database.database import Database
from coordinator.servers import database_url

SQLITE, POSTGRESQL = "database.sqlite3", "database.pgdump"
MEMBERS = (SQLITE, POSTGRESQL)
PATIENCE_S = 3_600  # a dump that has hung longer is given up
WAIT_S = 60  # for a lock on the file


def member_of(url: str) -> str:
    return SQLITE if database_url.read(url).get_backend_name() == "sqlite" else POSTGRESQL


def copy(url: str, to: Path) -> None:
    """Into a new file. Refused; OSError and sqlite3.Error for the disk's own faults."""
    if member_of(url) == SQLITE:
        _copy_sqlite(Path(str(database_url.read(url).database)), to)
    else:
        _run("pg_dump", url, "--format=custom", f"--file={to}")


def check(member: Path) -> str:
    """The id of the cluster that a copy holds. Refused `backup_damaged` where it holds none, or is not sound."""
    if member.name == POSTGRESQL:
        if shutil.which("pg_restore"):
            _run("pg_restore", None, "--list", str(member))
        return ""
    try:
        with closing(sqlite3.connect(f"file:{member}?mode=ro&immutable=1", uri=True)) as database:
            (verdict,) = database.execute("PRAGMA integrity_check").fetchone()
            row = database.execute("SELECT cluster_id FROM cluster").fetchone()
    except sqlite3.Error as error:
        raise Refused(Code.BACKUP_DAMAGED, f"the database in it: {error}", remedy="use another backup") from error
    if verdict != "ok" or row is None:
        detail = f"the database in it: {verdict if row else 'no cluster'}"
        raise Refused(Code.BACKUP_DAMAGED, detail, remedy="use another backup")
    return str(row[0])


def is_there(url: str) -> bool:
    """A file that has its name, or a server's database that holds anything."""
    if member_of(url) == SQLITE:
        return Path(str(database_url.read(url).database)).exists()
    return bool(_tables(url))


def check_empty(url: str) -> None:
    """Whether a server's database holds nothing; Refused `already_initialised` otherwise."""
    taken = _tables(url)
    if taken:
        remedy = "name an empty database in [database] url, or drop this one"
        raise Refused(Code.ALREADY_INITIALISED, f"the database holds {taken[0]} already", remedy=remedy)


def put_back_to_server(member: Path, url: str) -> None:
    """Into a PostgreSQL database that was `check_empty`, whole or not at all."""
    _run("pg_restore", url, "--exit-on-error", "--single-transaction", "--no-owner", str(member))


def _tables(url: str) -> list[str]:
    database = Database(url)
    try:
        return inspect(database.engine).get_table_names()
    finally:
        database.close()


def _copy_sqlite(source: Path, to: Path) -> None:
    with (
        closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True, timeout=WAIT_S)) as opened,
        closing(sqlite3.connect(to)) as made,
    ):
        opened.backup(made)
        made.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it


def _run(program: str, url: str | None, *arguments: str) -> None:
    """The password goes by the environment: everybody on the machine may read a command line."""
    found = shutil.which(program)
    if found is None:
        remedy = "install postgresql-client, of the server's version or a later one"
        raise Refused(Code.BACKUP_FAILED, f"{program} is not on this machine", remedy=remedy)
    place, environment = ([], {}) if url is None else _place(database_url.read(url))
    if said := _failure_of([found, *place, *arguments], environment):
        raise Refused(Code.BACKUP_FAILED, f"{program}: {said}", remedy="correct what it names, then again")


def _failure_of(command: list[str], environment: Mapping[str, str]) -> str:
    """Why it failed, or nothing."""
    try:
        done = subprocess.run(  # noqa: S603 - our own words, and no shell
            command,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {PATIENCE_S} s"
    if not done.returncode:
        return ""
    return next(iter(done.stderr.splitlines()), "") or f"exit status {done.returncode}"


def _place(url: URL) -> tuple[list[str], dict[str, str]]:
    plain = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
    return [f"--dbname={plain.render_as_string()}"], {"PGPASSWORD": str(url.password)} if url.password else {}

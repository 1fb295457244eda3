"""One PostgreSQL database for test after test, emptied in between.

A copy for each would be the server's work of a tenth of a second, and that of every connection which then reads its
catalogues for the first time. A database whose tables are others than before, or that cannot be emptied, is left to
whoever still writes to it: the next test has another one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import LiteralString

import psycopg
from psycopg import sql

from coordinator.database.database import Database

# Of a table that was emptied, and is vacuumed, there is no page.
_TABLES = """
    SELECT relkind::text, relname, oid::bigint, relnatts, relkind = 'r' AND pg_relation_size(oid) > 0 FROM pg_class
    WHERE relnamespace = to_regnamespace('public') AND relkind IN ('r', 'S') ORDER BY relname
"""
# Whoever still has a transaction open here would be waited for.
_END_OTHERS: LiteralString = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_KEPT = "alembic_version"


@dataclass
class Emptied:
    """Of one server, in which the database `postgres` has the schema. `url` is SQLAlchemy's, without the name."""

    url: str

    def __post_init__(self) -> None:
        self._made = 0
        self._plain = self.url.replace("postgresql+psycopg", "postgresql")
        migrated = Database(self.url.format("postgres"))
        migrated.migrate()
        migrated.close()
        self._make()

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of an empty database, until the block ends."""
        yield self.url.format(self._name)
        try:
            is_empty = self._empty()
        except psycopg.Error:
            is_empty = False
        if not is_empty:
            self.close()
            with psycopg.connect(self._plain.format("template1"), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {self._name} WITH (FORCE)")
            self._make()

    @property
    def _name(self) -> str:
        return f"emptied{self._made}"

    def close(self) -> None:
        self._connection.close()

    def _make(self) -> None:
        self._made += 1
        with psycopg.connect(self._plain.format("template1"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self._name} TEMPLATE postgres STRATEGY file_copy")
        self._connection = psycopg.connect(self._plain.format(self._name), autocommit=True)
        self._connection.execute("SET lock_timeout = '10s'")
        self._connection.execute("SET session_replication_role = replica")  # no order among tables that name each other
        self._revision, self._tables, _ = self._schema()

    def _empty(self) -> bool:
        """False where the tables, or their revision, are not those that it began with."""
        self._connection.execute(_END_OTHERS)
        revision, tables, filled = self._schema()
        if (revision, tables) != (self._revision, self._tables):
            return False
        deleting = [sql.SQL("DELETE FROM {}").format(name) for name in filled]
        sequences = [sql.Identifier(name) for kind, name, *_ in tables if kind == "S"]
        restarting = [sql.SQL("ALTER SEQUENCE {} RESTART").format(name) for name in sequences]
        self._connection.execute(sql.SQL(";").join([*deleting, *restarting]))
        if filled:
            self._connection.execute(sql.SQL("VACUUM {}").format(sql.SQL(",").join(filled)))
        return True

    def _schema(self) -> tuple[list[tuple], list[tuple], list[sql.Identifier]]:
        """The revision; the tables and sequences; which of the tables have been written to since they were emptied."""
        found = self._connection.execute(_TABLES).fetchall()
        filled = [sql.Identifier(name) for _, name, *_, is_filled in found if is_filled and name != _KEPT]
        revision = self._connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return revision, [row[:-1] for row in found], filled

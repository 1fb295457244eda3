"""Two real PostgreSQL servers, a primary and its streaming standby, for tests of what happens when one takes over.

One pair serves a whole file: after each test the server that fell out is made anew, as a standby of the other.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from coordinator.database.database import Database
from tests.coordinator import postgresql
from tests.coordinator.postgresql import Server, Unavailable

_SETTINGS = "-c wal_level=replica -c max_wal_senders=4 -c jit=off -c max_connections=60 -c shared_buffers=32MB"


@dataclass
class Pair:
    """`primary` takes writes and `standby` follows it; `fallen` are servers that a promotion has left behind."""

    primary: Server
    standby: Server
    databases: int = field(default=0)
    is_sound: bool = field(default=True)  # both as they were when the pair was made

    @property
    def hosts(self) -> tuple[Path, Path]:
        """Always in the same order."""
        first, second = sorted((self.primary.base, self.standby.base))
        return first, second

    def new_database(self) -> str:
        """The URL of a migrated one without rows, which names both servers."""
        self.databases += 1
        name = f"db{self.databases}"
        self.on_primary(f"CREATE DATABASE {name}")
        first, second = self.hosts
        return f"postgresql+psycopg://holdfast@/{name}?host={first},{second}&target_session_attrs=read-write"

    def on_primary(self, *statements: str) -> list[tuple[object, ...]]:
        return ask(self.primary, *statements)

    def keep_in_step(self) -> None:
        """From now on a commit waits until the standby has it."""
        self.is_sound = False
        self.on_primary("ALTER SYSTEM SET synchronous_commit = 'remote_apply'")
        self.on_primary("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        while not self.on_primary("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"):
            pass

    def fall_behind(self) -> None:
        """From now on the standby hears of nothing: what is committed is lost if it takes over."""
        self.is_sound = False
        self.on_primary("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
        self.standby.stop()

    def fail_over(self) -> None:
        """The primary is gone, and the standby takes its place with what it has."""
        self.is_sound = False
        with suppress(Unavailable):  # it has been stopped already
            self.primary.stop()
        with suppress(Unavailable):  # it runs, unless it has fallen behind
            self.standby.start()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def repair(self) -> None:
        """Whatever the other server is now, it is a standby again, with all that the primary has."""
        if self.is_sound:
            return
        with suppress(Unavailable):
            self.primary.start()
        with suppress(Unavailable):
            self.standby.stop()
        self.on_primary("ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
        self.standby.follow(self.primary)
        self.is_sound = True


def ask(server: Server, *statements: str) -> list[tuple[object, ...]]:
    """Rows of the last one."""
    with psycopg.connect(host=str(server.base), user="holdfast", dbname="postgres", autocommit=True) as connection:
        for statement in statements[:-1]:
            connection.execute(statement.encode())
        found = connection.execute(statements[-1].encode())
        return list(found) if found.description else []


@contextmanager
def pair(directory: Path) -> Iterator[Pair]:
    """Unavailable where there is no PostgreSQL."""
    with ExitStack() as at_the_end:
        started = at_the_end.enter_context(postgresql.stoppable(directory, "one", settings=_SETTINGS))
        for_new_ones = Database(started.url.format("template1"))
        for_new_ones.migrate()
        for_new_ones.close()
        base = postgresql.new_base(directory, started.user, "two")
        other = replace(started, base=base)
        at_the_end.callback(shutil.rmtree, base, ignore_errors=True)
        at_the_end.callback(_stop, other)
        other.follow(started)
        yield Pair(started, other)


def _stop(server: Server) -> None:
    with suppress(Unavailable):
        server.stop()

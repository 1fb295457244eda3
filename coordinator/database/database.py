"""The engine, and what a transaction is: one change, one audit row at least, all of it or nothing.

Changes of the authoritative state are made one at a time, on every replica: SQLite by BEGIN IMMEDIATE, PostgreSQL by
one advisory lock held to the end of the transaction. So whatever a change has read still holds when it commits. Reports
of nodes (`record`) do not take that lock. Where both write rows of several nodes, all take them in one order, or two
would wait for each other: what was reported, refusals, heads, rows of changes; and in each table by node. A statement
over many rows takes them as it finds them, so they are locked before it.
"""

import fcntl
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Insert,
    Select,
    Table,
    bindparam,
    create_engine,
    event,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql as postgresql_dialect
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.engine import URL, Row
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import SQLAlchemyError

from coordinator.base import bulk
from coordinator.base.among import Among, ids_by_name, ids_value
from coordinator.base.refusal import Code, Refused, bound_text
from coordinator.database import migrations, running_digests, schema
from coordinator.database.database_fault import is_of_the_server, line_of
from coordinator.database.running_digests import Folding
from coordinator.servers import database_url
from coordinator.servers.servers import Servers
from snapshot import canonical

# One number for all replicas of a database: the lock under which state changes ("holdfast" in ASCII).
_CHANGES = 0x686F6C6466617374
_LOCK_TIMEOUT_MS = 15_000  # rules, Numbers: local request
_IDLE_MS = 300_000  # a coordinator that stands still within a transaction: then others get what it has locked
# Of libpq: a server that is gone without a word is noticed, and a pooled connection to it is made anew (rules P1).
_PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": _LOCK_TIMEOUT_MS,
}
SHRINK_PAGES, KEPT_PAGES = 512, 1_024  # of 4 KiB: what is moved at a time, and what is kept for the next changes
_ANEW_BYTES = 256 << 20
_LOG_BYTES = 16 << 20  # what SQLite's log is cut to once all of it is in the file
ROOM_BYTES = 4 << 20  # SQLite writes as much into its log before it folds it into the file
_STREAMED = 1_000  # rows held at a time
STATES = 3  # remembered: that which is, the one before, and the one to come
_IMMEDIATE = "holdfast_immediate"  # an execution option of ours: this transaction is going to write


NO_SEED = "the database has a signed history, and the seed that continues it is not here"
NO_SEED_REMEDY = (
    "put the file `seed` of a coordinator of this cluster, or of a backup, beside the config keys; restart; "
    "where all have lost it, an owner brings it: holdfastctl coordinators recover"
)
_HISTORY = select(schema.pointers.c.key).limit(1)
_BOUNDED = text(
    "SELECT set_config('lock_timeout', :lock, true), set_config('idle_in_transaction_session_timeout', :idle, true)"
)
_AUDIT = insert(schema.audit)
CANCEL_EXPORT = "holdfastctl export --cancel"
# Of a move of the whole cluster (membership/moving.py): the first ends all changes here.
MOVED_TO, MOVED_FROM = "to", "from"
_MOVED = select(schema.moves.c.coordinator_id, schema.moves.c.url).where(schema.moves.c.direction == MOVED_TO)


class OpenLink(Protocol):
    """The link of the history that an open change is going to be (history.py)."""

    @property
    def number(self) -> int: ...

    @property
    def is_anew(self) -> bool:
        """What is kept of the digests does not count: they are made from all rows."""

    def add(self, transaction: "Transaction", digests: Mapping[str, bytes]) -> None:
        """`digests`: as they stand after it."""

    def keep(self) -> None:
        """It is committed: it is what was seen last."""


class ContinuedState(Protocol):
    """What was seen of this database before (continuity.py)."""

    def gap(self, transaction: "Transaction", authority_epoch: int) -> str:
        """Why what is there now, with this epoch, does not follow from it; or nothing."""


class ChangeLinks(Protocol):
    """Who links changes. Refused `untrusted_history` where the one before this change cannot be believed."""

    @property
    def known_state(self) -> ContinuedState | None:
        """Asked before a transaction begins: what is seen meanwhile need not be in its view."""

    def begin(self, transaction: "Transaction", digests: Mapping[str, bytes]) -> OpenLink | None: ...


class CanonicalText(str):
    """JSON as it is to be written: canonical already."""


def is_in(column: ColumnElement[Any], values: Collection[str]) -> ColumnElement[bool]:
    """`column.in_(values)` for ids, which go as one value (among.py)."""
    return Among(column, ids_value(values))


def is_named(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """The same, in a statement that is made once: `values` are given as `named` when it is carried out."""
    return Among(column, ids_by_name("named"))


class Memory:
    """What was read of states that have a name, so that it need not be read again (catalog.py): of the last few. A
    reader may still see the state before the last one, and one that is being committed is seen before its writer
    goes on.
    """

    def __init__(self) -> None:
        self._kept: dict[str, object] = {}

    def get(self, name: str) -> object | None:
        return self._kept.get(name)

    def keep(self, found: Mapping[str, object]) -> None:
        """Of two threads at once one may be forgotten, and is read again."""
        others = [(name, known) for name, known in self._kept.items() if name not in found]
        self._kept = dict([*others, *found.items()][-STATES:])


@dataclass
class Transaction:
    """An open transaction. Rows go in and out as plain mappings; nothing here outlives the transaction, but what is to
    be remembered of a state.
    """

    connection: Connection
    actor: str = ""
    now: float = 0.0
    link: int | None = field(default=None, init=False)  # the number of the link that this change is going to be
    audited: bool = field(default=False, init=False)
    folding: Folding = field(default_factory=Folding, init=False)
    memory: Memory = field(default_factory=Memory)
    known_state: ContinuedState | None = None
    named_owners: Mapping[str, str] | None = None  # of shares of the seed, where this change names them
    to_remember: dict[str, object] = field(default_factory=dict, init=False)

    def recall(self, state_id: str) -> object | None:
        """What is remembered of a state, or was read of it in this transaction."""
        return self.to_remember.get(state_id) or self.memory.get(state_id)

    def rows(self, statement: Executable, values: Mapping[str, object] | None = None) -> Sequence[Row[Any]]:
        """`values`: by name, of a statement that was made once for many."""
        return self.connection.execute(statement, values).all()

    def stream(self, statement: Executable) -> Iterator[Row[Any]]:
        """Never all of them at once."""
        with self.connection.execute(statement.execution_options(yield_per=_STREAMED)) as rows:
            yield from rows

    def row(self, statement: Executable, values: Mapping[str, object] | None = None) -> Row[Any] | None:
        return self.connection.execute(statement, values).first()

    def find(self, table: Table, key: str) -> Row[Any] | None:
        """The row of a key, by a statement that is made once for a table."""
        return self.connection.execute(_by_key(table), {"key": key}).first()

    def number(self, statement: Executable) -> int:
        """The first column of the first row, a number; 0 where there is none."""
        return int(self.connection.execute(statement).scalar() or 0)

    def run(self, statement: Executable, values: Sequence[Mapping[str, object]] | None = None) -> int:
        """Rows touched. With `values` the statement runs once for each; without any it does not run. What the
        statement writes is followed by the running digests.
        """
        if self.folding.follows(statement):
            return self.folding.run(self.connection, statement, values)
        if values is None:
            return int(getattr(self.connection.execute(statement), "rowcount", 0))
        if values:
            self.connection.execute(statement, values)
        return len(values)

    def run_many(self, statement: Executable, rows: Sequence[Mapping[str, object]]) -> int:
        """The same of many rows, which all have the same names; `statement`: one that was made once (bulk.py)."""
        if rows and self.folding.follows(statement):
            return self.folding.insert_many(self.connection, statement, rows)
        return bulk.execute(self.connection, statement, rows)

    def put(self, table: Table, rows: Sequence[Mapping[str, object]], *, keep: bool = False) -> None:
        """Each is inserted, or replaces the row of the same key; with `keep` what is there stays."""
        statement = _put(self.connection.dialect.name, table, keep=keep)
        if self.folding.follows(statement):
            self.folding.run(self.connection, statement, rows)
        else:
            bulk.execute(self.connection, statement, rows)

    def audit(
        self, action: str, subject: str, before: object = None, after: object = None, outcome: str = "done"
    ) -> None:
        """Who, when, what, before, after. `before` and `after` are JSON values without secrets."""
        self.audit_all([(action, subject, before, after)], outcome)

    def audit_all(self, acts: Sequence[tuple[str, str, object, object]], outcome: str = "done") -> None:
        """Several acts of one change: (action, subject, before, after)."""
        self.audited = True
        who = {"at": self.now, "actor": bound_text(self.actor), "outcome": outcome, "link": self.link}
        rows = [
            {
                **who,
                "action": action,
                "subject": bound_text(subject),
                "before": _write_json(before),
                "after": _write_json(after),
            }
            for action, subject, before, after in acts
        ]
        self.run_many(_AUDIT, rows)


@cache
def _by_key(table: Table) -> Select[Any]:
    """Made once: making a statement costs as much as running it."""
    (key,) = table.primary_key.columns
    return select(table).where(key == bindparam("key"))


@cache
def _put(dialect: str, table: Table, *, keep: bool) -> Insert:
    """As above."""
    key = [column.name for column in table.primary_key]
    statement = sqlite_dialect.insert(table) if dialect == "sqlite" else postgresql_dialect.insert(table)
    if keep:
        return statement.on_conflict_do_nothing(index_elements=key)
    new = {column.name: statement.excluded[column.name] for column in table.columns if column.name not in key}
    return statement.on_conflict_do_update(index_elements=key, set_=new)


def _write_json(value: object) -> str:
    return value if isinstance(value, CanonicalText) else canonical.dumps(value).decode()


class Database:
    """One cluster's database. Synchronous; every method is one transaction, begun and ended on the calling thread."""

    def __init__(self, url: str | URL) -> None:
        """`sqlite:////path/file.db` or `postgresql+psycopg://...`, of one server or several (database_url.py). Opens
        nothing yet.
        """
        self.url = database_url.read(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = _engine(self.url)
        self.servers = None if self.is_sqlite else Servers(self.url)
        if self.servers is not None:
            self.servers.listen(self.engine)
        self.faults = 0  # transactions that the database itself has failed
        self.write_fault = ""  # why the last write failed, or nothing
        self.history: ChangeLinks | None = None  # who links changes; nobody, where no history was begun
        self._claim: int | None = None
        self._memory = Memory()

    def migrate(self) -> str:
        """Bring the schema up to this program's revision, in one transaction; a newer one is refused untouched."""
        if self.is_sqlite and self.url.database:
            _make_private(Path(self.url.database))
            _let_it_shrink(self.engine, Path(self.url.database))
        with self._begin(change=True) as connection:
            return migrations.upgrade(connection)

    @contextmanager
    def change(self, *, actor: str, now: float, after_move: bool = False) -> Iterator[Transaction]:
        """A change of the authoritative state. What does not audit itself is not committed. Where there is a history,
        the change is its next link.

        `moved` once the cluster was exported from here (membership/moving.py), but for what goes on then, `after_move`:
        what is out is renewed, and this coordinator keeps its house.
        """
        seen, link = self._known_state, None
        with self._begin(change=True) as connection:
            transaction = Transaction(connection, actor, now, self._memory, seen)
            if not after_move:
                _refuse_moved(transaction)
            digests = running_digests.read(connection)
            link = None if self.history is None else self.history.begin(transaction, digests)
            if link is not None and link.is_anew:
                digests = {}
            if link is None:
                self._refuse_unlinked(transaction)
            else:
                transaction.link = link.number
            yield transaction
            if not transaction.audited:
                raise AssertionError("a change without an audit row is not committed")
            digests = running_digests.keep(connection, digests, transaction.folding)
            if link is not None:
                link.add(transaction, digests)
            self._memory.keep(transaction.to_remember)  # if the commit fails, nobody ever meets a state of this name
        self.write_fault = ""
        if link is not None:
            link.keep()

    @contextmanager
    def rehearse(self, *, actor: str, now: float) -> Iterator[Transaction]:
        """The same, stopped before the commit (`--dry-run`)."""
        with self._begin(change=True) as connection:
            yield Transaction(connection, actor, now, self._memory)
            connection.rollback()

    @contextmanager
    def record(self, *, now: float = 0.0, actor: str = "coordinator") -> Iterator[Transaction]:
        """What nodes report: no authority, no lock against changes; an audit row only where a report is worth one."""
        with self._begin(change=False, write=True) as connection:
            yield Transaction(connection, actor, now)
        self.write_fault = ""

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """One consistent view."""
        seen = self._known_state
        with self._begin(change=False, write=False) as connection:
            if not self.is_sqlite:
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))
            transaction = Transaction(connection, memory=self._memory, known_state=seen)
            yield transaction
        self._memory.keep(transaction.to_remember)

    def check_writing(self) -> None:
        """Whether the next write goes well: one that leaves everything as it is. SQLAlchemyError where it does not."""
        row = schema.cluster
        with self._begin(change=True) as connection:
            connection.execute(update(row).values(revision=row.c.revision))
        self.write_fault = ""

    def shrink(self) -> bool:
        """Gives a few free pages of a SQLite file back to the disk; whether there are more. A server does it itself."""
        if not self.is_sqlite:
            return False
        with closing(self.engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
            before = _free_pages(cursor)
            if before <= KEPT_PAGES:
                return False
            with suppress(sqlite3.OperationalError):  # no room, or somebody else writes for long
                cursor.executescript(f"PRAGMA incremental_vacuum({SHRINK_PAGES})")  # `execute` moves one page alone
            return KEPT_PAGES < _free_pages(cursor) < before

    def shortage(self) -> str:
        """Why the next write may fail though the last one did not, or nothing. A server watches its own disk."""
        if not self.is_sqlite or not self.url.database:
            return ""
        place = Path(self.url.database).parent
        found = os.statvfs(place)
        free = found.f_bavail * found.f_frsize
        if free >= ROOM_BYTES:
            return ""
        there = f"{free >> 10} KiB are free in {place}, {ROOM_BYTES >> 10} are needed"
        return f"{Code.STORE_FULL}: the database has no room: {there}"

    def claim(self) -> None:
        """Of one SQLite file there is one coordinator: a second one stops here, before it reads (rules P8)."""
        if self.is_sqlite and self._claim is None:
            self._claim = _lock(Path(f"{self.url.database}.lock"))

    def close(self) -> None:
        self.engine.dispose()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    @property
    def _known_state(self) -> ContinuedState | None:
        return None if self.history is None else self.history.known_state

    def _refuse_unlinked(self, transaction: Transaction) -> None:
        """A change that is no link would be a hole in the history that there is."""
        if transaction.row(_HISTORY) is not None:
            raise Refused(Code.UNTRUSTED_HISTORY, NO_SEED, remedy=NO_SEED_REMEDY)

    @contextmanager
    def _begin(self, *, change: bool, write: bool = True) -> Iterator[Connection]:
        try:
            with self._open_transaction(change=change, write=write) as connection:
                yield connection
        except SQLAlchemyError as error:
            self.faults += 1
            if write and is_of_the_server(error):
                self.write_fault = line_of(error)
            raise

    @contextmanager
    def _open_transaction(self, *, change: bool, write: bool) -> Iterator[Connection]:
        with self.engine.connect().execution_options(**{_IMMEDIATE: write}) as connection:
            with connection.begin():
                if write and not self.is_sqlite:  # also for a row: who holds it may be a coordinator that stands still
                    connection.execute(_BOUNDED, {"lock": str(_LOCK_TIMEOUT_MS), "idle": str(_IDLE_MS)})
                if change and not self.is_sqlite:
                    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CHANGES})
                yield connection


def _refuse_moved(transaction: Transaction) -> None:
    row = transaction.row(_MOVED)
    if row is not None:
        remedy = f"do it there; if it was never started: {CANCEL_EXPORT}"
        raise Refused(
            Code.MOVED, f"the cluster was exported from here to {row.coordinator_id}, {row.url}", remedy=remedy
        )


def _engine(url: URL) -> Engine:
    """Its errors do not repeat what was to be written (threats D-55)."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, hide_parameters=True)
        event.listen(engine, "connect", _open_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if url.get_backend_name() == "postgresql" and url.get_driver_name() == "psycopg":
        pool = {"pool_size": 4, "max_overflow": 4, "pool_pre_ping": True}
        return create_engine(url, hide_parameters=True, connect_args=_PATIENCE, **pool)
    raise Refused(
        Code.INVALID_SETTINGS,
        f"{url.drivername} is no database that the coordinator keeps its state in",
        remedy=database_url.REMEDY,
    )


def _open_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    """WAL for readers beside the writer; FULL so that a commit survives power loss (rules P7)."""
    connection.isolation_level = None  # we begin; the driver's own BEGIN comes too late to lock
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "busy_timeout = 15000",
        f"journal_size_limit = {_LOG_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _make_private(path: Path) -> None:
    """A new file is ours alone; SQLite gives its log and its index the same mode.

    One that is there is not opened: closing it would take away the locks that SQLite has on it in this process, and the
    next command beside us would take itself for the last one and remove the log that we go on reading.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if path.is_symlink():
            raise


def _free_pages(cursor: DBAPICursor) -> int:
    cursor.execute("PRAGMA freelist_count")
    (count,) = cursor.fetchone() or (0,)
    return int(count)


def _let_it_shrink(engine: Engine, path: Path) -> None:
    """A new file, or one that was made before: it is written anew, once, unless that takes long."""
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        (mode,) = cursor.execute("PRAGMA auto_vacuum").fetchone()
        if mode or path.stat().st_size > _ANEW_BYTES:
            return
        with suppress(sqlite3.OperationalError):  # no room, or somebody reads: it works as it is, and only grows
            cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
            cursor.execute("VACUUM")


def _lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise Refused(
            Code.IN_USE,
            f"another coordinator works on {path.stem}",
            remedy="stop it, or use PostgreSQL for several coordinators",
        ) from error
    return descriptor

"""Which of its servers a PostgreSQL connection is to: one that takes writes, and never the primary of before.

A standby that is promoted begins another timeline of the same system. Whoever has worked on that takes no connection to
an earlier one: a primary that comes back after its standby was promoted is a second database that takes writes, and
what is written there is lost. Where no server will do, each is named with what is wrong.

A server that answers and refuses this coordinator is told from one that cannot be reached: libpq gives words alone of a
connection that was never made, so the kind of refusal is read of their form (`_is_refusal`), and raised with SQLSTATE
28000, as a refusal of a login has.

The server that was good last is asked first: one that is gone costs `connect_timeout`, and only once.

Rejected: libpq's own list of hosts. It takes the first that takes writes, which is the wrong one of two, for each
connection anew, so that one pool would work on both; waits for the dead one each time; and says of three servers what
is wrong with one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Dialect, Engine, event
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor, ExceptionContext

from coordinator.base import clock
from coordinator.base.refusal import bound_text
from coordinator.servers import database_url
from coordinator.servers.database_url import ServerPlace
from wire.logs import log

_REFUSED = "28000"  # invalid_authorization_specification
# What a server says is led in by its severity and two blanks; what libpq says itself is not, and is in English here.
_SAID_BY_SERVER = re.compile(r"(?:^|: )[^\s:]+:  ")
_NOT_NOW = ("starting up", "shutting down", "in recovery mode", "not yet accepting", "not accepting connections")
_READ_ONLY = "25006"  # PostgreSQL's table of codes: read_only_sql_transaction
# As every user may ask (pg_control_system and pg_walfile_name are granted to all, unless somebody has taken that away).
_STANDING = (
    "SELECT (SELECT system_identifier FROM pg_control_system())::text,"
    " ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int"
)


@dataclass(frozen=True)
class Timeline:
    """Of which system a server is, and which of its timelines; nothing and 0 where it does not say."""

    system: str = ""
    number: int = 0

    def is_before(self, other: "Timeline") -> bool:
        return self.system == other.system and self.number < other.number


NO_TIMELINE = Timeline()


class Servers:
    """Those of one URL. `newest`: the timeline that was worked on last."""

    def __init__(self, url: URL) -> None:
        self._places = database_url.places_of(url)
        self.newest = NO_TIMELINE
        self._moved_at: float | None = None

    def has_moved_within(self, seconds: float) -> bool:
        """Whether another server, or one that was promoted, has taken the place of the last one so lately."""
        return self._moved_at is not None and clock.elapsed_s() - self._moved_at < seconds

    def listen(self, engine: Engine) -> None:
        """From now on the engine's connections are made here, and one that was made read-only ends."""
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "handle_error", _end_read_only)

    def _connect(
        self, dialect: Dialect, _record: object, _cargs: object, given: dict[str, str | int]
    ) -> DBAPIConnection:
        driver = dialect.loaded_dbapi  # which this package does without where the database is a file
        faults, is_refused = [], False
        for place in tuple(self._places):
            try:
                connection = self._try(dialect, given, place)
            except (driver.OperationalError, _Unsuitable) as error:
                faults.append(f"{place}: {_words(error)}")
                is_refused = is_refused or _is_refusal(error)
                continue
            self._places = [place, *(other for other in self._places if other != place)]
            return connection
        fault = driver.errors.lookup(_REFUSED) if is_refused else driver.OperationalError
        if len(faults) == 1:
            raise fault(faults[0].removeprefix(f"{self._places[0]}: "))
        raise fault(f"no server takes writes: {'; '.join(faults)}")

    def _try(self, dialect: Dialect, given: Mapping[str, str | int], place: ServerPlace) -> DBAPIConnection:
        others = {key: value for key, value in given.items() if key not in ("host", "port", "target_session_attrs")}
        connection = dialect.connect(**others, **dict(_members(place)))
        try:
            self._check(dialect, connection, place)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, dialect: Dialect, connection: DBAPIConnection, place: ServerPlace) -> None:
        driver = dialect.loaded_dbapi
        with closing(connection.cursor()) as cursor:
            if _ask(cursor, "SELECT pg_is_in_recovery()")[0]:
                raise _Unsuitable("is a standby, which is read only; promote it, or name the primary")
            if _ask(cursor, "SHOW default_transaction_read_only")[0] == "on":
                raise _Unsuitable("is read only (default_transaction_read_only)")
            try:
                found = Timeline(*_ask(cursor, _STANDING))
            except (driver.ProgrammingError, driver.NotSupportedError):  # a service that keeps it to itself
                found = NO_TIMELINE
        connection.rollback()
        if found.is_before(self.newest):
            about = f"timeline {found.number}, and {self.newest.number} was worked on already"
            raise _Unsuitable(f"is a primary of before a failover ({about}): stop it, make it a standby")
        if found.number:
            if self.newest.number and found != self.newest:
                self._moved_at = clock.elapsed_s()
                log.warning("the database failed over", server=str(place), timeline=found.number)
            self.newest = found


class _Unsuitable(Exception):
    """A server that answers, and is none to work on."""


def _members(place: ServerPlace) -> Iterator[tuple[str, str]]:
    if place.host:
        yield "host", place.host
    if place.port:
        yield "port", place.port


def _ask(cursor: DBAPICursor, question: str) -> Sequence[Any]:
    cursor.execute(question)
    return cursor.fetchone() or ()


def _end_read_only(context: ExceptionContext) -> None:
    """A primary that has become a standby under us: all connections are made anew, to wherever writes go now."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _is_refusal(error: Exception) -> bool:
    """Whether a server has answered, and lets nobody in with this name and password: it is there."""
    said = str(error).strip().partition("\n")[0]
    return _SAID_BY_SERVER.search(said) is not None and not any(words in said for words in _NOT_NOW)


def _words(error: Exception) -> str:
    """What libpq says of one place, without the place, which stands before it."""
    return bound_text(str(error).strip().partition("\n")[0].rpartition(" failed: ")[2])

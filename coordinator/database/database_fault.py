"""What is said of a database that fails: the driver's own words, where they hold nothing of what was to be written.

A full disk, a lock, a lost connection, a damaged file are told in full. Of a statement that did not fit (a value out of
range, a second row of one name) the driver's words repeat the value: there its class has to do (threats D-55).
"""

import errno
import sqlite3

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError

from coordinator.base.refusal import Code, bound_text

_POSTGRESQL_DISK_FULL = "53100"
# PostgreSQL's table of codes: connections that end, a server that starts or stops, or has become a standby; a wait that
# was cut short, for a lock too.
_SILENCE = ("08", "57P", "57014", "55P03", "25006")
_QUOTING = (DataError, IntegrityError, ProgrammingError)


def is_of_the_server(error: SQLAlchemyError) -> bool:
    """Whether it tells of the database itself, and not of one statement."""
    return not isinstance(error, _QUOTING)


def is_silence(error: SQLAlchemyError) -> bool:
    """Whether nobody has answered: no server is reached, a connection has ended, a wait took too long. A login that is
    refused, a privilege or a table that is missing are an answer, to this program or from somebody who has barred it.
    """
    if not isinstance(error, DBAPIError):  # no connection of the pool became free
        return True
    if isinstance(error, _QUOTING):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state is None or state.startswith(_SILENCE)


def line_of(error: SQLAlchemyError) -> str:
    """One line for the log, the probe and operators; of a full disk its code goes first."""
    name = type(error).__name__
    if not isinstance(error, DBAPIError):
        return name
    code = f"{Code.STORE_FULL}: " if is_full(error) else ""
    return f"{code}{name}: {first_line(error) if is_of_the_server(error) else type(error.orig).__name__}"


def is_full(error: BaseException | None) -> bool:
    """Whether a disk has no room: the database's own, or the one that a file is written to."""
    if isinstance(error, DBAPIError):
        return is_full(error.orig)
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) == _POSTGRESQL_DISK_FULL


def first_line(error: SQLAlchemyError) -> str:
    """The driver's words; without a driver those of SQLAlchemy. What follows the first line may hold values."""
    said = str(error.orig if isinstance(error, DBAPIError) else error)
    return bound_text(said.strip().partition("\n")[0])

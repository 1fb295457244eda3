"""What is said of a database that fails: the driver's own words, where they hold nothing of what was to be written.

A full disk, a lock, a lost connection, a damaged file are told in full. Of a statement that did not fit (a value out of
range, a second row of one name) the driver's words repeat the value: there its class has to do (threats D-55).
"""

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError

from coordinator.refusal import bounded

_QUOTING = (DataError, IntegrityError, ProgrammingError)


def is_of_the_server(error: SQLAlchemyError) -> bool:
    """Whether it tells of the database itself, and not of one statement."""
    return not isinstance(error, _QUOTING)


def told(error: SQLAlchemyError) -> str:
    """One line for the log and for operators."""
    name = type(error).__name__
    if not isinstance(error, DBAPIError):
        return name
    return f"{name}: {first_line(error) if is_of_the_server(error) else type(error.orig).__name__}"


def first_line(error: SQLAlchemyError) -> str:
    """The driver's words; without a driver those of SQLAlchemy. What follows the first line may hold values."""
    said = str(error.orig if isinstance(error, DBAPIError) else error)
    return bounded(said.strip().partition("\n")[0])

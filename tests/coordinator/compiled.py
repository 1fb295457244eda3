"""One cache of compiled statements for all databases of a test run, of either kind.

SQLAlchemy keeps what it has compiled with each engine, and so does the product what it makes into text (base/bulk.py):
each test, which has a database of its own, would compile every statement anew, which is more work than to execute it.
All engines of one kind are made alike (coordinator/database), so what was compiled for one is what would be compiled
for the next.
"""

from collections.abc import Callable, Iterator, MutableMapping
from functools import wraps

from sqlalchemy import Connection, Engine, Executable, event
from sqlalchemy.engine.interfaces import Compiled, Dialect

from coordinator.base import bulk

_Key = tuple[object, ...]
TextOf = Callable[[Executable, Dialect, tuple[str, ...]], tuple[str, tuple[str, ...]]]


class Shared(MutableMapping[_Key, Compiled]):
    """By the kind of the database, where SQLAlchemy's own goes by the engine's dialect."""

    def __init__(self) -> None:
        self._held: dict[_Key, Compiled] = {}

    def __getitem__(self, key: _Key) -> Compiled:
        return self._held[_by_kind(key)]

    def __setitem__(self, key: _Key, compiled: Compiled) -> None:
        self._held[_by_kind(key)] = compiled

    def __delitem__(self, key: _Key) -> None:
        del self._held[_by_kind(key)]

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


def _by_kind(key: _Key) -> _Key:
    dialect, *statement = key
    assert isinstance(dialect, Dialect)
    return (dialect.name, *statement)


def share() -> None:
    """Each connection from now on, of whatever engine."""
    shared = Shared()

    @event.listens_for(Engine, "engine_connect")
    def use_shared(connection: Connection) -> None:
        connection.execution_options(compiled_cache=shared)

    bulk._text_of = _for_one_of_its_kind(bulk._text_of)


def _for_one_of_its_kind(text_of: TextOf) -> TextOf:
    """The engine that came first."""
    first: dict[str, Dialect] = {}

    @wraps(text_of)
    def found(statement: Executable, dialect: Dialect, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        return text_of(statement, first.setdefault(dialect.name, dialect), names)

    return found

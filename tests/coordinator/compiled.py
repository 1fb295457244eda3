"""One cache of compiled statements for all databases of a test run, of either kind.

SQLAlchemy keeps what it has compiled with each engine, so each test, which has a database of its own, would compile
every statement anew: more work than to execute it. All engines of one kind are made alike (coordinator/database), so
what was compiled for one is what would be compiled for the next.
"""

from collections.abc import Iterator, MutableMapping

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import Compiled, Dialect

_Key = tuple[object, ...]


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

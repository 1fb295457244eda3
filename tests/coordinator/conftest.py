"""One fixture, two databases: every test of stored state runs on SQLite and on a real PostgreSQL."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

from coordinator.database.database import Database
from tests.coordinator import postgresql
from tests.coordinator.candidates import found
from tests.coordinator.founding import Founded

_numbers = count()


@pytest.fixture(scope="session")
def postgresql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("postgresql")
    with postgresql.or_skip(folder, "pg", "HALF OF THESE TESTS ARE NOT RUN") as server:
        template = Database(server.url.format("postgres"))
        template.migrate()
        template.close()
        yield server.url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a migrated database that belongs to this test, and is gone after it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/state.db"
        database = Database(url)
        database.migrate()
        database.close()
        yield url
        return
    server: str = request.getfixturevalue("postgresql_url")
    name = f"test{next(_numbers)}"
    with psycopg.connect(_plain(server, "template1"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE postgres")
        yield server.format(name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


@pytest.fixture
def cluster(database: Database) -> Database:
    """A cluster without members."""
    found(database)
    return database


@pytest.fixture
def founded(tmp_path: Path) -> Founded:
    """The files of a coordinator on SQLite."""
    return Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")


@pytest.fixture
def second(database_url: str) -> Iterator[Database]:
    """Another coordinator over the same database."""
    opened = Database(database_url)
    yield opened
    opened.close()


def _plain(url: str, name: str) -> str:
    return url.format(name).replace("postgresql+psycopg", "postgresql")

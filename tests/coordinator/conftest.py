"""One fixture, two databases: every test of stored state runs on SQLite and on a real PostgreSQL.

With HOLDFAST_DATABASES=either each runs on one of them, by its name always the same, and with HOLDFAST_DATABASES=other
on the one that it does not run on then. `make test` takes the first word and `make faults` the second, so that between
them each test has run on both; so does `make trixie`, for the tests of modules that speak to the database.
"""

import os
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.database.database import Database
from coordinator.runtime import schema_child
from tests.coordinator import compiled, copies, histories, migrated, postgresql
from tests.coordinator.candidates import found
from tests.coordinator.emptied import Emptied
from tests.coordinator.founding import Founded
from tests.fakes.s3 import S3, running_s3
from tests.world import readers

KINDS = ["sqlite", "postgresql"]
EVERY = 4
"""Each fourth test is one of PostgreSQL in `make test`, where it takes more than twice the processor's time."""

compiled.share()
migrated.share()


@pytest.hookimpl(tryfirst=True)  # before each parameter of the fixture gets a test
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    which = os.environ.get("HOLDFAST_DATABASES", "both")
    if which == "both" or "database_url" not in metafunc.fixturenames:
        return
    if which not in ("either", "other"):
        raise pytest.UsageError(f"HOLDFAST_DATABASES is both, either or other, not {which}")
    named = (mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "database_url" not in named:
        number = zlib.crc32(metafunc.definition.nodeid.encode())
        is_either = which == "either"
        chosen = KINDS[is_either == (number % EVERY == 0)]
        metafunc.definition.add_marker(pytest.mark.parametrize("database_url", [chosen], indirect=True))


@pytest.fixture(scope="session", autouse=True)
def forked_schemas() -> None:
    readers.use_for_schemas()


@pytest.fixture
def started_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child in which schemas judge, for tests whose claim it is."""
    monkeypatch.setattr(schema_child, "subprocess", subprocess)


@pytest.fixture(scope="session")
def emptied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emptied]:
    folder = tmp_path_factory.mktemp("postgresql")
    with postgresql.or_skip(folder, "pg", "HALF OF THESE TESTS ARE NOT RUN") as server:
        database = Emptied(server.url)
        yield database
        database.close()


@pytest.fixture
def postgresql_url(emptied: Emptied) -> Iterator[str]:
    """The URL of a migrated database without rows that belongs to this test."""
    with emptied.lent() as url:
        yield url


@pytest.fixture
def server(postgresql_url: str) -> Iterator[Database]:
    """The same, opened."""
    opened = Database(postgresql_url)
    yield opened
    opened.close()


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The same, on either kind."""
    if request.param == "sqlite":
        yield migrated.at(tmp_path / "state.db")
    else:
        yield request.getfixturevalue("postgresql_url")


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    histories.check_digests(opened)
    opened.close()


@pytest.fixture
def cluster(database: Database) -> Database:
    """A cluster without members."""
    copies.made(database, "cluster", found)
    return database


@pytest.fixture
def founded(tmp_path: Path) -> Founded:
    """The files of a coordinator on SQLite."""
    return Founded(tmp_path, f"sqlite:///{tmp_path}/state.db")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with running_s3(tmp_path_factory.mktemp("s3")) as found:
        yield found


@pytest.fixture
def s3(s3_server: S3) -> S3:
    """With nothing in its bucket."""
    s3_server.clear()
    return s3_server


@pytest.fixture
def second(database_url: str) -> Iterator[Database]:
    """Another coordinator over the same database."""
    opened = Database(database_url)
    yield opened
    opened.close()

"""A test is given a database as if nobody had been there, whatever the one before has left."""

import pytest
from sqlalchemy import text

from coordinator.database import schema
from coordinator.database.database import Database
from tests.coordinator.candidates import admit, contents, found
from tests.coordinator.emptied import Emptied

NAMES = tuple(schema.metadata.tables)


def seen(emptied: Emptied) -> tuple[str, dict[str, int]]:
    with emptied.lent() as url:
        database = Database(url)
        found(database)
        admit(database, "node-a")
        with database.read() as transaction:
            first = transaction.number(text("SELECT min(audit_id) FROM audit"))
        assert first == 1
        rows = contents(database, *NAMES)
        database.close()
        return url, {name: len(each) for name, each in rows.items()}


def test_rows_go_and_numbers_begin_again(emptied: Emptied) -> None:
    assert seen(emptied) == seen(emptied)


@pytest.mark.parametrize("left", ["LOCK TABLE audit", "DELETE FROM audit"])
def test_who_is_left_in_a_transaction_is_ended(emptied: Emptied, left: str) -> None:
    with emptied.lent() as url:
        database = Database(url)
        connection = database.engine.connect()
        connection.execute(text(left))
    seen(emptied)
    connection.invalidate()
    connection.close()
    database.close()


@pytest.mark.parametrize("left", ["DROP TABLE audit", "UPDATE alembic_version SET version_num = 'm9999'"])
def test_another_schema_is_another_database(emptied: Emptied, left: str) -> None:
    with emptied.lent() as url:
        database = Database(url)
        with database.engine.begin() as connection:
            connection.execute(text(left))
        database.close()
    assert seen(emptied)[0] != url

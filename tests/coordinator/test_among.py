"""Ids that go to the database as one value, on both databases."""

from contextlib import nullcontext

import pytest
from sqlalchemy import and_, delete, insert, select, update
from sqlalchemy.exc import DataError

from coordinator.database import schema
from coordinator.database.database import Database, Transaction, is_in, is_named

IDS = (
    "a",
    "b",
    'with "quotes"',
    "with 'these', too",
    "back\\slash",
    "ü",
    "{a,b}",
    "",
    "NULL",
    "null",
    "1",
    "%(x)s",
    "?",
)
_TABLE = schema.head_requests
_KEY = _TABLE.c.node_id
_NAMED = select(_KEY).where(is_named(_KEY))  # made once, as those of the product are


@pytest.fixture
def keyed(database: Database) -> Database:
    with database.record() as transaction:
        transaction.run(insert(_TABLE), [{"node_id": id_, "last_seen": 1.0} for id_ in IDS])
    return database


def found(transaction: Transaction, *conditions: object) -> set[str]:
    return {row.node_id for row in transaction.rows(select(_KEY).where(*conditions))}


@pytest.mark.parametrize(
    "ids", [(), ("a",), ("b", "nobody"), IDS, IDS[2:5] + IDS[2:5], tuple(f"n{n}" for n in range(500))]
)
def test_those_are_found_that_are_named_whatever_they_look_like(keyed: Database, ids: tuple[str, ...]) -> None:
    with keyed.read() as transaction:
        assert found(transaction, is_in(_KEY, ids)) == set(ids) & set(IDS)
        assert found(transaction, is_in(_KEY, set(ids))) == set(ids) & set(IDS)
        assert found(transaction, ~is_in(_KEY, ids)) == set(IDS) - set(ids)
        assert found(transaction, and_(is_in(_KEY, ids), _TABLE.c.last_seen > 1)) == set()
        assert {row.node_id for row in transaction.rows(_NAMED, {"named": ids})} == set(ids) & set(IDS)


def test_an_id_that_no_row_can_have_is_not_cut_short(database: Database) -> None:
    """SQLite's JSON ends a string at a NUL; PostgreSQL has no text with one, and says so."""
    with database.record() as transaction:
        transaction.run(insert(_TABLE), [{"node_id": id_, "last_seen": 1.0} for id_ in ("a", "b")])
    refused = nullcontext() if database.is_sqlite else pytest.raises(DataError)
    with refused, database.read() as transaction:
        assert found(transaction, is_in(_KEY, ["a\0b", "b"])) == {"b"}
        assert found(transaction, is_in(_KEY, ["a\0"])) == set()


def test_those_are_changed_and_removed_that_are_named(keyed: Database) -> None:
    with keyed.record() as transaction:
        assert transaction.run(update(_TABLE).where(is_in(_KEY, IDS[:3])).values(last_seen=2.0)) == 3
        assert transaction.run(delete(_TABLE).where(is_in(_KEY, IDS[2:5]), _TABLE.c.last_seen > 1)) == 1
    with keyed.read() as transaction:
        assert found(transaction) == set(IDS) - {IDS[2]}
        assert found(transaction, _TABLE.c.last_seen > 1) == set(IDS[:2])


def test_the_key_is_looked_up_and_not_each_row(keyed: Database) -> None:
    """A scan of a large fleet's rows for a batch of a few reports would be the end of many a second."""
    if not keyed.is_sqlite:
        pytest.skip("PostgreSQL decides by how many rows there are")
    with keyed.read() as transaction:
        text = str(_NAMED.compile(dialect=keyed.engine.dialect))
        plan = transaction.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", ('["a"]',)).all()
    assert any("SEARCH head_requests" in row.detail for row in plan), plan

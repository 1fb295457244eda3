"""The store's contract, the same on both databases (rules H8, H9, H11, H13, H14)."""

import hashlib

import pytest
from sqlalchemy import update

from coordinator.base.refusal import Code, Refused
from coordinator.database import object_store, schema
from coordinator.database.database import Database, Transaction

BIG = b"x" * (object_store.VALUE_BYTES + 1)


def act(database: Database, function, *arguments, **options):
    with database.change(actor="test", now=1.0) as transaction:
        result = function(transaction, *arguments, **options)
        transaction.audit("test", "store")
    return result


def code(database: Database, function, *arguments, **options) -> Code:
    with pytest.raises(Refused) as caught:
        act(database, function, *arguments, **options)
    return caught.value.code


def put(transaction: Transaction, kind: str, value: bytes) -> str:
    return object_store.put_all(transaction, kind, [value])[0]


def test_objects_are_named_by_their_content(database: Database) -> None:
    """rules H8"""
    key = act(database, put, "states", b"value")
    assert key == "states/" + hashlib.sha256(b"value").hexdigest()
    assert act(database, put, "states", b"value") == key
    assert act(database, object_store.get, key) == b"value"
    assert act(database, object_store.put_all, "states", [b"b", b"", b"b"])[1].startswith("states/e3b0c442")


def test_an_unknown_key(database: Database) -> None:
    """rules H9"""
    assert code(database, object_store.get, "states/" + "0" * 64) is Code.NOT_FOUND


def test_an_object_is_hashed_when_it_is_read(database: Database) -> None:
    """rules H11"""
    key = act(database, put, "states", b"value")
    act(database, lambda transaction: transaction.run(update(schema.objects).values(value=b"other")))
    assert code(database, object_store.get, key) is Code.HASH_MISMATCH


def test_large_values_are_refused_before_writing(database: Database) -> None:
    """rules H13"""
    assert code(database, object_store.put_all, "states", [b"small", BIG]) is Code.TOO_LARGE
    assert code(database, object_store.get, object_store.object_key("states", b"small")) is Code.NOT_FOUND
    assert act(database, object_store.get, act(database, put, "states", BIG[1:])) == BIG[1:]


@pytest.mark.parametrize(
    "key", ["", "a", "a/", "/a", "A/b", "a/B", "a/b/c", "a/..", "a/" + "g" * 64, "a/" + "0" * 63, "a b/c", "ä/b"]
)
def test_keys_out_of_form(database: Database, key: str) -> None:
    """rules H14"""
    assert code(database, object_store.get, key) is Code.BAD_KEY


def test_a_kind_out_of_form(database: Database) -> None:
    """rules H14"""
    assert code(database, put, "STATES", b"value") is Code.BAD_KEY

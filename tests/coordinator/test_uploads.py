"""Parts of declared files: kept by their hash, for as long as somebody asks for them."""

import hashlib

import pytest
from sqlalchemy import delete, select

from coordinator.base.refusal import Code, Refused
from coordinator.base.settings import DAY, CoordinatorSettings
from coordinator.database import documents, object_store, schema, uploads
from coordinator.database.database import Database
from coordinator.runtime import retention
from tests.coordinator.candidates import NOW, admit, found
from tests.coordinator.publications import basis, document, publication, publish


@pytest.fixture
def cluster(database: Database) -> Database:
    found(database)
    return database


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def add(database: Database, value: bytes, now: float = NOW) -> str:
    uploads.add(database, digest(value), value, now=now)
    return digest(value)


def read(database: Database, sha256: str) -> bytes:
    with database.read() as transaction:
        return object_store.get(transaction, f"{documents.SECTIONS}/{sha256}")


def trim(database: Database, now: float) -> tuple[int, int]:
    gone = retention.trim(database, now=now, settings=CoordinatorSettings())
    return gone["uploads"], gone["objects"]


def test_what_is_missing_is_asked_and_then_there(cluster: Database) -> None:
    one, two = digest(b"one"), digest(b"two")
    assert uploads.missing(cluster, [two, one, one], now=NOW) == sorted([one, two])
    add(cluster, b"one")
    add(cluster, b"one")
    assert uploads.missing(cluster, [one, two], now=NOW) == [two]
    assert read(cluster, one) == b"one"


def test_other_bytes_are_refused_and_nothing_is_kept(cluster: Database) -> None:
    with pytest.raises(Refused) as caught:
        uploads.add(cluster, digest(b"one"), b"two", now=NOW)
    assert caught.value.code is Code.BAD_REQUEST
    assert uploads.missing(cluster, [digest(b"one"), digest(b"two")], now=NOW) == sorted(
        [digest(b"one"), digest(b"two")]
    )


def test_a_part_that_is_too_large(cluster: Database) -> None:
    with pytest.raises(Refused) as caught:
        add(cluster, b"x" * (uploads.PART_BYTES + 1))
    assert caught.value.code is Code.TOO_LARGE
    assert read(cluster, add(cluster, b"x" * uploads.PART_BYTES)) == b"x" * uploads.PART_BYTES


def test_what_nobody_asks_for_goes_after_a_day(cluster: Database) -> None:
    kept = add(cluster, b"one")
    assert trim(cluster, NOW + DAY) == (0, 0)
    assert trim(cluster, NOW + DAY + 1) == (1, 1)
    assert uploads.missing(cluster, [kept], now=NOW + DAY + 1) == [kept]


def test_who_asks_keeps_it_for_another_day(cluster: Database) -> None:
    """An apply that is about to name a part finds it, however old it is."""
    kept = add(cluster, b"one")
    assert uploads.missing(cluster, [kept], now=NOW + DAY) == []
    assert trim(cluster, NOW + DAY + 1) == (0, 0)
    assert trim(cluster, NOW + 2 * DAY + 1) == (1, 1)


def test_what_a_document_carries_stays_without_an_upload(cluster: Database) -> None:
    admit(cluster, "node-a")
    assert publish(cluster, publication(basis(cluster), document("route_policy", 1, b"one")), now=NOW) == {}
    kept = add(cluster, b"one")
    assert trim(cluster, NOW + DAY + 1) == (1, 0)
    assert read(cluster, kept) == b"one"
    assert uploads.missing(cluster, [kept], now=NOW + DAY + 1) == [kept], "an apply could not count on it"


def test_an_upload_whose_bytes_are_gone_is_missing(cluster: Database) -> None:
    kept = add(cluster, b"one")
    with cluster.record() as transaction:
        transaction.run(delete(schema.objects).where(schema.objects.c.key == f"{documents.SECTIONS}/{kept}"))
    assert uploads.missing(cluster, [kept], now=NOW) == [kept]
    add(cluster, b"one")
    assert uploads.missing(cluster, [kept], now=NOW) == []


def test_many_are_asked_for_at_once(cluster: Database) -> None:
    values = [str(number).encode() for number in range(1_200)]
    for value in values[:3]:
        add(cluster, value)
    assert len(uploads.missing(cluster, [digest(value) for value in values], now=NOW + 5)) == 1_197
    with cluster.read() as transaction:
        assert {row.asked_at for row in transaction.rows(select(schema.uploads.c.asked_at))} == {NOW + 5}

"""rules L3, L5, S84"""

import pytest

from store.base import tables
from store.base.errors import StoreError, StoreFault
from store.base.records import scope_key
from store.base.tables import Name


@pytest.mark.parametrize("name", Name)
def test_values_survive(node, name):
    """rules S84, L1"""
    table = node.store.table(name)
    table.put("one", {"url": "https://a:1", "at": 1.5, "parts": [1, b"x", None]})
    table.put_many({"two": 2, "three": True})
    node.reopen()
    table = node.store.table(name)
    assert table.get("one") == {"url": "https://a:1", "at": 1.5, "parts": (1, b"x", None)}
    assert set(table.items()) == {"one", "two", "three"}
    table.delete("two")
    assert table.get("two") is None
    table.clear()
    assert table.items() == {}


def test_bounds(node, monkeypatch):
    table = node.store.table(Name.PEERS)
    for key, value in (("", 1), ("k" * 401, 1), ("k", "x" * tables.MOST_BYTES)):
        with pytest.raises(StoreError) as caught:
            table.put(key, value)
        assert caught.value.fault is StoreFault.TOO_LARGE
    monkeypatch.setattr(tables, "MOST_ENTRIES", 3)
    with pytest.raises(StoreError):
        table.put_many({str(number): number for number in range(4)})
    assert table.items() == {}


def test_watermarks_do_not_mix_with_refusals(node):
    from store.base.records import Rejection

    node.store.rejections.record(Rejection(1.0, "head", "expired", 7, authenticated=True))
    marks = node.store.table(Name.WATERMARKS)
    marks.put("reported", 5)
    marks.clear()
    assert len(node.store.rejections.ring()) == 1


def test_planted_records_give_nothing(node, cluster):
    """rules L3: a role, key or policy in a table changes no standing"""
    before = node.store.standing()
    for name in Name:
        node.store.table(name).put("roles", {"roles": ["ingress"], "root": "key", "promote": True})
    assert node.store.standing() == before


def test_the_record_of_a_scope_that_is_damaged_after_it_was_read_is_not_believed(node, cluster):
    """rules L29: what is remembered of it is by all of its bytes."""
    node.apply(cluster.snapshot(1, {"a": 1}))
    with node.store.read() as reading:
        assert reading.scope("route_policy").version == 1
    with node.store._environment.write() as transaction:
        ((key, data),) = transaction.items("scopes", scope_key("route_policy"))
        transaction.put("scopes", key, data.replace(b"route_policy", b"route_police"))
    with node.store.read() as reading:
        assert "route_policy" not in reading.scopes()
        with pytest.raises(StoreError) as caught:
            reading.scope("route_policy")
    assert caught.value.fault is StoreFault.STORE_CORRUPT
    with node.store._environment.write() as transaction:
        transaction.put("scopes", key, data)
    with node.store.read() as reading:
        assert reading.scope("route_policy").version == 1

"""rules L37"""

import pytest

from store.base import meta
from store.base.environment import Environment
from store.base.errors import StoreError, StoreFault
from store.base.layout import Root
from store.base.migration import FORMAT, migrate
from tests.store.cluster import SCOPE


def set_format(node, found):
    with node.store._environment.write() as transaction:
        meta.write_format(transaction, found)
    node.close()


def test_a_newer_store_is_refused_and_left_alone(node, cluster):
    """rules L37: refuse to open, change nothing"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    data = node.store.paths.store / "data.mdb"
    set_format(node, FORMAT + 1)
    before = data.read_bytes()
    with pytest.raises(StoreError) as caught:
        node.open()
    assert caught.value.fault is StoreFault.STORE_FORMAT_NEWER
    assert data.read_bytes() == before
    assert list((data.parent.parent / "quarantine").iterdir()) == []
    with Root.open(node.path) as root:
        environment = Environment(data.parent, root.disk)
        with environment.write() as transaction:
            meta.write_format(transaction, FORMAT)
        environment.close()
    node.open()
    assert node.contents() == {"a": b"1"}


def test_an_older_store_is_migrated_in_one_transaction(node, cluster, monkeypatch):
    """rules L37"""
    node.apply(cluster.snapshot(1, {"a": 1}))
    ran = []
    monkeypatch.setattr("store.startup.STEPS", {0: ran.append})
    set_format(node, 0)
    node.open()
    assert len(ran) == 1
    assert [str(finding.happened) for finding in node.store.findings] == ["store_migrated"]
    assert node.contents() == {"a": b"1"}
    node.reopen()
    assert len(ran) == 1
    assert node.store.active(SCOPE) is not None


def test_a_migration_that_fails_changes_nothing(node, monkeypatch):
    """rules L37"""

    def fails(transaction):
        transaction.put(b"k", b"v")
        raise StoreError(StoreFault.STORE_IO, "a test")

    monkeypatch.setattr("store.startup.STEPS", {0: fails})
    set_format(node, 0)
    with pytest.raises(StoreError):
        node.open()
    monkeypatch.setattr("store.startup.STEPS", {0: lambda _: None})
    node.open()
    assert node.store.active("trust_bundle") is not None


def test_steps_run_in_order_and_none_is_left_out():
    """rules L37"""
    order = []
    steps = {number: lambda _, number=number: order.append(number) for number in range(1, 4)}
    migrate(None, 1, steps, newest=4)
    assert order == [1, 2, 3]
    with pytest.raises(StoreError):
        migrate(None, 0, steps, newest=4)
    with pytest.raises(StoreError) as caught:
        migrate(None, 5, steps, newest=4)
    assert caught.value.fault is StoreFault.STORE_FORMAT_NEWER

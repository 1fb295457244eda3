"""What a key that the roots have taken away has filled gives way, also in scopes that are listed still."""

import pytest

from store.base.errors import StoreError, StoreFault
from store.fsck.check import check
from tests.store.cluster import CLUSTER, SCOPE, Cluster, Node
from tests.store.test_leftovers import head, listing, repaired_bundle

OTHER = "qos_policy"


@pytest.fixture
def own():
    """A cluster whose keys a test changes."""
    return Cluster()


def fill(node, scope, step=1_000_000):
    """Versions of one scope, until none that is larger goes in."""
    size, version = 0, 0
    while step > 1000:
        version += 1
        content = {f"s{at}": [f"{scope} {version} {at} ".ljust(60_000, "x")] for at in range(0, size + step, 60_000)}
        try:
            node.apply(node.cluster.snapshot(version, content, scope))
            size += step
        except StoreError as error:
            assert error.fault is StoreFault.STORE_FULL
            node.store._slots[scope].drop()
            step //= 4


@pytest.fixture
def full(tmp_path, own):
    with Node(tmp_path / "root", own, map_bytes=4 << 20) as node:
        node.apply(own.bundle())
        for scope in (SCOPE, OTHER):
            fill(node, scope)
        yield node
    assert list(check(node.path, CLUSTER)) == []


@pytest.mark.parametrize("restarted", [False, True], ids=["", "after a restart"])
def test_what_the_new_epoch_lists_goes_in(full, own, restarted):
    """rules L35: he has filled the very scopes that the coordinator lists; all of it is active or previous"""
    marks = {scope: full.store.standing().marks[scope] for scope in (SCOPE, OTHER)}
    full.apply(repaired_bundle(own))
    own.epoch = 2
    new = {scope: own.snapshot(1, {"a": ["y" * 50_000] * 16}, scope) for scope in (SCOPE, OTHER)}
    full.apply(head(own, 1, {scope: listing(document) for scope, document in new.items()}))
    if restarted:
        full.reopen()
    assert full.store.fill_level() > 0.6
    for scope, document in new.items():
        full.apply(document)
        assert full.store.active(scope).envelope_bytes == document.envelope_bytes
        assert full.store.standing().marks[scope].version > marks[scope].version
    for version in (2, 3):
        for scope in (SCOPE, OTHER):
            full.apply(own.snapshot(version, {"a": [str(version)] + ["z" * 50_000] * 16}, scope))
    assert full.store.active(OTHER).version == (2, 3)


def test_nothing_gives_way_to_what_is_of_the_same_epoch(full, own):
    """rules L35: what is active stays, and serves"""
    before = {scope: full.store.active(scope).envelope_bytes for scope in (SCOPE, OTHER)}
    with pytest.raises(StoreError) as caught:
        full.apply(own.snapshot(900, {f"{at}": [f"{at}".ljust(60_000, "z")] for at in range(40)}))
    assert caught.value.fault is StoreFault.STORE_FULL
    full.store._slots[SCOPE].drop()
    assert {scope: full.store.active(scope).envelope_bytes for scope in (SCOPE, OTHER)} == before

import subprocess

import pytest

from store.fsck import child
from store.fsck.check import check
from tests.store.cluster import CLUSTER, Cluster, Node
from tests.world import readers


@pytest.fixture(scope="session", autouse=True)
def forked_readers():
    readers.use()


@pytest.fixture
def started_plainly(monkeypatch):
    """The child that reads, for tests whose claim it is."""
    monkeypatch.setattr(child, "subprocess", subprocess)


@pytest.fixture(scope="session")
def cluster():
    return Cluster()


@pytest.fixture
def node(tmp_path, cluster):
    """An enrolled node with the trust bundle; `check` runs over what is left when the test is over."""
    fresh = Node(tmp_path / "root", cluster)
    fresh.open()
    fresh.apply(cluster.bundle())
    yield fresh
    fresh.close()
    faults = list(check(fresh.path, CLUSTER))
    assert faults == []

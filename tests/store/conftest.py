import pytest

from store.fsck.check import check
from tests.store.cluster import CLUSTER, Cluster, Node


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

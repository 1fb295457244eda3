import pytest

from tests.agent.lab import Cluster, Node, Periphery
from tests.world import readers


@pytest.fixture(scope="session", autouse=True)
def forked_readers():
    readers.use()


@pytest.fixture(scope="session")
def cluster():
    return Cluster()


@pytest.fixture
def node(tmp_path, cluster):
    """A node with the trust bundle and a head, on a real store."""
    fresh = Node(tmp_path / "root", cluster)
    fresh.open()
    fresh.apply(cluster.bundle())
    fresh.apply(cluster.snapshot(1, {"cluster": {}}, scope="node_bootstrap", subject_node_id="node-1"))
    fresh.apply(cluster.head(1))
    yield fresh
    fresh.close()


@pytest.fixture
def periphery(tmp_path, node):
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    return Periphery(node, folder)
